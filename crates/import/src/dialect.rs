//! How a CSV file separates its columns.

use csv::ByteRecord;

use crate::COLUMNS;
use crate::ReadOptions;
use crate::suggest::meaning;

/// Characters that separate columns, the most common first.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Of how many columns it is looked what they mean.
const MOST_COMPARED: usize = 100;

/// What the first lines of a CSV file say about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub(crate) delimiter: u8,
    /// Whether the first line is not the header but Excel's `sep=;`.
    pub(crate) has_sep_line: bool,
}

impl Dialect {
    /// The usual one.
    pub(crate) const COMMAS: Self = Self { delimiter: b',', has_sep_line: false };

    /// The dialect of a file with this first line: the delimiter that was chosen, or the one of its `sep=` line, or the one that
    /// gives the most known columns, then the most that probably mean something, and then the most columns.
    pub(crate) fn of(first_line: &[u8], options: &ReadOptions) -> Self {
        let line = first_line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(first_line);
        let sep = sep_line(line);
        let detected = || {
            let fit = |delimiter: &u8| {
                let columns = columns(line, *delimiter);
                let known = columns.iter().filter(|name| is_known(name, options)).count();
                let meant = columns.iter().take(MOST_COMPARED).filter(|name| is_meant(name)).count();
                (known, meant, columns.len())
            };
            // Of equal ones the last is taken, which has to be the comma.
            DELIMITERS.into_iter().rev().max_by_key(fit).unwrap_or(b',')
        };
        let delimiter = options.delimiter.or(sep).unwrap_or_else(detected);
        Self { delimiter, has_sep_line: sep.is_some() }
    }
}

/// The delimiter that a `sep=` line names.
fn sep_line(line: &[u8]) -> Option<u8> {
    let line = line.trim_ascii_end();
    let line = line.strip_prefix(b"\"").and_then(|line| line.strip_suffix(b"\"")).unwrap_or(line);
    match line {
        [s, e, p, b'=', delimiter] if [*s, *e, *p].eq_ignore_ascii_case(b"sep") => Some(*delimiter),
        // The tab was trimmed.
        [s, e, p, b'='] if [*s, *e, *p].eq_ignore_ascii_case(b"sep") => Some(b'\t'),
        _ => None,
    }
}

fn columns(line: &[u8], delimiter: u8) -> ByteRecord {
    let mut columns = ByteRecord::new();
    let mut reader =
        csv::ReaderBuilder::new().delimiter(delimiter).has_headers(false).flexible(true).from_reader(line);
    // Reading from memory does not fail.
    let _ = reader.read_byte_record(&mut columns);
    columns
}

/// Whether a header probably means a column.
fn is_meant(name: &[u8]) -> bool {
    meaning(&String::from_utf8_lossy(name)).is_some()
}

fn is_known(name: &[u8], options: &ReadOptions) -> bool {
    let name = name.trim_ascii();
    let is_mapped = |(_, header): &(String, String)| name == header.trim().as_bytes();
    let is_own =
        |column: &&str| options.mapped(column).is_none() && name.eq_ignore_ascii_case(column.as_bytes());
    options.mapping.iter().any(is_mapped) || !options.only_mapped && COLUMNS.iter().any(is_own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delimiter_is_detected_from_the_header() {
        let options = ReadOptions::default();
        for (line, delimiter, has_sep_line) in [
            ("profileUrl,phone", b',', false),
            ("profileUrl;phone;\"Name, first\"\r\n", b';', false),
            ("Name, first;profileUrl;phone", b';', false),
            ("profileUrl\tphone\temail", b'\t', false),
            ("profileUrl|phone", b'|', false),
            ("\u{FEFF}profileUrl;phone", b';', false),
            ("sep=;\r\n", b';', true),
            ("\u{FEFF}SEP=|\n", b'|', true),
            ("\"sep=;\"\n", b';', true),
            ("sep=\t\n", b'\t', true),
            ("LinkedIn URL;Mobile;E-Mail", b';', false),
            ("Name, first, last, other;LinkedIn;Handy", b';', false),
            ("profileUrl", b',', false),
            ("", b',', false),
        ] {
            let dialect = Dialect { delimiter, has_sep_line };
            assert_eq!(Dialect::of(line.as_bytes(), &options), dialect, "{line:?}");
        }
        let chosen = ReadOptions { delimiter: Some(b'~'), ..ReadOptions::default() };
        assert_eq!(Dialect::of(b"sep=;\n", &chosen), Dialect { delimiter: b'~', has_sep_line: true });
        let mapped = ReadOptions {
            mapping: vec![("profileUrl".to_owned(), "a;b".to_owned())],
            ..ReadOptions::default()
        };
        assert_eq!(Dialect::of(b"a;b,c", &mapped).delimiter, b',');
    }
}
