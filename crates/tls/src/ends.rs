//! Reads from a certificate when it ends.

use contactd_core::Timestamp;
use der::asn1::{AnyRef, GeneralizedTime, UtcTime};
use der::{Decode, Reader, SliceReader, Tag, TagNumber, Tagged};

/// The version of a certificate: the first field of all but the oldest ones.
const VERSION: Tag = Tag::ContextSpecific { constructed: true, number: TagNumber::N0 };

/// When a certificate ends; `None` if it cannot be read.
pub(crate) fn of(certificate: &[u8]) -> Option<Timestamp> {
    read(certificate).ok().flatten()
}

fn read(certificate: &[u8]) -> der::Result<Option<Timestamp>> {
    let certificate = AnyRef::from_der(certificate)?;
    let signed = AnyRef::decode(&mut SliceReader::new(certificate.value())?)?;
    let mut fields = SliceReader::new(signed.value())?;
    if fields.peek_tag()? == VERSION {
        AnyRef::decode(&mut fields)?;
    }
    for _ in ["serial number", "algorithm", "issuer"] {
        AnyRef::decode(&mut fields)?;
    }
    let validity = AnyRef::decode(&mut fields)?;
    let mut validity = SliceReader::new(validity.value())?;
    AnyRef::decode(&mut validity)?;
    let end = AnyRef::decode(&mut validity)?;
    let since_1970 = match end.tag() {
        Tag::UtcTime => end.decode_as::<UtcTime>()?.to_unix_duration(),
        _ => end.decode_as::<GeneralizedTime>()?.to_unix_duration(),
    };
    Ok(i64::try_from(since_1970.as_secs()).ok().map(Timestamp::from_seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Made;

    #[test]
    fn the_end_is_found_in_both_forms_of_time_and_not_in_what_is_no_certificate() {
        // From 2050 on, certificates write times in another form.
        for days in [1, 20_000] {
            let made = Made::ending_in_days(days);
            let shown = made.openssl("x509 -in server.pem -noout -enddate -dateopt iso_8601");
            let shown = shown.trim().trim_start_matches("notAfter=").replacen(' ', "T", 1);
            assert_eq!(made.pair().ends.to_string(), shown);
        }
        for broken in [&b""[..], b"\x30", b"\x30\x03\x02\x01\x05", &[0x30; 200]] {
            assert_eq!(of(broken), None);
        }
    }
}
