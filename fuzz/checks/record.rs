//! Properties that must hold for any row.

use contactd_core::{ContactValue, Kind, Networks, RawRecord};

/// Reading never panics. An accepted value is in its final form: reading it again does not change it.
pub(crate) fn check(networks: &Networks, row: &str) {
    let mut fields = row.split(',');
    let mut next = || fields.next().unwrap_or_default();
    let raw = RawRecord {
        profile_url: "https://linkedin.com/in/ada-quell",
        phone: next(),
        email: next(),
        phone_label: next(),
        email_label: next(),
        confidence: next(),
        observed_at: next(),
        basis: next(),
        expires_at: next(),
        region: next(),
        source: next(),
    };
    let Ok(record) = raw.read(networks, Some("US")) else { return };
    for detail in &record.details {
        let value = detail.value.expose();
        let again = match detail.kind {
            Kind::Phone => {
                assert!(value.starts_with('+') && value[1..].bytes().all(|b| b.is_ascii_digit()));
                ContactValue::phone(value, None).ok()
            }
            Kind::Email => {
                assert!(value.len() <= 254 && value.contains('@'));
                ContactValue::email(value).ok()
            }
        };
        assert!(again.as_ref() == Some(&detail.value), "not its own final form");
        assert!(detail.confidence <= 100);
    }
}
