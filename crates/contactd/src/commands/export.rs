//! `contactd export`: what is held, in the form in which it can be imported again.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use contactd_core::store::Details;
use contactd_core::{Detail, Kind, Profile};
use serde::Serialize;

use crate::cli::{ExportArgs, Format};
use crate::commands::import::rows::COLUMNS;
use crate::context::Context;
use crate::misuse::Misuse;

/// A profile, as a line of JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    profile_url: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    phones: Vec<Held<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    emails: Vec<Held<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Held<'a> {
    value: &'a str,
    label: &'static str,
    confidence: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    basis: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    source: &'a str,
}

pub(crate) async fn run(context: &Context, args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let mut writer = Writer::new(args)?;
    let mut failed = None;
    let visit = |profile: &Profile, mut details: Vec<Detail>| {
        details.retain(|detail| args.source.as_ref().is_none_or(|source| *source == detail.source));
        // The same order in every store that holds the same.
        details.sort_by(|a, b| {
            (a.kind, a.value.expose(), &a.source).cmp(&(b.kind, b.value.expose(), &b.source))
        });
        let written = if details.is_empty() { Ok(()) } else { writer.write(profile, &details) };
        failed = written.err();
        failed.is_none()
    };
    context.store.visit_all(visit).await?;
    if let Some(error) = failed {
        return Err(error);
    }
    writer.finish()?;
    Ok(ExitCode::SUCCESS)
}

enum Writer {
    Json { out: BufWriter<io::Stdout>, is_array: bool, written: u64 },
    Csv(Box<csv::Writer<io::Stdout>>),
}

impl Writer {
    fn new(args: &ExportArgs) -> anyhow::Result<Self> {
        Ok(match args.format {
            Format::Jsonl => Self::Json {
                out: BufWriter::with_capacity(1 << 16, io::stdout()),
                is_array: args.json,
                written: 0,
            },
            Format::Parquet => {
                return Err(
                    Misuse("an export is JSON lines or CSV; say --format jsonl or csv".to_owned()).into()
                );
            }
            Format::Csv => {
                let mut writer = csv::Writer::from_writer(io::stdout());
                writer.write_record(COLUMNS)?;
                Self::Csv(Box::new(writer))
            }
        })
    }

    fn write(&mut self, profile: &Profile, details: &[Detail]) -> anyhow::Result<()> {
        match self {
            Self::Json { out, is_array, written } => {
                let of_kind =
                    |kind| details.iter().filter(move |detail| detail.kind == kind).map(held).collect();
                let line = Line {
                    profile_url: profile.as_str(),
                    phones: of_kind(Kind::Phone),
                    emails: of_kind(Kind::Email),
                };
                if *is_array {
                    out.write_all(if *written == 0 { b"[" } else { b"," })?;
                }
                serde_json::to_writer(&mut *out, &line)?;
                *written += 1;
                if !*is_array {
                    out.write_all(b"\n")?;
                }
            }
            Self::Csv(out) => {
                for detail in details {
                    let held = held(detail);
                    let confidence = held.confidence.to_string();
                    let for_kind = |kind, text| if detail.kind == kind { text } else { "" };
                    out.write_record([
                        profile.as_str(),
                        for_kind(Kind::Phone, held.value),
                        for_kind(Kind::Email, held.value),
                        for_kind(Kind::Phone, held.label),
                        for_kind(Kind::Email, held.label),
                        &confidence,
                        held.observed_at.as_deref().unwrap_or_default(),
                        held.basis.unwrap_or_default(),
                        held.expires_at.as_deref().unwrap_or_default(),
                        "",
                        held.source,
                    ])?;
                }
            }
        }
        Ok(())
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Json { mut out, is_array, written } => {
                if is_array {
                    out.write_all(if written == 0 { b"[]\n" } else { b"]\n" })?;
                }
                out.flush()
            }
            Self::Csv(mut out) => out.flush(),
        }
    }
}

fn held(detail: &Detail) -> Held<'_> {
    Held {
        value: detail.value.expose(),
        label: detail.label.name(),
        confidence: detail.confidence,
        observed_at: detail.observed_at.map(|at| at.to_string()),
        basis: detail.basis.as_deref(),
        expires_at: detail.expires_at.map(|at| at.to_string()),
        source: &detail.source,
    }
}
