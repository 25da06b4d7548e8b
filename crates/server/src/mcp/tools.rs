//! The tools, as clients see them.

use contactd_contract::Operation;
use contactd_core::Caller;
use serde_json::{Value, json};

use crate::lookup::kind;

/// A tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    LookUp(Operation),
    CheckUrl,
}

impl Tool {
    const ALL: [Self; 3] = [
        Self::LookUp(Operation::FetchPhoneNumber),
        Self::LookUp(Operation::FetchPersonalEmail),
        Self::CheckUrl,
    ];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::LookUp(Operation::FetchPhoneNumber) => "fetch_phone_number",
            Self::LookUp(Operation::FetchPersonalEmail) => "fetch_personal_email",
            Self::CheckUrl => "check_profile_url",
        }
    }

    fn may_be_called_by(self, caller: &Caller) -> bool {
        match self {
            Self::LookUp(operation) => caller.may_look_up(kind(operation)),
            Self::CheckUrl => true,
        }
    }

    fn described(self) -> Value {
        let (title, description, output) = match self {
            Self::LookUp(operation) => looking_up(operation),
            Self::CheckUrl => (
                "Check a profile URL",
                "Says whether a text is the URL of a person's profile that this service can look up. Gives its canonical form, or \
                 why it is refused and what to do. Looks nobody up and takes nothing of the quota."
                    .to_owned(),
                json!({
                    "type": "object",
                    "properties": {
                        "canonical": { "type": "string", "description": "The canonical URL, unless it is refused." },
                        "network": { "type": "string", "description": "The network, such as linkedin, unless it is refused." },
                        "reason": { "type": "string", "description": "If it is refused: why, as a code." },
                        "hint": { "type": "string", "description": "If it is refused: what to do about it." },
                    },
                }),
            ),
        };
        json!({
            "name": self.name(),
            "title": title,
            "description": description,
            "inputSchema": {
                "type": "object",
                "properties": {
                    "profileUrl": {
                        "type": "string",
                        "description": "The URL of the person's profile, such as https://www.linkedin.com/in/ada-quell-1a2b3c.",
                    },
                },
                "required": ["profileUrl"],
            },
            "outputSchema": output,
            "annotations": { "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false },
        })
    }
}

fn looking_up(operation: Operation) -> (&'static str, String, Value) {
    let (title, field, what, form) = match operation {
        Operation::FetchPhoneNumber => (
            "Fetch a phone number",
            "phoneNumber",
            "personal phone number",
            "The number in international form. Only if one was found.",
        ),
        Operation::FetchPersonalEmail => (
            "Fetch a personal e-mail address",
            "email",
            "personal e-mail address",
            "The address. Only if one was found.",
        ),
    };
    let description = format!(
        "Returns the {what} of the person with this profile, if one is on file and may be disclosed. Otherwise found is false: that \
         answer is final, so do not ask again with other spellings. Each call is on record, and what is found counts against a quota, \
         so ask only about people whom the user has named."
    );
    let output = json!({
        "type": "object",
        "properties": {
            "found": { "type": "boolean" },
            field: { "type": "string", "description": form },
            "profileUrl": { "type": "string", "description": "The profile URL in its canonical form." },
        },
        "required": ["found", "profileUrl"],
    });
    (title, description, output)
}

/// The tools that a caller may use, always in the same order.
pub(super) fn list(caller: &Caller) -> Value {
    let tools = Tool::ALL.into_iter().filter(|tool| tool.may_be_called_by(caller));
    json!(tools.map(Tool::described).collect::<Vec<_>>())
}
