//! What a check found.

use contactd_core::{Finding, Severity};
use schemars::JsonSchema;
use serde::Serialize;

/// The result of one check.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "FindingShown")]
pub struct FindingView {
    /// What was checked.
    pub check: &'static str,
    pub verdict: Verdict,
    /// What was found.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// How serious a finding is.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Ok,
    Warn,
    Fail,
}

impl From<Finding> for FindingView {
    fn from(Finding { check, severity, message, advice }: Finding) -> Self {
        let verdict = match severity {
            Severity::Ok => Verdict::Ok,
            Severity::Warn => Verdict::Warn,
            Severity::Fail => Verdict::Fail,
        };
        Self { check, verdict, message, advice }
    }
}
