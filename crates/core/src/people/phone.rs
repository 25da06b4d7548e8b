//! Phone numbers, validated with libphonenumber's numbering metadata.

use rlibphonenumber::{PHONE_NUMBER_UTIL, PhoneNumber, PhoneNumberFormat, Region};

use crate::people::spreadsheet::is_notation;

/// Why a text is not accepted as a phone number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.code())]
pub enum PhoneError {
    /// It contains letters, which are never converted to digits.
    Letters,
    /// It has an extension, which E.164 cannot represent.
    Extension,
    /// It is a number followed by something that may be a second number.
    Several,
    /// It has no `+`, and no region was given.
    RegionNeeded,
    /// The region is unknown or has no phone numbers.
    UnknownRegion,
    /// It is what a spreadsheet shows instead of the number: its digits are lost.
    Spreadsheet,
    /// It is not a valid number.
    Invalid,
}

impl PhoneError {
    /// The reason, as imports report it.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Letters => "phone_letters",
            Self::Extension => "phone_extension",
            Self::Several => "phone_several",
            Self::RegionNeeded => "phone_region_needed",
            Self::UnknownRegion => "unknown_region",
            Self::Spreadsheet => "spreadsheet_notation",
            Self::Invalid => "invalid_phone",
        }
    }
}

/// Ranges that regulators reserve for fiction, as (prefix, length). The metadata lists them as
/// unassigned, but people use them for tests.
const FOR_FICTION: [(&str, usize); 3] = [("+447700900", 13), ("+3363998", 12), ("+35320910", 12)];

/// Returns the number in E.164 form: `+` and 7 to 15 digits.
pub(crate) fn normalize(text: &str, region: Option<&str>) -> Result<String, PhoneError> {
    read(text, region).map(|(e164, _)| e164)
}

/// Returns the number in E.164 form, and whether it has no `+` and begins with the country code of its region.
pub(crate) fn read(text: &str, region: Option<&str>) -> Result<(String, bool), PhoneError> {
    let text = text.trim();
    checked(text, region).map_err(|error| if is_notation(text) { PhoneError::Spreadsheet } else { error })
}

fn checked(text: &str, region: Option<&str>) -> Result<(String, bool), PhoneError> {
    refuse_what_is_not_digits(text)?;
    let is_international = text.starts_with(['+', '＋']);
    // A number with + already contains its country.
    let region = region.filter(|_| !is_international).map(known_region).transpose()?;
    if region.is_none() && !is_international {
        return Err(PhoneError::RegionNeeded);
    }
    if ends_of_numbers(text).any(|end| parsed(&text[..end], region).is_some_and(|number| number.is_valid())) {
        return Err(PhoneError::Several);
    }
    let number = parsed(text, region).ok_or(PhoneError::Invalid)?;
    let e164 = number.format_as(PhoneNumberFormat::E164).to_string();
    let is_for_fiction =
        FOR_FICTION.iter().any(|(prefix, len)| e164.starts_with(prefix) && e164.len() == *len);
    if !(number.is_valid() || is_for_fiction) || !is_e164(&e164) {
        return Err(PhoneError::Invalid);
    }
    Ok((e164, region.is_some_and(|region| begins_with_country_code(text, region))))
}

/// Whether the digits are the region's country code and then a number that is valid there by itself.
fn begins_with_country_code(text: &str, region: Region) -> bool {
    let Some(mut code) = PHONE_NUMBER_UTIL.get_country_code_for_region(region) else { return false };
    let mut divisor = 1;
    while code / divisor >= 10 {
        divisor *= 10;
    }
    for (at, digit) in text.char_indices().filter_map(|(at, c)| Some((at + c.len_utf8(), c.to_digit(10)?))) {
        if i32::try_from(digit) != Ok(code / divisor) {
            return false;
        }
        code %= divisor;
        divisor /= 10;
        if divisor == 0 {
            return parsed(&text[at..], Some(region)).is_some_and(|number| number.is_valid());
        }
    }
    false
}

fn parsed(text: &str, region: Option<Region>) -> Option<PhoneNumber> {
    PHONE_NUMBER_UTIL.parse(text, region).ok()
}

/// Positions at which the first of several numbers may end: before a slash, a bracket, or a dash between spaces.
/// `030/1234567` is still one number, because the part before its slash is not a number.
fn ends_of_numbers(text: &str) -> impl Iterator<Item = usize> {
    let is_dash = |c: char| matches!(c, '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{FF0D}');
    text.char_indices().filter_map(move |(at, c)| {
        let is_apart = || {
            text[..at].ends_with(char::is_whitespace)
                && text[at + c.len_utf8()..].starts_with(char::is_whitespace)
        };
        (matches!(c, '/' | '\u{FF0F}' | '[') && at > 0 || is_dash(c) && is_apart()).then_some(at)
    })
}

fn known_region(name: &str) -> Result<Region, PhoneError> {
    let region = name.to_ascii_uppercase().parse().map_err(|_| PhoneError::UnknownRegion)?;
    PHONE_NUMBER_UTIL.get_country_code_for_region(region).map(|_| region).ok_or(PhoneError::UnknownRegion)
}

/// Refuses letters and extensions. The parser would convert `FLOWERS` to digits and drop extensions.
fn refuse_what_is_not_digits(text: &str) -> Result<(), PhoneError> {
    let Some(first_letter) = text.find(char::is_alphabetic) else {
        return if text.contains([';', '#', ',']) {
            Err(PhoneError::Extension)
        } else if text.chars().skip(1).any(|c| matches!(c, '+' | '＋'))
            || !text.chars().all(is_written_in_numbers)
            || is_notation(text)
        {
            Err(PhoneError::Invalid)
        } else {
            Ok(())
        };
    };
    let word = text[first_letter..].to_ascii_lowercase();
    let (before, marks) = (&text[..first_letter], ["ext", "x", "extension"]);
    let has_number_before = before.bytes().filter(u8::is_ascii_digit).count() >= 7;
    let name: String = word.chars().take_while(|c| c.is_alphabetic()).collect();
    if has_number_before && marks.contains(&name.as_str()) {
        return Err(PhoneError::Extension);
    }
    Err(PhoneError::Letters)
}

/// Digits, and the characters that people write between them.
fn is_written_in_numbers(c: char) -> bool {
    c.is_numeric()
        || c.is_whitespace()
        || "+＋-().[]/".contains(c)
        || matches!(c, '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{FF0D}'..='\u{FF0F}' | '\u{FF08}' | '\u{FF09}')
}

/// The country of a number in E.164 form, in two letters.
pub fn phone_country(e164: &str) -> Option<String> {
    let number = parsed(e164, None)?;
    let region = PHONE_NUMBER_UTIL.get_region_for_number(&number)?;
    Some(region.to_string())
}

/// Whether a text is a valid number of this country.
pub fn is_phone_of(text: &str, country: &str) -> bool {
    normalize(text, Some(country)).is_ok()
}

/// Whether phone numbers of this region, such as `US`, can be parsed.
pub fn is_phone_region(name: &str) -> bool {
    known_region(name).is_ok()
}

pub(crate) fn is_e164(text: &str) -> bool {
    text.strip_prefix('+').is_some_and(|digits| {
        (7..=15).contains(&digits.len())
            && digits.bytes().all(|b| b.is_ascii_digit())
            && !digits.starts_with('0')
    })
}
