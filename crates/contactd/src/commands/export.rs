//! `contactd export`: prints everything that is held, in a format that can be imported again.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use contactd_core::{Detail, Kind, Profile, Timestamp, csv_cell};
use contactd_import::COLUMNS;
use serde::Serialize;

use crate::cli::{ExportArgs, ExportFormat};
use crate::context::Context;
use crate::output;
use crate::progress::Working;

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

pub(crate) async fn run(context: &Context, args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let mut writer = Writer::new(args)?;
    let mut failed = None;
    let working = Working::beside_data("exporting");
    let mut profiles = 0;
    let visit = |profile: &Profile, details: &[Detail]| {
        profiles += 1;
        if let Some(working) = &working {
            working.count(profiles, "profiles");
        }
        failed = writer.write(profile, details).err();
        failed.is_none()
    };
    let actor = context.actor_for(args.ticket.as_deref());
    let exported = context.services.subjects.export(&actor, args.source.as_deref(), visit).await;
    drop(working);
    exported?;
    if let Some(error) = failed {
        return Err(error);
    }
    writer.finish()?;
    if let (0, Some(source)) = (profiles, &args.source) {
        output::words(format_args!("nothing of source {source} is held; `contactd stats` lists the sources"));
    }
    Ok(ExitCode::SUCCESS)
}

enum Writer {
    Json { out: BufWriter<io::Stdout>, is_array: bool, written: u64 },
    Csv(Box<csv::Writer<io::Stdout>>),
}

impl Writer {
    fn new(args: &ExportArgs) -> anyhow::Result<Self> {
        Ok(match args.format {
            ExportFormat::Jsonl => Self::Json {
                out: BufWriter::with_capacity(1 << 16, io::stdout()),
                is_array: args.json,
                written: 0,
            },
            ExportFormat::Csv => {
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
                    |kind| details.iter().filter(move |detail| detail.kind == kind).map(exported).collect();
                let line = ExportedProfile {
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
                    let exported = exported(detail);
                    let confidence = exported.confidence.to_string();
                    let time = |at: Option<Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
                    let for_kind = |kind, text| if detail.kind == kind { text } else { "" };
                    let cells = [
                        profile.as_str(),
                        for_kind(Kind::Phone, exported.value),
                        for_kind(Kind::Email, exported.value),
                        for_kind(Kind::Phone, exported.label),
                        for_kind(Kind::Email, exported.label),
                        &confidence,
                        &time(exported.observed_at),
                        exported.basis.unwrap_or_default(),
                        &time(exported.expires_at),
                        "",
                        exported.source,
                    ];
                    out.write_record(cells.map(csv_cell).iter().map(|cell| cell.as_bytes()))?;
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
