//! Reads the lines of requests without a JSON parser, if they are exactly as they are written: nearly all lines of a journal.

use std::borrow::Cow;

use super::Written;

/// The fields of a request's line with the fields and the order that [`format::event`](crate::format::event) writes, and without
/// escapes. `None` for every other line: that one is left to the JSON parser.
pub(super) fn request(bytes: &[u8]) -> Option<Written<'_>> {
    // An escape has to be replaced, and a control character is not allowed.
    if bytes.iter().any(|&b| b == b'\\' || b < 0x20) {
        return None;
    }
    let mut rest = Rest(std::str::from_utf8(bytes).ok()?);
    let written = Written {
        seq: rest.number("{\"seq\":")?,
        time: rest.text(",\"time\":\"")?,
        node: rest.text(",\"node\":\"")?,
        request_id: Some(Cow::Borrowed(rest.text(",\"requestId\":\"")?)),
        given_id: rest.text(",\"givenId\":\""),
        token: Some(rest.text(",\"token\":\"")?),
        operation: Some(Cow::Borrowed(rest.text(",\"operation\":\"")?)),
        via: rest.text(",\"via\":\""),
        profile: rest.text(",\"profile\":\""),
        value: rest.text(",\"value\":\""),
        outcome: Some(rest.text(",\"outcome\":\"")?),
        reason: rest.text(",\"reason\":\""),
        place: rest.number(",\"place\":").map(u32::try_from).transpose().ok()?,
        repeat: rest.skip(",\"repeat\":true"),
        chain: rest.text(",\"chain\":\"")?,
        ..Written::default()
    };
    (rest.0 == "}").then_some(written)
}

/// What of a line is not read yet.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    /// The text after `before`, up to the next quotation mark. Reads nothing if the rest does not begin with `before`.
    fn text(&mut self, before: &str) -> Option<&'a str> {
        let (text, rest) = self.0.strip_prefix(before)?.split_once('"')?;
        self.0 = rest;
        Some(text)
    }

    /// Whether the rest begins with `text`, which is then read.
    fn skip(&mut self, text: &str) -> bool {
        let rest = self.0.strip_prefix(text);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// The number after `before`, written as JSON demands.
    fn number(&mut self, before: &str) -> Option<u64> {
        let rest = self.0.strip_prefix(before)?;
        let end = rest.bytes().position(|b| !b.is_ascii_digit())?;
        let (digits, rest) = rest.split_at(end);
        let is_json = digits.len() == 1 || !digits.starts_with('0');
        self.0 = rest;
        digits.parse().ok().filter(|_| is_json)
    }
}

#[cfg(test)]
mod tests {
    use contactd_core::{Asked, AuditEvent, AuditOutcome, Chain, Kind, RequestVia, ShortDigest, Timestamp};
    use proptest::prelude::*;

    use super::request;
    use crate::ChainKey;
    use crate::format::{self, Common};
    use crate::line::{Line, Written};

    /// A line as the journal writes it, without its newline.
    fn written(
        seq: u64,
        [given, sandbox, profile, value, is_repeat]: [bool; 5],
        place: Option<u32>,
        reason: Option<&'static str>,
    ) -> Vec<u8> {
        let digest = |is_there: bool, byte: u8| is_there.then_some(ShortDigest([byte; 16]));
        let event = AuditEvent {
            at: Timestamp::parse("2026-03-01T10:20:30.000Z").expect("a time"),
            request_id: "0190a0b1-1111-7222-8333-444455556666",
            given_id: digest(given, 1),
            token: "tok_1a2b3c4d",
            operation: Asked::Detail(Kind::Phone),
            via: sandbox.then_some(RequestVia::Sandbox),
            place,
            is_repeat,
            profile: digest(profile, 0xab),
            value: digest(value, 0xcd),
            outcome: reason.map_or(AuditOutcome::Hit, AuditOutcome::Refused),
        };
        let (mut fields, mut line) = (Vec::new(), Vec::new());
        format::event(&mut fields, &Common::new("node-1", "0123456789abcdef"), &event);
        format::finish(&mut line, &ChainKey::new(&[7; 32]), Chain::START, seq, &fields);
        line.pop();
        line
    }

    fn with_parser(bytes: &[u8]) -> Option<Line> {
        Line::of(serde_json::from_slice::<Written<'_>>(bytes).ok()?, bytes)
    }

    fn lines() -> impl Strategy<Value = Vec<u8>> {
        let reason = prop_oneof![Just(None), Just(Some("rate_limited"))];
        (any::<u64>(), any::<[bool; 5]>(), any::<Option<u32>>(), reason)
            .prop_map(|(seq, has, place, reason)| written(seq, has, place, reason))
    }

    proptest! {
        #[test]
        fn every_request_is_read_as_by_the_json_parser(line in lines()) {
            let plain = request(&line).and_then(|written| Line::of(written, &line));
            prop_assert!(plain.is_some());
            prop_assert_eq!(plain, with_parser(&line));
        }

        #[test]
        fn a_changed_line_is_read_as_by_the_json_parser_or_left_to_it(
            line in lines(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 1..4),
        ) {
            let mut line = line;
            for (at, byte, how) in changes {
                let at = at.index(line.len());
                match how {
                    0 => line[at] = byte,
                    1 => line.insert(at, byte),
                    _ => drop(line.remove(at)),
                }
            }
            if let Some(plain) = request(&line) {
                prop_assert_eq!(Line::of(plain, &line), with_parser(&line));
            }
        }
    }
}
