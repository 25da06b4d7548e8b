//! Records as bytes, for sorting on disk.

use contactd_core::{ContactValue, Detail, Kind, Label, Profile, Record, Timestamp};

/// Appends a record to `out`.
pub(crate) fn pack(record: &Record, out: &mut Vec<u8>) {
    push_text(out, record.profile.key());
    // Rows have a maximum length: far fewer details than this fit into one.
    let count = u32::try_from(record.details.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&count.to_le_bytes());
    for detail in &record.details {
        let flags = [
            detail.kind == Kind::Email,
            detail.label == Label::Work,
            detail.observed_at.is_some(),
            detail.expires_at.is_some(),
            detail.basis.is_some(),
        ];
        out.push(flags.iter().enumerate().fold(0, |all, (bit, &set)| all | u8::from(set) << bit));
        out.push(detail.confidence);
        for time in [detail.observed_at, detail.expires_at].into_iter().flatten() {
            out.extend_from_slice(&time.seconds().to_le_bytes());
        }
        for text in
            [Some(detail.value.expose()), Some(&detail.source), detail.basis.as_deref()].into_iter().flatten()
        {
            push_text(out, text);
        }
    }
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    // URLs, values, sources and bases all have a maximum length far below this.
    let len = u16::try_from(text.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&text.as_bytes()[..usize::from(len)]);
}

/// The packed record; none if the bytes are not a valid record.
pub(crate) fn unpack(mut bytes: &[u8]) -> Option<Record> {
    let bytes = &mut bytes;
    let profile = Profile::from_key(take_text(bytes)?);
    let count = bytes.split_off(..4)?.try_into().ok().map(u32::from_le_bytes)?;
    let details = (0..count).map(|_| unpack_detail(bytes)).collect::<Option<_>>()?;
    Some(Record { profile, details })
}

fn unpack_detail(bytes: &mut &[u8]) -> Option<Detail> {
    let [flags, confidence] = *bytes.split_off(..2)? else { return None };
    let is_set = |bit: u8| flags & (1 << bit) != 0;
    let mut time = |bit| if is_set(bit) { take_time(bytes).map(Some) } else { Some(None) };
    let (observed_at, expires_at) = (time(2)?, time(3)?);
    let value = ContactValue::from_store(take_text(bytes)?.to_owned());
    let source = take_text(bytes)?.to_owned();
    Some(Detail {
        kind: if is_set(0) { Kind::Email } else { Kind::Phone },
        label: if is_set(1) { Label::Work } else { Label::Personal },
        value,
        source,
        confidence,
        observed_at,
        basis: if is_set(4) { Some(take_text(bytes)?.to_owned()) } else { None },
        expires_at,
    })
}

fn take_time(bytes: &mut &[u8]) -> Option<Timestamp> {
    let seconds = bytes.split_off(..8)?.try_into().ok().map(i64::from_le_bytes)?;
    Some(Timestamp::from_seconds(seconds))
}

fn take_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let len = bytes.split_off(..2)?.try_into().ok().map(u16::from_le_bytes)?;
    std::str::from_utf8(bytes.split_off(..usize::from(len))?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacking_returns_the_packed_record() {
        let phone = Detail::new(Kind::Phone, ContactValue::from_store("+14155550123".to_owned()), "crm");
        let email = Detail {
            label: Label::Work,
            confidence: 7,
            observed_at: Some(Timestamp::from_seconds(-5)),
            expires_at: Some(Timestamp::from_seconds(1_800_000_000)),
            basis: Some("consent".to_owned()),
            ..Detail::new(Kind::Email, ContactValue::from_store("é@example.com".to_owned()), "hr")
        };
        let record =
            Record { profile: Profile::from_key("linkedin.com/in/ada-quell"), details: vec![phone, email] };
        let mut bytes = Vec::new();
        pack(&record, &mut bytes);
        let unpacked = unpack(&bytes).expect("a record");
        assert!(unpacked.profile == record.profile);
        assert_eq!(unpacked.details, record.details);
        for cut in 0..bytes.len() {
            assert!(unpack(&bytes[..cut]).is_none(), "cut at {cut}");
        }
    }
}
