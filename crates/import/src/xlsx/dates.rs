//! Which cells are dates, and which date a number is: a workbook stores days since 1900 or 1904, and how a cell shows them.

use std::io::Read;

use contactd_core::Timestamp;

use crate::FileError;
use crate::xml::{Xml, too_long};

/// How many bytes the part with the formats may have, and how many formats of cells Excel allows.
const MAX_PART: u64 = 64 << 20;
const MAX_STYLES: usize = 65_536;

/// From the first of January 1900 or 1904 to that of 1970.
const DAYS_TO_1970: f64 = 25_569.0;
const DAYS_TO_1904: f64 = 1_462.0;

/// The last day that a workbook can have, in the year 9999.
const LAST_DAY: f64 = 2_958_466.0;

/// Which formats of cells show dates.
#[derive(Default)]
pub(crate) struct Dates {
    is_date: Vec<bool>,
    counts_from_1904: bool,
    /// Whether midnight is written too: then no format can take the day for the month.
    has_time: bool,
}

impl Dates {
    pub(crate) fn read(
        content: Option<Box<dyn Read>>,
        counts_from_1904: bool,
        has_time: bool,
    ) -> Result<Self, FileError> {
        let mut dates = Self { counts_from_1904, has_time, ..Self::default() };
        let Some(content) = content else { return Ok(dates) };
        let mut xml = Xml::read(content, MAX_PART);
        let (mut own, mut is_of_cells) = (Vec::new(), false);
        while let Some((element, _)) =
            xml.next_of(&["numFmt", "cellStyleXfs", "cellXfs", "cellStyles", "xf"])?
        {
            let number = element.attribute("numFmtId").and_then(|id| id.parse::<u32>().ok());
            match element.name() {
                "numFmt" => {
                    let format = element.attribute("formatCode").unwrap_or_default();
                    own.extend(number.filter(|_| shows_date(&format)));
                }
                "xf" if is_of_cells => {
                    dates.is_date.push(number.is_some_and(|id| is_built_in_date(id) || own.contains(&id)));
                }
                "xf" => {}
                name => is_of_cells = name == "cellXfs",
            }
            if dates.is_date.len() > MAX_STYLES || own.len() > MAX_STYLES {
                return Err(too_long());
            }
        }
        Ok(dates)
    }

    /// The date that a number is in a cell of this format; none if it is a number.
    pub(crate) fn date(&self, style: usize, number: f64) -> Option<String> {
        if !*self.is_date.get(style)? || !(1.0..LAST_DAY).contains(&number) {
            return None;
        }
        let days = match self.counts_from_1904 {
            true => number + DAYS_TO_1904,
            // 1900 was no leap year, but has a 29th of February in a workbook.
            false if number < 60.0 => number + 1.0,
            false => number,
        };
        #[expect(clippy::cast_possible_truncation, reason = "the year is below 10,000")]
        let seconds = ((days - DAYS_TO_1970) * 86_400.0).round() as i64;
        let time = Timestamp::from_seconds(seconds).to_string();
        let day = time.strip_suffix("T00:00:00Z").filter(|_| !self.has_time);
        Some(day.map(str::to_owned).unwrap_or(time))
    }
}

/// The formats that every workbook has and that show a date. Those with a time alone are not among them.
fn is_built_in_date(id: u32) -> bool {
    matches!(id, 14..=17 | 22 | 27..=31 | 36 | 50..=54 | 57 | 58)
}

/// Whether a format shows a day or a year: `dd\.mm\.yyyy`, `[$-407]d. mmmm yy`, but not `0 "pieces per day"` or `[Red]0`.
fn shows_date(format: &str) -> bool {
    let mut is_quoted = false;
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '\\' | '_' | '*' => drop(chars.next()),
            '[' => drop(chars.by_ref().find(|c| *c == ']')),
            'd' | 'D' | 'y' | 'Y' => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_dates_only_in_cells_that_show_dates() {
        let dates =
            |counts_from_1904| Dates { is_date: vec![false, true], counts_from_1904, has_time: false };
        let of_1900 = |number| dates(false).date(1, number);
        assert_eq!(of_1900(46_143.0).as_deref(), Some("2026-05-01"));
        assert_eq!(of_1900(46_143.573_958_333).as_deref(), Some("2026-05-01T13:46:30Z"));
        assert_eq!(of_1900(59.0).as_deref(), Some("1900-02-28"));
        assert_eq!(of_1900(61.0).as_deref(), Some("1900-03-01"));
        assert_eq!(dates(true).date(1, 44_681.0).as_deref(), Some("2026-05-01"));
        for number in [0.5, -1.0, 3e6, f64::NAN, f64::INFINITY] {
            assert_eq!(of_1900(number), None);
        }
        assert_eq!(dates(false).date(0, 46_143.0), None);
        assert_eq!(dates(false).date(2, 46_143.0), None);
    }

    #[test]
    fn formats_with_a_day_or_a_year_show_dates() {
        for format in ["dd\\.mm\\.yyyy", "[$-407]d. mmmm yy;@", "m/d/yyyy", "YYYY-MM-DD hh:mm"] {
            assert!(shows_date(format), "{format}");
        }
        for format in ["0", "General", "0 \"days\"", "[Red]0.00", "+0", "_d0", "\\d0", "hh:mm"] {
            assert!(!shows_date(format), "{format}");
        }
    }
}
