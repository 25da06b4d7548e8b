//! What to do about files and values that an import refuses. The flags are named here, because only the command has them.

use std::collections::BTreeMap;

use contactd_import::{FileError, InputRead, Warning, listed};
use contactd_services::{ImportError, ImportReport};
use serde::Serialize;

use crate::misuse::Misuse;

/// The report, and what to do about the reasons in it.
#[derive(Serialize)]
pub(super) struct Advised<'a> {
    #[serde(flatten)]
    report: &'a ImportReport,
    hints: BTreeMap<&'static str, String>,
}

impl<'a> Advised<'a> {
    pub(super) fn new(report: &'a ImportReport) -> Self {
        let reasons = report.rejected_by_reason.keys();
        let hints = reasons.filter_map(|reason| Some((*reason, hint(reason, &report.inputs)?)));
        Self { report, hints: hints.collect() }
    }
}

/// What to do about a reason that a flag or another export of the files removes.
pub(super) fn hint(reason: &str, inputs: &[InputRead]) -> Option<String> {
    if reason == "not_utf8" {
        return Some(other_encoding(inputs));
    }
    let hint = match reason {
        "spreadsheet_notation" => {
            "the spreadsheet has replaced the value: format the column as text, enter the values again if they are lost, and export again"
        }
        "date_format_needed" => {
            "name the order of day and month with --date-format, such as --date-format '%d.%m.%Y'"
        }
        "invalid_date" => "write 2026-05-01 or RFC 3339, or name the format of the file with --date-format",
        "phone_region_needed" => {
            "write the numbers with + and the country code, or name the country with --region"
        }
        "basis_missing" => "--require-basis is set: fill in the basis column",
        "too_many_fields" => {
            "the row has more fields than the header: a field with the delimiter in it needs quotes"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

/// In which encoding bytes were not valid, and which one they may be in.
fn other_encoding(inputs: &[InputRead]) -> String {
    let mut names: Vec<&str> = inputs.iter().filter_map(|input| input.encoding).collect();
    names.sort_unstable();
    names.dedup();
    let other = if names == ["UTF-8"] { "windows-1252" } else { "windows-1250 or --encoding macintosh" };
    let names = names.join(" or ");
    format!(
        "some bytes are not valid in {names}, as which the file was read: correct them, or name its encoding, such as --encoding {other}"
    )
}

/// How an input was read, if that is not the only way.
pub(crate) fn read_as(input: &InputRead) -> Option<String> {
    let encoding = input.encoding.filter(|encoding| *encoding != "UTF-8");
    let sheet = input.sheet.as_ref().map(|sheet| match input.other_sheets.as_slice() {
        [] => format!("sheet {sheet}"),
        others => format!("sheet {sheet}; not read: {} (--sheet names another one)", listed(others)),
    });
    let delimiter = input.delimiter.filter(|delimiter| *delimiter != ',').map(|delimiter| match delimiter {
        ';' => "semicolons".to_owned(),
        '\t' => "tabs".to_owned(),
        '|' => "vertical bars".to_owned(),
        other => format!("{other:?}"),
    });
    let how = [
        encoding.map(|name| format!("in {name}")),
        sheet,
        delimiter.map(|name| format!("columns separated by {name}")),
    ];
    let how = how.into_iter().flatten().collect::<Vec<_>>().join(", ");
    (!how.is_empty()).then(|| format!("read {} as {}, {how}", input.file, input.format))
}

/// The columns that were not used, and the mapping that was probably meant.
pub(super) fn not_used(report: &ImportReport) -> Option<String> {
    if report.columns_not_used.is_empty() {
        return None;
    }
    let names = listed(&report.columns_not_used);
    Some(match mapping(&report.suggested_mapping) {
        flags if flags.is_empty() => format!("columns not used: {names}"),
        flags => format!("columns not used: {names} (did you mean {flags}?)"),
    })
}

/// What to check.
pub(super) fn warning(warning: &Warning) -> String {
    if warning.warning == Warning::OTHER_COUNTRY {
        return format!(
            "numbers without + are probably not of the country of --region, but of {}: check it before you import",
            warning.countries.join(" or ")
        );
    }
    let is_one_file = warning.examples.windows(2).all(|pair| pair[0].file == pair[1].file);
    let lines = warning.examples.iter().map(|at| match is_one_file {
        true => at.line.to_string(),
        false => format!("{} of {}", at.line, at.file),
    });
    let lines = lines.collect::<Vec<_>>().join(", ");
    let more = if warning.count > warning.examples.len() as u64 { ", …" } else { "" };
    let (numbers, line) = match warning.count {
        1 => ("number begins", "line"),
        _ => ("numbers begin", "lines"),
    };
    let count = warning.count;
    format!(
        "{count} {numbers} with the country code of the region, without a +: check {line} {lines}{more}, and write such numbers with +"
    )
}

fn mapping<'a>(suggested: impl IntoIterator<Item = (&'a &'static str, &'a String)>) -> String {
    let flags = suggested.into_iter().map(|(column, header)| format!("--map {column}={}", quoted(header)));
    flags.collect::<Vec<_>>().join(" ")
}

/// A header as it is written in a shell.
fn quoted(header: &str) -> String {
    match header.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.')) {
        true => header.to_owned(),
        false if header.contains(['"', '$', '`', '\\', '!']) => {
            format!("'{}'", header.replace('\'', "'\\''"))
        }
        false => format!("\"{header}\""),
    }
}

/// An error of an import, with the flag that helps. An error in how files were named is a usage error.
pub(super) fn advised(error: ImportError) -> anyhow::Error {
    match &error {
        ImportError::Rows(error) => advised_file(error),
        ImportError::TooManyWithdrawn { .. } => {
            anyhow::anyhow!("{error}. If the files are complete, allow it with --max-withdrawn 100%")
        }
        _ => error.into(),
    }
}

/// The same for an error about files.
pub(super) fn advised_file(error: &FileError) -> anyhow::Error {
    let advice = match error.inner() {
        FileError::MissingColumn { missing, suggested, .. } => {
            let flags = mapping(suggested.iter().map(|(column, header)| (column, header)));
            let needed =
                missing.split(" or ").any(|column| suggested.iter().any(|(name, _)| *name == column));
            match needed {
                true => format!("; try {flags}"),
                false => format!(
                    "; choose one with --map {}=\"its header\"",
                    missing.split(" or ").next().unwrap_or(missing)
                ),
            }
        }
        FileError::MappedHeader { found, .. } if found.len() < 2 => {
            "; the header has to be the first line: remove what is above it".to_owned()
        }
        FileError::NoSheet { .. } => "; name one with --sheet".to_owned(),
        FileError::NoSource => "; name the source with --source NAME".to_owned(),
        FileError::RejectsTaken(_)
        | FileError::RejectsAreInput(_)
        | FileError::RejectsAreLink(_)
        | FileError::RejectsUnwritable { .. } => " with --rejects FILE".to_owned(),
        _ => String::new(),
    };
    match error.inner() {
        FileError::RejectsAreInput(_) => Misuse(format!("{error}{advice}")).into(),
        _ => anyhow::anyhow!("{error}{advice}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_quoted_for_the_shell() {
        assert_eq!(quoted("Mobile"), "Mobile");
        assert_eq!(quoted("LinkedIn URL"), "\"LinkedIn URL\"");
        assert_eq!(quoted("it's $1"), "'it'\\''s $1'");
    }
}
