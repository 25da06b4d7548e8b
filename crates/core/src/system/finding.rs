//! What a check of an installation found.

use schemars::JsonSchema;
use serde::Serialize;

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "FindingShown")]
pub struct Finding {
    /// What was checked.
    pub check: &'static str,
    #[serde(rename = "verdict")]
    #[expect(
        missing_docs,
        reason = "the type says it, and a doc comment would be a description on the wire"
    )]
    pub severity: Severity,
    /// What was found.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Verdict")]
#[expect(missing_docs, reason = "the names say it, and doc comments would be descriptions on the wire")]
pub enum Severity {
    Ok,
    Warn,
    Fail,
}

impl Finding {
    /// The check found no problem.
    pub const fn ok(check: &'static str, message: String) -> Self {
        Self { check, severity: Severity::Ok, message, advice: None }
    }

    /// Something to look at.
    pub fn warn(check: &'static str, message: String, advice: &str) -> Self {
        Self { check, severity: Severity::Warn, message, advice: Some(advice.to_owned()) }
    }

    /// Something is wrong.
    pub fn fail(check: &'static str, message: String, advice: &str) -> Self {
        Self { check, severity: Severity::Fail, message, advice: Some(advice.to_owned()) }
    }
}
