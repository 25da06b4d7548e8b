//! A text that is taken for a token has the form of one, and no other text is close to it.

use contactd_core::TokenHash;

pub(crate) fn check(presented: &str) {
    if TokenHash::of(presented).is_none() {
        return;
    }
    assert!(
        presented.len() == 42
            && presented.starts_with("ctd_")
            && presented[4..].bytes().all(|b| b.is_ascii_alphanumeric())
    );
    for at in 0..presented.len() {
        let mut typo = presented.as_bytes().to_vec();
        typo[at] = if typo[at] == b'a' { b'b' } else { b'a' };
        assert!(TokenHash::of(&typo).is_none(), "a typo is not found");
    }
    for other in [&presented[1..], &presented[..41], &format!("{presented}a"), &format!(" {presented}")] {
        assert!(TokenHash::of(other).is_none(), "of another length");
    }
}
