//! Writes lines as JSON, without serde for speed, because a lookup waits for it.

use std::cell::RefCell;

use contactd_core::{
    AdminEntry, AuditEvent, AuditOutcome, Chain, RefusedKind, RequestVia, RootKey, Timestamp, hex,
};

use crate::chain::ChainKey;
use crate::epoch::EpochKeys;
use crate::line::{CHAIN_FIELD, Checkpoint, Mark, SIGNATURE_FIELD};

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
    if let Some(given) = event.given_id {
        out.extend_from_slice(b"\",\"givenId\":\"");
        hex::push(out, &given.0);
    }
    out.extend_from_slice(b"\",\"token\":\"");
    escaped(out, event.token);
    out.extend_from_slice(b"\",\"operation\":\"");
    out.extend_from_slice(event.operation.name().as_bytes());
    push_via(out, event.via);
    if let Some(profile) = event.profile {
        out.extend_from_slice(&common.key);
        hex::push(out, &profile.0);
    }
    if let Some(value) = event.value {
        out.extend_from_slice(b"\",\"value\":\"");
        hex::push(out, &value.0);
    }
    out.extend_from_slice(b"\",\"outcome\":\"");
    out.extend_from_slice(event.outcome.name().as_bytes());
    if let AuditOutcome::Refused(code) = event.outcome {
        out.extend_from_slice(b"\",\"reason\":\"");
        escaped(out, code);
    }
    out.push(b'"');
    if let Some(place) = event.place {
        out.extend_from_slice(b",\"place\":");
        out.extend_from_slice(itoa::Buffer::new().format(place).as_bytes());
    }
    if event.is_repeat {
        out.extend_from_slice(b",\"repeat\":true");
    }
}

/// Between the operation and the field after it.
fn push_via(out: &mut Vec<u8>, via: Option<RequestVia>) {
    if let Some(via) = via {
        out.extend_from_slice(b"\",\"via\":\"");
        out.extend_from_slice(via.name().as_bytes());
    }
}

/// Like [`event`], for refused requests that are recorded together.
pub(crate) fn refused(out: &mut Vec<u8>, node: &str, at: Timestamp, refused: &RefusedKind, count: u64) {
    begin(out, node, at);
    out.extend_from_slice(b",\"token\":\"");
    escaped(out, &refused.token);
    out.extend_from_slice(b"\",\"operation\":\"");
    out.extend_from_slice(refused.operation.name().as_bytes());
    push_via(out, refused.via);
    out.extend_from_slice(b"\",\"outcome\":\"refused\",\"reason\":\"");
    escaped(out, refused.code);
    out.extend_from_slice(format!("\",\"count\":{count}").as_bytes());
}

/// Like [`event`], for an administrative action.
pub(crate) fn admin(out: &mut Vec<u8>, node: &str, entry: &AdminEntry) -> serde_json::Result<()> {
    begin(out, node, entry.time);
    let mut fields = serde_json::to_value(entry)?;
    let Some(fields) = fields.as_object_mut() else { return Ok(()) };
    fields.remove("time");
    push_fields(out, &serde_json::to_vec(fields)?);
    Ok(())
}

/// Adds the fields of an object, without its braces.
fn push_fields(out: &mut Vec<u8>, object: &[u8]) {
    out.push(b',');
    out.extend_from_slice(object.get(1..object.len().saturating_sub(1)).unwrap_or_default());
}

fn begin(out: &mut Vec<u8>, node: &str, at: Timestamp) {
    out.extend_from_slice(b",\"time\":\"");
    time(out, at);
    out.extend_from_slice(b"\",\"node\":\"");
    escaped(out, node);
    out.push(b'"');
}

/// Like [`event`], for a line about the journal itself.
pub(crate) fn mark(out: &mut Vec<u8>, node: &str, at: Timestamp, mark: &Mark) {
    begin(out, node, at);
    // Numbers and texts, so writing them to memory cannot fail.
    push_fields(out, &serde_json::to_vec(mark).unwrap_or_default());
}

