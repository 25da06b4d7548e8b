//! Files of web pages: browsers keep them, and get them compressed.

/// Which form of a file answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileForm {
    /// None: the client has this version already.
    Unchanged,
    /// Compressed with gzip.
    Packed,
    /// As it is.
    Plain,
}

impl FileForm {
    /// The form for a client that sends these `Accept-Encoding` and `If-None-Match` about a file with this tag.
    pub fn of(accept_encoding: Option<&[u8]>, if_none_match: Option<&[u8]>, tag: &str) -> Self {
        if if_none_match.is_some_and(|known| parts(known).any(|known| known == tag.as_bytes())) {
            return Self::Unchanged;
        }
        match accept_encoding.is_some_and(|codings| parts(codings).any(is_gzip)) {
            true => Self::Packed,
            false => Self::Plain,
        }
    }
}

/// The tag of a file, from the checksum and the length at the end of its compressed form. It is weak, because both forms have it.
pub fn file_tag(packed: &[u8]) -> String {
    format!("W/\"{}\"", super::hex::encode(&packed[packed.len().saturating_sub(8)..]))
}

fn parts(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

/// Whether an accepted coding is gzip, and not with the weight 0, which means that it is not accepted.
fn is_gzip(coding: &[u8]) -> bool {
    let mut parts = coding.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
    let is_named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(b"gzip"));
    let is_zero =
        |weight: &[u8]| weight.strip_prefix(b"q=").is_some_and(|q| q.iter().all(|q| b"0.".contains(q)));
    is_named && !parts.any(is_zero)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_what_it_accepts_and_does_not_have() {
        let tag = file_tag(b"....\x01\x02\x03\x04\x05\x06\x07\x08");
        assert_eq!(tag, "W/\"0102030405060708\"");
        let known = format!("\"other\", {tag}");
        for (accepted, known, form) in [
            (None, None, FileForm::Plain),
            (Some("gzip, deflate, br"), None, FileForm::Packed),
            (Some("br;q=1.0, GZIP;q=0.8"), Some("\"other\""), FileForm::Packed),
            (Some("gzip;q=0.0, *"), None, FileForm::Plain),
            (Some("x-gzip"), None, FileForm::Plain),
            (None, Some(known.as_str()), FileForm::Unchanged),
        ] {
            assert_eq!(
                FileForm::of(accepted.map(str::as_bytes), known.map(str::as_bytes), &tag),
                form,
                "{accepted:?}"
            );
        }
    }
}
