//! A format of dates that a file uses instead of RFC 3339.

use jiff::civil::DateTime;

use crate::Timestamp;

/// A date format such as `%d.%m.%Y` or `%m/%d/%y %H:%M`. It names the order of day, month and year, which is never guessed.
/// Times are in UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DateFormat {
    parts: Vec<Part>,
    begins_with_year: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Literal(char),
    Day,
    Month,
    Year,
    YearOfCentury,
    Hour,
    Minute,
    Second,
}

/// Why a text is not a date format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DateFormatError {
    /// A `%` with another letter.
    #[error("use only %d, %m, %Y, %y, %H, %M, %S and what stands between them, such as %d.%m.%Y")]
    Unknown,
    /// A part is missing or there twice.
    #[error("name day, month and year once each, such as %d.%m.%Y; a time needs %H and %M")]
    Incomplete,
}

impl DateFormat {
    /// Parses a format. `%d` and `%m` read one or two digits, or exactly two if a digit follows; `%y` is a year from 2000 to 2099.
    pub fn parse(text: &str) -> Result<Self, DateFormatError> {
        let mut parts = Vec::new();
        let mut chars = text.trim().chars();
        while let Some(c) = chars.next() {
            parts.push(match c {
                '%' => match chars.next() {
                    Some('d') => Part::Day,
                    Some('m') => Part::Month,
                    Some('Y') => Part::Year,
                    Some('y') => Part::YearOfCentury,
                    Some('H') => Part::Hour,
                    Some('M') => Part::Minute,
                    Some('S') => Part::Second,
                    Some('%') => Part::Literal('%'),
                    _ => return Err(DateFormatError::Unknown),
                },
                c => Part::Literal(c),
            });
        }
        let count = |wanted: &[Part]| parts.iter().filter(|part| wanted.contains(part)).count();
        let has_date = [&[Part::Day][..], &[Part::Month], &[Part::Year, Part::YearOfCentury]]
            .iter()
            .all(|wanted| count(wanted) == 1);
        let time = [Part::Hour, Part::Minute, Part::Second].map(|part| count(&[part]));
        if !has_date || !matches!(time, [0, 0, 0] | [1, 1, 0 | 1]) {
            return Err(DateFormatError::Incomplete);
        }
        let begins_with_year = matches!(parts.first(), Some(Part::Year | Part::YearOfCentury));
        Ok(Self { parts, begins_with_year })
    }

    /// The time that a text in this format means. RFC 3339 is read too, unless this format begins with the year and the text has
    /// no time: day and month could be confused then.
    pub fn read(&self, text: &str) -> Option<Timestamp> {
        self.read_exactly(text).or_else(|| {
            let is_clear = !self.begins_with_year || text.contains(['T', 't']);
            Timestamp::parse(text).filter(|_| is_clear)
        })
    }

    fn read_exactly(&self, text: &str) -> Option<Timestamp> {
        let mut rest = text;
        let (mut year, mut month, mut day, mut hour, mut minute, mut second) = (0, 0, 0, 0, 0, 0);
        for (at, part) in self.parts.iter().enumerate() {
            let next = self.parts.get(at + 1);
            let is_before_digits =
                next.is_some_and(|next| !matches!(next, Part::Literal(c) if !c.is_ascii_digit()));
            let mut number =
                |least, most| number(&mut rest, if is_before_digits { most } else { least }, most);
            match part {
                Part::Literal(c) => rest = rest.strip_prefix(*c)?,
                Part::Day => day = number(1, 2)?,
                Part::Month => month = number(1, 2)?,
                Part::Year => year = number(4, 4)?,
                Part::YearOfCentury => year = 2_000 + number(2, 2)?,
                Part::Hour => hour = number(1, 2)?,
                Part::Minute => minute = number(2, 2)?,
                Part::Second => second = number(2, 2)?,
            }
        }
        let small = |number: i16| i8::try_from(number).ok();
        let time =
            DateTime::new(year, small(month)?, small(day)?, small(hour)?, small(minute)?, small(second)?, 0);
        rest.is_empty().then_some(())?;
        Timestamp::from_civil(time.ok()?)
    }
}

/// Takes a number of this many digits off the start of `text`.
fn number(text: &mut &str, least: usize, most: usize) -> Option<i16> {
    let digits = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    *text = rest;
    if digits < least { None } else { number.parse().ok() }
}

/// Whether this looks like a date with day and month in an order that has to be told, such as `01.05.2026` or `5/1/26`.
pub(crate) fn is_ambiguous_date(text: &str) -> bool {
    let date = text.split_once([' ', 'T']).map_or(text, |(date, _)| date);
    ['.', '/', '-'].iter().any(|&mark| {
        let mut parts = date.split(mark);
        // A date as in RFC 3339 that does not exist.
        if mark == '-' && date.find('-') == Some(4) {
            return false;
        }
        let is_part = |part: Option<&str>| {
            part.is_some_and(|part| (1..=4).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit()))
        };
        is_part(parts.next()) && is_part(parts.next()) && is_part(parts.next()) && parts.next().is_none()
    })
}
