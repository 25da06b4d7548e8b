//! The results of methods.

use contactd_contract::{InvalidReason, Operation};
use contactd_core::{Caller, ContactValue, Networks, Profile};
use http::StatusCode;
use serde_json::{Value, json};

use super::tools;
use super::version::{self, Version};
use crate::answer::{self, Answer};
use crate::refusal::Refusal;

/// For a model, once for all tools.
const INSTRUCTIONS: &str = "Looks up the personal phone number or e-mail address of a person by the URL of the person's profile on a \
     professional network. Every lookup is on record and counts against limits. If a tool refuses with rate_limited, quota_exceeded \
     or service_unavailable, wait for the seconds in retryAfter. Disclose what was found to nobody but the user who asked.";

/// How long clients may keep the list of tools, which changes with the token, in milliseconds.
const TOOLS_KEPT: u64 = 300_000;
/// How long they may keep what changes with a new version only.
const SERVICE_KEPT: u64 = 3_600_000;

fn service() -> Value {
    json!({ "name": "contactd", "title": "Contact lookups", "version": env!("CARGO_PKG_VERSION") })
}

/// The reply to a request.
#[derive(Clone, Copy)]
pub(super) struct Reply<'a> {
    /// The id of the request, as JSON.
    pub(super) id: &'a str,
    pub(super) version: Version,
}

impl Reply<'_> {
    /// The answer with a result, which is an object.
    pub(super) fn with(self, mut result: Value) -> Answer {
        if self.version == Version::Modern {
            result["resultType"] = "complete".into();
            result["_meta"]["io.modelcontextprotocol/serverInfo"] = service();
        }
        let id = self.id;
        answer::json(StatusCode::OK, format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"))
    }
}

pub(super) fn initialized() -> Value {
    json!({
        "protocolVersion": version::LEGACY,
        "capabilities": { "tools": {} },
        "serverInfo": service(),
        "instructions": INSTRUCTIONS,
    })
}

pub(super) fn discovered() -> Value {
    json!({
        "supportedVersions": version::SUPPORTED,
        "capabilities": { "tools": {} },
        "instructions": INSTRUCTIONS,
        "ttlMs": SERVICE_KEPT,
        "cacheScope": "public",
    })
}

pub(super) fn tools(caller: &Caller) -> Value {
    json!({ "tools": tools::list(caller), "ttlMs": TOOLS_KEPT, "cacheScope": "private" })
}

/// What a lookup found.
pub(super) fn found(operation: Operation, value: &ContactValue, profile: &Profile) -> Value {
    let field = match operation {
        Operation::FetchPhoneNumber => "phoneNumber",
        Operation::FetchPersonalEmail => "email",
    };
    json!({ "found": true, field: value.expose(), "profileUrl": profile.as_str() })
}

pub(super) fn not_found(profile: &Profile) -> Value {
    json!({ "found": false, "profileUrl": profile.as_str() })
}

/// The canonical form of a URL, or why it is refused.
pub(super) fn checked(networks: &Networks, checked: Result<Profile, InvalidReason>) -> Value {
    match checked {
        Ok(profile) => json!({ "canonical": profile.as_str(), "network": networks.network_of(&profile) }),
        Err(InvalidReason { code, hint, .. }) => json!({ "reason": code, "hint": hint }),
    }
}

/// The result of a tool that did what it does. Older clients read the text.
pub(super) fn of_tool(structured: Value) -> Value {
    json!({
        "content": [{ "type": "text", "text": structured.to_string() }],
        "structuredContent": structured,
        "isError": false,
    })
}

/// The result of a tool that refused. A model reads the text, a program `_meta`.
pub(super) fn refused(refusal: &Refusal) -> Value {
    let code = refusal.code().recorded();
    let mut text = format!("{code}: {}", refusal.message());
    let mut meta = json!({ "error_code": code });
    if let Some(reason) = refusal.reason() {
        text = format!("{text} {} {}", reason.meaning, reason.hint);
        meta["reason"] = reason.code.into();
        meta["hint"] = reason.hint.into();
    }
    if let Some(seconds) = refusal.retry_after() {
        text = format!("{text} Retry after {seconds} s.");
        meta["retryAfter"] = seconds.into();
    }
    json!({ "content": [{ "type": "text", "text": text }], "isError": true, "_meta": meta })
}