/// Where a checkpoint goes.
pub(crate) struct CheckpointAt<'a> {
    pub(crate) node: &'a str,
    pub(crate) at: Timestamp,
    pub(crate) seq: u64,
    /// The chain value of the line before.
    pub(crate) previous: Chain,
    /// Its number.
    pub(crate) number: u64,
}

/// Writes a checkpoint, which is a seal if it names the `next` epoch's public key. Returns its chain value.
pub(crate) fn checkpoint(
    out: &mut Vec<u8>,
    keys: &EpochKeys,
    place: &CheckpointAt<'_>,
    next: Option<RootKey>,
) -> Chain {
    let key = keys.interval(place.number);
    let signed = Box::new(Checkpoint {
        root: keys.root,
        epoch: keys.epoch,
        number: place.number,
        previous: place.previous,
        key: *key.bytes(),
        next,
        signature: [0; 64],
    });
    let signed = if next.is_some() { Mark::Seal(signed) } else { Mark::Checkpoint(signed) };
    let mut fields = Vec::new();
    mark(&mut fields, place.node, place.at, &signed);
    let mut text = format!("{{\"seq\":{}", place.seq).into_bytes();
    text.extend_from_slice(&fields);
    let signature = keys.sign(&text);
    fields.extend_from_slice(SIGNATURE_FIELD);
    fields.extend_from_slice(hex::encode(&signature).as_bytes());
    fields.push(b'"');
    finish(out, &key, place.previous, place.seq, &fields)
}

