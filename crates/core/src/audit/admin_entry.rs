//! What the journal records about an administrative action.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::access::names_nobody;
use crate::{Actor, Role, Timestamp, hex};

/// The record of one administrative action. It contains no value and no profile, only digests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdminEntry {
    /// A random id, so that the entry is recorded once even if recording it is repeated.
    pub entry: String,
    /// When it was asked for.
    pub time: Timestamp,
    /// Who asked for it.
    pub actor: String,
    /// How the request came in: one of the names of [`Via`](crate::Via).
    pub via: String,
    /// What was done, named after its command.
    pub operation: String,
    /// `done` or `failed`.
    pub outcome: AdminOutcome,
    /// How much of what was done.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u64>,
    /// The digests of the people, numbers and addresses it was about, each as `key:digest`; the first
    /// [`MOST_SUBJECTS`] of them, or `list:key:name` for a list file with all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<String>,
    /// The case it was done for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
    /// What it was about, if that is not a person: the name of a source, the id of a token, the names of settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    /// The seal of the state after a change of tokens, opt-outs or accounts of a cluster: its counter, its number and its tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// How many subjects an entry names.
pub const MOST_SUBJECTS: usize = 50;
/// Longer texts in an entry are cut.
const MOST_CHARS: usize = 200;

/// How an administrative action ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AdminOutcome {
    /// It was done.
    Done,
    /// It failed. Nothing was changed, or only a part of what was asked for.
    Failed,
}

impl AdminOutcome {
    /// The name used in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

impl AdminEntry {
    /// What the journal calls it when somebody checks what an import would do.
    pub const IMPORT_CHECK: &str = "import check";

    /// The entry for an action that is done. Logs that it was asked for.
    pub fn new(actor: &Actor, operation: &'static str, time: Timestamp) -> Self {
        actor.note(operation);
        Self {
            entry: random_id(time),
            time,
            actor: shortened(&actor.name),
            via: actor.via.name().to_owned(),
            operation: operation.to_owned(),
            outcome: AdminOutcome::Done,
            counts: BTreeMap::new(),
            subjects: Vec::new(),
            ticket: actor.ticket.as_deref().map(shortened),
            what: None,
            state: None,
        }
    }

    /// Adds counts.
    pub fn counted(&self, counts: &[(&str, u64)]) -> Self {
        let mut entry = self.clone();
        entry.counts.extend(counts.iter().map(|&(name, count)| (name.to_owned(), count)));
        entry
    }

    /// The same entry for another part of the action, with an id of its own.
    #[must_use]
    pub fn again(&self) -> Self {
        Self { entry: random_id(self.time), ..self.clone() }
    }

    /// Says that it was about everybody in a list file, whose digests are made with the key of this id.
    #[must_use]
    pub fn about_list(mut self, key: &str, name: &str) -> Self {
        self.subjects = vec![Self::list_name(key, name)];
        self
    }

    /// How an entry names a list file.
    pub fn list_name(key: &str, name: &str) -> String {
        format!("list:{key}:{name}")
    }

    /// The name of the list file that says whom it was about, if there is one.
    pub fn list(&self) -> Option<&str> {
        // Only what can be the name of a file there.
        let is_name = |name: &&str| name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        self.subjects.iter().find_map(|subject| {
            let name = subject.strip_prefix("list:")?.split(':').nth(1);
            name.filter(is_name)
        })
    }

    /// Says what it was about. Text that looks like personal data or like a token's secret, such as an address in the place
    /// of an id, is left out: the journal cannot forget it.
    #[must_use]
    pub fn about(mut self, what: &str) -> Self {
        self.what = Some(if may_be_recorded(what) { shortened(what) } else { "(left out)".to_owned() });
        self
    }

    /// Says which user, source or setting it was about, and which role they have, by a name that was checked when it was given: it is
    /// recorded as it is, also if it has many digits. A name from before there was that check is left out if it may be personal.
    #[must_use]
    pub fn about_name(mut self, name: &str, role: Option<Role>) -> Self {
        let name = if names_nobody(name) { shortened(name) } else { "(left out)".to_owned() };
        self.what = Some(role.map_or(name.clone(), |role| format!("{name} as {role}")));
        self
    }

    /// Says which node it was about, by the id that the store has: that is never personal, although it may look like a number.
    #[must_use]
    pub fn about_node(mut self, id: &str) -> Self {
        self.what = Some(shortened(id));
        self
    }

    /// The same action, failed.
    pub fn failed(&self) -> Self {
        Self { outcome: AdminOutcome::Failed, ..self.clone() }
    }
}

/// An entry, as read from the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminRecord {
    /// The number of its line.
    pub seq: u64,
    /// The node in whose journal it is.
    pub node: String,
    /// What it says.
    pub entry: AdminEntry,
}

pub(super) fn may_be_recorded(text: &str) -> bool {
    let is_token_id = text
        .strip_prefix("tok_")
        .or_else(|| text.strip_prefix("adm_"))
        .is_some_and(|id| id.len() <= 16 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    is_token_id
        || (digits < 7 && !text.contains(['@', '/']) && !text.contains("ctd_") && !text.contains("cta_"))
}

fn shortened(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MOST_CHARS).collect()
}

fn random_id(time: Timestamp) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut bytes = [0; 16];
    // Without randomness, time and count make it unique among the entries of this process.
    if getrandom::fill(&mut bytes).is_err() {
        bytes[..8].copy_from_slice(&time.millis().to_be_bytes());
        bytes[8..].copy_from_slice(&COUNT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    }
    hex::encode(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Via;

    #[test]
    fn what_may_be_personal_or_secret_is_left_out() {
        let entry =
            AdminEntry::new(&Actor::new("olga", Via::CommandLine), "export", Timestamp::from_millis(0));
        let what = |text: &str| entry.clone().about(text).what.unwrap_or_default();
        for good in [
            "crm",
            "crm, ats",
            "tok_1234567890Ab",
            "adm_1234567890Ab",
            "audit.keep limits.rate",
            "42",
            "list of 2026",
        ] {
            assert_eq!(what(good), good);
        }
        for bad in [
            "ada@example.com",
            "+14155550101",
            "https://www.linkedin.com/in/ada-quell",
            "ctd_0123456789abcdefghijABCDEFGHIJ0123456789",
            "cta_0123456789abcdefghijABCDEFGHIJ0123456789",
            "tok_ada@example.com",
            "adm_ada@example.com",
        ] {
            assert_eq!(what(bad), "(left out)", "{bad}");
        }
        for (name, recorded) in
            [("svc-20261117", "svc-20261117 as admin"), ("4155550101", "(left out) as admin")]
        {
            assert_eq!(entry.clone().about_name(name, Some(Role::Admin)).what.as_deref(), Some(recorded));
        }
        assert_eq!(entry.about_node("4155550a").what.as_deref(), Some("4155550a"));
    }
}
