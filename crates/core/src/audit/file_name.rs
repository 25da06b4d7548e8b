//! Names of files, which are kept in the list of imports when the files are long gone.

use super::admin_entry::may_be_recorded;

/// What may follow a name that is left out: it says what format the file had.
const ENDINGS: [&str; 9] = [".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".parquet", ".gz", ".zst"];

/// The name of a file as it may be kept: without a name that looks like a number, an address or a secret. A date does not.
pub fn recordable_file_name(name: &str) -> String {
    if may_be_recorded(&without_dates(name)) {
        return name.to_owned();
    }
    let mut stem = name;
    let ends_with = |stem: &str, ending: &str| {
        stem.len()
            .checked_sub(ending.len())
            .and_then(|at| stem.get(at..))
            .is_some_and(|end| end.eq_ignore_ascii_case(ending))
    };
    while let Some(ending) = ENDINGS.iter().find(|ending| ends_with(stem, ending)) {
        stem = &stem[..stem.len() - ending.len()];
    }
    format!("(left out){}", &name[stem.len()..])
}

/// A text without the dates in it, such as `2026-11-18` and `20261118`.
fn without_dates(text: &str) -> String {
    let mut left = String::new();
    let (mut rest, mut is_in_number) = (text, false);
    while let Some(first) = rest.chars().next() {
        let date = if is_in_number { None } else { date_length(rest.as_bytes()) };
        is_in_number = first.is_ascii_digit();
        match date {
            Some(length) => rest = &rest[length..],
            None => {
                left.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    left
}

/// How long the date is with which a text begins, if it begins with one and no digit follows.
fn date_length(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    let mut number = |digits: usize| {
        at += usize::from(at > 0 && matches!(text.get(at), Some(b'-' | b'_' | b'.')));
        let number = std::str::from_utf8(text.get(at..at + digits)?).ok()?;
        at += digits;
        number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse::<u32>().ok())?
    };
    let date = (number(4)?, number(2)?, number(2)?);
    let is_date = matches!(date, (2000..2100, 1..=12, 1..=31));
    (is_date && !text.get(at).is_some_and(u8::is_ascii_digit)).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_an_address_or_a_number_is_left_out_and_one_with_a_date_is_kept() {
        for kept in
            ["crm export.csv", "crm-2026-11-18.csv", "20261118_093000 all.jsonl.gz", "müller.csv", "-"]
        {
            assert_eq!(recordable_file_name(kept), kept);
        }
        for (name, expected) in [
            ("ada@example.com.csv", "(left out).csv"),
            ("ada@example.com", "(left out)"),
            ("of +1 415 555 0101.CSV.gz", "(left out).CSV.gz"),
            ("14155550101", "(left out)"),
            ("2026-11-18 4155550101.csv", "(left out).csv"),
            ("120261118.csv", "(left out).csv"),
            ("20261399.csv", "(left out).csv"),
            ("202611180.csv", "(left out).csv"),
            ("ctd_x.é", "(left out)"),
        ] {
            assert_eq!(recordable_file_name(name), expected, "{name}");
        }
    }
}
