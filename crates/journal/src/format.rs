//! Writes lines as JSON, without serde for speed, because a lookup waits for it.

use std::cell::RefCell;

use contactd_core::{AuditEvent, AuditOutcome, Chain, Timestamp, hex};

use crate::chain::ChainKey;
use crate::line::{CHAIN_FIELD, Mark};

/// The parts that are the same in every line of a node, already formatted.
pub(crate) struct Common {
    /// Between the time and the request id.
    node: Vec<u8>,
    /// Between the operation and the digest.
    key: Vec<u8>,
}

impl Common {
    pub(crate) fn new(node: &str, digest_key: &str) -> Self {
        let (mut before, mut key) = (b"\",\"node\":\"".to_vec(), b"\",\"profile\":\"".to_vec());
        escaped(&mut before, node);
        before.extend_from_slice(b"\",\"requestId\":\"");
        // Eight characters distinguish keys. With the full id, most lines would need one more hash block.
        escaped(&mut key, digest_key.get(..8).unwrap_or(digest_key));
        key.push(b':');
        Self { node: before, key }
    }
}

/// Writes a line without its number and chain value, as fields of a JSON object.
pub(crate) fn event(out: &mut Vec<u8>, common: &Common, event: &AuditEvent<'_>) {
    out.extend_from_slice(b",\"time\":\"");
    time(out, event.at);
    out.extend_from_slice(&common.node);
    escaped(out, event.request_id);
    out.extend_from_slice(b"\",\"token\":\"");
    escaped(out, event.token);
    out.extend_from_slice(b"\",\"operation\":\"");
    out.extend_from_slice(event.operation.name().as_bytes());
    if let Some(profile) = event.profile {
        out.extend_from_slice(&common.key);
        hex::push(out, &profile.0);
    }
    out.extend_from_slice(b"\",\"outcome\":\"");
    out.extend_from_slice(event.outcome.name().as_bytes());
    if let AuditOutcome::Refused(code) = event.outcome {
        out.extend_from_slice(b"\",\"reason\":\"");
        escaped(out, code);
    }
    out.push(b'"');
}

/// Like [`event`], for a line about the journal itself.
pub(crate) fn mark(out: &mut Vec<u8>, node: &str, at: Timestamp, mark: &Mark) {
    out.extend_from_slice(b",\"time\":\"");
    time(out, at);
    out.extend_from_slice(b"\",\"node\":\"");
    escaped(out, node);
    out.push(b'"');
    let said = match mark {
        Mark::Opened { previous, suspect_after } => {
            let suspect = suspect_after.map(|seq| format!(",\"suspectAfter\":{seq}")).unwrap_or_default();
            format!(",\"mark\":\"opened\",\"previous\":\"{previous}\"{suspect}")
        }
        Mark::Recovered { torn_bytes } => format!(",\"mark\":\"recovered\",\"tornBytes\":{torn_bytes}"),
        Mark::Resumed { lost } => format!(",\"mark\":\"resumed\",\"lost\":{lost}"),
        Mark::Undisclosed { from, through } => {
            format!(",\"mark\":\"undisclosed\",\"from\":{from},\"through\":{through}")
        }
        Mark::Retired { through } => format!(",\"mark\":\"retired\",\"through\":{through}"),
    };
    out.extend_from_slice(said.as_bytes());
}

