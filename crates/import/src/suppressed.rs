//! Details of people who opted out are not loaded.

use contactd_core::{Kind, Record, SuppressionList};

/// Takes out of a record what must not be loaded, because its person, number or address has opted out. Returns the kinds of those
/// details.
pub(crate) fn leave_out(record: &mut Record, suppressions: &SuppressionList) -> Vec<Kind> {
    let mut left_out = Vec::new();
    if !suppressions.is_empty() {
        let Record { profile, details } = record;
        details.retain(|detail| {
            let is_out = suppressions.withholds(profile, detail.kind, &detail.value);
            if is_out {
                left_out.push(detail.kind);
            }
            !is_out
        });
    }
    left_out
}
