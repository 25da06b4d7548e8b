//! Whether the phone numbers of a file are of the country that was chosen for those without `+`. "AU" is quickly chosen for Austria,
//! and some numbers of one country are valid in another one.

use std::collections::BTreeMap;

use contactd_core::{is_phone_of, phone_country};

use crate::Warning;

/// How many numbers without `+` are compared with other countries.
const MOST_COMPARED: usize = 50;

/// Fewer numbers than this show nothing.
const FEWEST: usize = 3;

/// How many countries a warning names.
const MOST_NAMED: usize = 3;

/// Countries that numbers are compared with, besides those that the file has numbers with `+` of.
const LIKELY: &str = "US GB DE FR ES NL BE AT CH SE NO DK FI PL CZ PT IE HU RO GR TR RU UA IN CN JP KR SG HK AE IL ZA NG EG BR MX AR \
                      CO CL AU NZ CA IT";

/// What was seen of the numbers of a file.
#[derive(Debug, Default)]
pub(crate) struct Countries {
    /// How many numbers with `+` there are of each country.
    with_plus: BTreeMap<String, usize>,
    /// Numbers without `+`.
    without_plus: Vec<String>,
}

impl Countries {
    /// Notes a number as it is in the file.
    pub(crate) fn note(&mut self, text: &str) {
        let text = text.trim();
        if text.is_empty() {
        } else if text.starts_with(['+', '＋']) {
            if let Some(country) = phone_country(text) {
                *self.with_plus.entry(country).or_default() += 1;
            }
        } else if self.without_plus.len() < MOST_COMPARED {
            self.without_plus.push(text.to_owned());
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (country, count) in &other.with_plus {
            *self.with_plus.entry(country.clone()).or_default() += count;
        }
        let left = MOST_COMPARED.saturating_sub(self.without_plus.len());
        self.without_plus.extend(other.without_plus.iter().take(left).cloned());
    }

    /// What is wrong with the country that was chosen, if something is.
    pub(crate) fn warning(&self, chosen: &str) -> Option<Warning> {
        if self.without_plus.is_empty() {
            return None;
        }
        let of = |country: &str| self.without_plus.iter().filter(|text| is_phone_of(text, country)).count();
        let all = self.without_plus.len();
        let fitting = of(chosen);
        let countries =
            if all >= FEWEST && fitting * 2 <= all { self.better(&of, fitting) } else { Vec::new() };
        let countries = if countries.is_empty() { self.of_others(chosen) } else { countries };
        let warning =
            Warning { warning: Warning::OTHER_COUNTRY, count: all as u64, examples: Vec::new(), countries };
        (!warning.countries.is_empty()).then_some(warning)
    }

    /// The countries of which nearly all numbers without `+` are, if fewer are of the chosen one.
    fn better(&self, of: &impl Fn(&str) -> usize, fitting: usize) -> Vec<String> {
        let mut seen: Vec<(&String, &usize)> = self.with_plus.iter().collect();
        seen.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let mut candidates: Vec<&str> = seen.into_iter().map(|(country, _)| country.as_str()).collect();
        for country in LIKELY.split_whitespace() {
            if !candidates.contains(&country) {
                candidates.push(country);
            }
        }
        let counted = candidates.into_iter().map(|country| (of(country), country));
        let mut counted: Vec<_> = counted
            .filter(|(count, _)| *count > fitting && count * 5 >= self.without_plus.len() * 4)
            .collect();
        let best = counted.iter().map(|(count, _)| *count).max().unwrap_or_default();
        counted.retain(|(count, _)| *count == best);
        // Some countries have numbers of nearly every kind.
        if counted.iter().any(|(_, country)| self.with_plus.contains_key(*country)) {
            counted.retain(|(_, country)| self.with_plus.contains_key(*country));
        }
        counted.into_iter().take(MOST_NAMED).map(|(_, country)| country.to_owned()).collect()
    }

    /// Another country of which most numbers with `+` are.
    fn of_others(&self, chosen: &str) -> Vec<String> {
        let all: usize = self.with_plus.values().sum();
        let most = self.with_plus.iter().find(|(_, count)| all >= FEWEST && *count * 2 > all);
        let other = most.filter(|(country, _)| !country.eq_ignore_ascii_case(chosen));
        other.map(|(country, _)| country.clone()).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn countries(chosen: &str, numbers: &[&str]) -> Vec<String> {
        let mut seen = Countries::default();
        let (first, second) = numbers.split_at(numbers.len() / 2);
        first.iter().for_each(|number| seen.note(number));
        let mut more = Countries::default();
        second.iter().for_each(|number| more.note(number));
        seen.add(&more);
        seen.warning(chosen).map(|warning| warning.countries).unwrap_or_default()
    }

    #[test]
    fn numbers_of_another_country_than_the_chosen_one_are_noticed() {
        let austrian = ["0664 123456", "0650 123456", "0676 123456", "01 234567890"];
        assert_eq!(countries("AU", &[&austrian[..], &["+43 664 123457"]].concat()), ["AT"]);
        assert_eq!(countries("AT", &austrian), [""; 0]);
        let american = ["(415) 555-0101", "415 555 0102", "415.555.0103"];
        assert_eq!(countries("FR", &american).first().map(String::as_str), Some("US"));
        assert_eq!(countries("US", &american), [""; 0]);
        let with_plus = ["+43 664 123456", "+43 676 123456", "+43 664 123457", "0491 570 006"];
        assert_eq!(countries("AU", &with_plus), ["AT"]);
        for too_few in [&["0664 123456"][..], &["+43 664 123456"], &[]] {
            assert_eq!(countries("AU", too_few), [""; 0]);
        }
        assert_eq!(countries("AU", &["none", "call me", "x"]), [""; 0], "of no country");
    }
}
