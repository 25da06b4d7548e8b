//! What a check of an installation found.

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was checked.
    pub check: &'static str,
    /// How serious it is.
    pub severity: Severity,
    /// What was found.
    pub message: String,
    /// What to do about it.
    pub advice: Option<String>,
}

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Nothing to do.
    Ok,
    /// Something to look at.
    Warn,
    /// Something is wrong.
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