/// Completes a line from the fields that [`event`] or [`mark`] wrote. Returns its chain value.
pub(crate) fn finish(out: &mut Vec<u8>, key: &ChainKey, before: Chain, seq: u64, fields: &[u8]) -> Chain {
    thread_local! {
        static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    let start = out.len();
    out.extend_from_slice(b"{\"seq\":");
    out.extend_from_slice(itoa::Buffer::new().format(seq).as_bytes());
    out.extend_from_slice(fields);
    let chain = SCRATCH.with_borrow_mut(|scratch| key.link(before, &out[start..], scratch));
    out.extend_from_slice(CHAIN_FIELD);
    hex::push(out, &chain.0);
    out.extend_from_slice(b"\"}\n");
    chain
}

/// Writes the time in RFC 3339 with milliseconds. The text up to the second is cached.
fn time(out: &mut Vec<u8>, at: Timestamp) {
    thread_local! {
        static SECOND: RefCell<(i64, String)> = const { RefCell::new((i64::MIN, String::new())) };
    }
    SECOND.with_borrow_mut(|(second, text)| {
        if *second != at.seconds() {
            *second = at.seconds();
            *text = Timestamp::from_seconds(at.seconds()).to_string();
        }
        out.extend_from_slice(text.trim_end_matches('Z').as_bytes());
    });
    let millis = at.millis().rem_euclid(1_000);
    let digit = |of: i64| b'0' + u8::try_from(of % 10).unwrap_or(0);
    out.extend_from_slice(&[b'.', digit(millis / 100), digit(millis / 10), digit(millis), b'Z']);
}

/// Writes text inside a JSON string. Only printable ASCII is kept.
fn escaped(out: &mut Vec<u8>, text: &str) {
    if text.bytes().all(|b| matches!(b, b' '..=b'~') && b != b'"' && b != b'\\') {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    for byte in text.bytes().filter(|b| matches!(b, b' '..=b'~')) {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::{Entry, Line, is_linked};
    use contactd_core::{Kind, ProfileDigest};

    #[test]
    fn a_written_line_is_read_back_with_any_request_id() {
        let key = ChainKey::new(&[7; 32]);
        let event = AuditEvent {
            at: Timestamp::parse("2026-05-01T10:20:30.045Z").expect("a time"),
            request_id: "job\\7/\"row\":9",
            token: "tok_8sWn2QbX1mZk",
            operation: Kind::Phone,
            profile: Some(ProfileDigest([0xAB; 16])),
            outcome: AuditOutcome::Hit,
        };
        let mut fields = Vec::new();
        super::event(&mut fields, &Common::new("n1", "k1"), &event);
        let mut out = Vec::new();
        let chain = finish(&mut out, &key, Chain::START, 17, &fields);
        assert_eq!(
            String::from_utf8_lossy(&out),
            format!(
                "{{\"seq\":17,\"time\":\"2026-05-01T10:20:30.045Z\",\"node\":\"n1\",\"requestId\":\"job\\\\7/\\\"row\\\":9\",\
                 \"token\":\"tok_8sWn2QbX1mZk\",\"operation\":\"phone\",\"profile\":\"k1:{}\",\"outcome\":\"hit\",\
                 \"chain\":\"{chain}\"}}\n",
                "ab".repeat(16)
            )
        );
        let bytes = out.trim_ascii_end();
        let line = Line::parse(bytes).expect("a line");
        assert!(is_linked(&key, Chain::START, bytes, line.chain));
        assert!(!is_linked(&key, chain, bytes, line.chain));
        let Entry::Request(record) = line.entry else { panic!("not a request") };
        assert_eq!(record.request_id, event.request_id);
        assert_eq!(record.profile, Some(("k1".to_owned(), ProfileDigest([0xAB; 16]))));
    }

    #[test]
    fn every_mark_is_read_back() {
        let key = ChainKey::new(&[7; 32]);
        let at = Timestamp::from_millis(-1);
        for said in [
            Mark::Opened { previous: Chain([9; 16]), suspect_after: Some(4) },
            Mark::Recovered { torn_bytes: 12 },
            Mark::Resumed { lost: 3 },
            Mark::Undisclosed { from: 3, through: 7 },
            Mark::Retired { through: 99 },
        ] {
            let (mut fields, mut out) = (Vec::new(), Vec::new());
            mark(&mut fields, "n1", at, &said);
            finish(&mut out, &key, Chain::START, 1, &fields);
            let line = Line::parse(out.trim_ascii_end()).expect("a line");
            assert_eq!((line.entry, line.at), (Entry::Mark(said), at));
        }
    }
}
