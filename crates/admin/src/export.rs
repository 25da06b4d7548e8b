//! Exports: everything that is held, as a file that can be imported again.

use std::io::{self, Write};

use contactd_core::{COLUMNS, Detail, Kind, Profile, Timestamp, csv_row};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The form of an export: one detail on each line, or one profile on each line as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names of the forms")]
pub enum ExportFormat {
    Csv,
    Jsonl,
    // All profiles in one JSON array, which only the command makes.
    #[serde(skip)]
    JsonArray,
}

/// Writes profiles with their details.
pub struct ExportWriter<W: Write> {
    format: ExportFormat,
    out: W,
    profiles: u64,
    details: u64,
}

/// A profile, as one line of JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExportedProfile<'a> {
    profile_url: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    phones: Vec<ExportedDetail<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    emails: Vec<ExportedDetail<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExportedDetail<'a> {
    value: &'a str,
    label: &'static str,
    confidence: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    basis: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    source: &'a str,
}

impl<W: Write> ExportWriter<W> {
    /// Begins a file.
    pub fn new(format: ExportFormat, mut out: W) -> io::Result<Self> {
        if format == ExportFormat::Csv {
            out.write_all(csv_row(COLUMNS).as_bytes())?;
        }
        Ok(Self { format, out, profiles: 0, details: 0 })
    }

    /// Adds a profile.
    pub fn write(&mut self, profile: &Profile, details: &[Detail]) -> io::Result<()> {
        if self.format == ExportFormat::Csv {
            details.iter().try_for_each(|detail| self.out.write_all(row(profile, detail).as_bytes()))?;
        } else {
            let of_kind =
                |kind| details.iter().filter(move |detail| detail.kind == kind).map(exported).collect();
            let line = ExportedProfile {
                profile_url: profile.as_str(),
                phones: of_kind(Kind::Phone),
                emails: of_kind(Kind::Email),
            };
            let is_array = self.format == ExportFormat::JsonArray;
            if is_array {
                self.out.write_all(if self.profiles == 0 { b"[" } else { b"," })?;
            }
            serde_json::to_writer(&mut self.out, &line)?;
            if !is_array {
                self.out.write_all(b"\n")?;
            }
        }
        self.profiles += 1;
        self.details += details.len() as u64;
        Ok(())
    }

    /// How many profiles were written, with how many details.
    pub const fn written(&self) -> (u64, u64) {
        (self.profiles, self.details)
    }

    /// Completes the file.
    pub fn finish(mut self) -> io::Result<()> {
        if self.format == ExportFormat::JsonArray {
            self.out.write_all(if self.profiles == 0 { b"[]\n" } else { b"]\n" })?;
        }
        self.out.flush()
    }
}

/// A detail as a row of CSV.
fn row(profile: &Profile, detail: &Detail) -> String {
    let exported = exported(detail);
    let time = |at: Option<Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
    let for_kind = |kind, text| if detail.kind == kind { text } else { "" };
    csv_row([
        profile.as_str(),
        for_kind(Kind::Phone, exported.value),
        for_kind(Kind::Email, exported.value),
        for_kind(Kind::Phone, exported.label),
        for_kind(Kind::Email, exported.label),
        &exported.confidence.to_string(),
        &time(exported.observed_at),
        exported.basis.unwrap_or_default(),
        &time(exported.expires_at),
        "",
        exported.source,
    ])
}

fn exported(detail: &Detail) -> ExportedDetail<'_> {
    ExportedDetail {
        value: detail.value.expose(),
        label: detail.label.name(),
        confidence: detail.confidence,
        observed_at: detail.observed_at,
        basis: detail.basis.as_deref(),
        expires_at: detail.expires_at,
        source: &detail.source,
    }
}