/// Completes a line from the fields that [`event`] or [`mark`] wrote. Returns its chain value.
pub(crate) fn finish(out: &mut Vec<u8>, key: &ChainKey, before: Chain, seq: u64, fields: &[u8]) -> Chain {
    let start = out.len();
    out.extend_from_slice(b"{\"seq\":");
    out.extend_from_slice(itoa::Buffer::new().format(seq).as_bytes());
    out.extend_from_slice(fields);
    let chain = key.link(before, &out[start..]);
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
    // Without a branch for each byte, so that many are looked at together.
    let is_plain =
        text.bytes().fold(true, |plain, b| plain & matches!(b, b' '..=b'~') & (b != b'"') & (b != b'\\'));
    if is_plain {
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
    use crate::epoch::is_signed;
    use crate::line::{Entry, Line, is_linked, signed_text};
    use contactd_core::{Actor, Asked, Kind, ShortDigest, Via};

    fn read_back(fields: &[u8]) -> (Line, Vec<u8>) {
        let mut out = Vec::new();
        finish(&mut out, &ChainKey::new(&[7; 32]), Chain::START, 17, fields);
        let bytes = out.trim_ascii_end().to_vec();
        (Line::parse(&bytes).expect("a line"), bytes)
    }

    #[test]
    fn a_written_line_is_read_back_with_any_request_id() {
        let key = ChainKey::new(&[7; 32]);
        let event = AuditEvent {
            at: Timestamp::parse("2026-05-01T10:20:30.045Z").expect("a time"),
            request_id: "job\\7/\"row\":9",
            given_id: Some(ShortDigest([0xEF; 16])),
            token: "tok_8sWn2QbX1mZk",
            operation: Asked::Detail(Kind::Phone),
            via: None,
            place: None,
            is_repeat: false,
            profile: Some(ShortDigest([0xAB; 16])),
            value: Some(ShortDigest([0xCD; 16])),
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
                 \"givenId\":\"{}\",\"token\":\"tok_8sWn2QbX1mZk\",\"operation\":\"phone\",\"profile\":\"k1:{}\",\
                 \"value\":\"{}\",\"outcome\":\"hit\",\"chain\":\"{chain}\"}}\n",
                "ef".repeat(16),
                "ab".repeat(16),
                "cd".repeat(16)
            )
        );
        let bytes = out.trim_ascii_end();
        let line = Line::parse(bytes).expect("a line");
        assert!(is_linked(&key, Chain::START, bytes, line.chain));
        assert!(!is_linked(&key, chain, bytes, line.chain));
        let Entry::Request(record) = line.entry else { panic!("not a request") };
        assert_eq!(record.request_id, event.request_id);
        assert_eq!(record.profile, Some(("k1".to_owned(), ShortDigest([0xAB; 16]))));
        assert_eq!((record.value, record.given_id), (event.value, event.given_id));
        assert_eq!(record.count, 1);
    }

    #[test]
    fn every_mark_is_read_back() {
        let at = Timestamp::from_millis(-1);
        let root = RootKey([3; 32]);
        let previous = Chain([9; 16]);
        let begun = |old_root| Mark::Begun { root, after: 8, previous, old_root };
        for said in [
            begun(None),
            begun(Some(RootKey([4; 32]))),
            Mark::Opened { after: 7, previous, suspect_after: Some(4), broken: Some("a \"b\"".to_owned()) },
            Mark::Opened { after: 7, previous, suspect_after: None, broken: None },
            Mark::Recovered { torn_bytes: 12 },
            Mark::Resumed { lost: 3 },
            Mark::Undisclosed { from: 3, through: 7 },
            Mark::Retired { through: 99, chain: previous },
            Mark::Removed { through: 99 },
            Mark::Started,
            Mark::Stopped,
        ] {
            let mut fields = Vec::new();
            mark(&mut fields, "n1", at, &said);
            let (line, _) = read_back(&fields);
            assert_eq!((line.entry, line.at), (Entry::Mark(said), at));
        }
    }

    #[test]
    fn a_checkpoint_is_signed_and_reveals_the_key_of_its_lines() {
        let keys = EpochKeys::generate(None, Timestamp::from_millis(0)).expect("random");
        for next in [None, Some(RootKey([4; 32]))] {
            let place = CheckpointAt {
                node: "n1",
                at: Timestamp::from_millis(5),
                seq: 9,
                previous: Chain([1; 16]),
                number: 3,
            };
            let mut out = Vec::new();
            let chain = checkpoint(&mut out, &keys, &place, next);
            let bytes = out.trim_ascii_end();
            let line = Line::parse(bytes).expect("a line");
            let read = line.checkpoint().expect("a checkpoint");
            assert_eq!((read.number, read.next, read.root, line.chain), (3, next, keys.public(), chain));
            assert!(is_linked(&ChainKey::new(&read.key), place.previous, bytes, chain));
            let signed = signed_text(bytes).expect("a signature");
            assert!(is_signed(keys.root, signed, &read.signature));
            assert!(!is_signed(keys.root, &signed[1..], &read.signature));
            assert!(!is_signed(RootKey([4; 32]), signed, &read.signature));
        }
    }

    #[test]
    fn an_administrative_action_and_counted_refusals_are_read_back() {
        let at = Timestamp::parse("2026-05-01T10:20:30.045Z").expect("a time");
        let actor = Actor::new("Zoë \"z\"", Via::CommandLine).for_ticket(Some("DSR-7"));
        let mut entry = AdminEntry::new(&actor, "suppress", at).counted(&[("suppressed", 2)]).about("a list");
        entry.subjects = vec!["k1:00".to_owned()];
        let mut fields = Vec::new();
        admin(&mut fields, "n1", &entry).expect("writes");
        let Entry::Admin(read) = read_back(&fields).0.entry else { panic!("not an action") };
        assert_eq!((read.entry, read.seq), (entry, 17));

        let kind = RefusedKind {
            token: "tok_1".to_owned(),
            operation: Asked::Batch,
            via: Some(RequestVia::Sandbox),
            code: "rate_limited",
        };
        let mut fields = Vec::new();
        refused(&mut fields, "n1", at, &kind, 4_995);
        let Entry::Request(read) = read_back(&fields).0.entry else { panic!("not a request") };
        assert_eq!(
            (read.count, read.via, read.reason.as_deref(), read.request_id.as_str()),
            (4_995, Some(RequestVia::Sandbox), Some("rate_limited"), "")
        );
    }
}
