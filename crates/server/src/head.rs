//! The head of a request: the parts that this service uses, and whether the request may be served.
//!
//! httparse parses the grammar: it refuses folded lines, spaces before a colon, control characters, bare carriage
//! returns, and versions other than 1.0 and 1.1. This module refuses heads that httparse accepts but that other
//! servers read differently, because such differences make request smuggling possible. `fuzz/checks/http.rs`
//! compares the result with hyper and llhttp.

use std::mem::MaybeUninit;

use crate::{forwarded, target};

/// The most header lines that a request may have.
const MAX_HEADERS: usize = 100;

/// The head of a request, parsed from the received bytes.
#[derive(Debug)]
pub(crate) struct Head<'a> {
    /// Its length in bytes, including the empty line.
    pub(crate) len: usize,
    /// The whole head as it was received.
    pub(crate) bytes: &'a [u8],
    pub(crate) method: &'a str,
    /// The path of the request target, still encoded, without the query.
    pub(crate) path: &'a str,
    /// Whether the request may be served: every server and proxy reads it the same way.
    pub(crate) is_sound: bool,
    pub(crate) framing: Framing,
    /// The client waits for `100 Continue` before it sends the body.
    pub(crate) expects_continue: bool,
    pub(crate) connection: Persistence,
    pub(crate) authorization: Field<'a>,
    pub(crate) content_type: Field<'a>,
    /// The body has a Content-Encoding other than `identity`.
    pub(crate) is_encoded: bool,
    pub(crate) request_id: Field<'a>,
    /// The origin of the web page that a browser sends the request for.
    pub(crate) origin: Field<'a>,
    /// The request has an Access-Control-Request-Method.
    pub(crate) requests_method: bool,
}

impl<'a> Head<'a> {
    /// The value of the first field with this name, in lower case. It reads the whole head, so lookups do not use it.
    pub(crate) fn find(&self, name: &str) -> Option<&'a [u8]> {
        self.bytes.split(|&byte| byte == b'\n').find_map(|line| forwarded::value(line, name))
    }
}

/// How the end of the body is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
}

/// What happens to the connection after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// It stays open, the default of HTTP/1.1.
    Stays,
    /// It stays open because an HTTP/1.0 client asked for it. The answer confirms this.
    StaysOnRequest,
    Closes,
}

/// A header that must not occur more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field<'a> {
    Absent,
    Once(&'a [u8]),
    Repeated,
}

impl<'a> Field<'a> {
    fn add(&mut self, value: &'a [u8]) {
        *self = if *self == Self::Absent { Self::Once(value) } else { Self::Repeated };
    }
}

/// The result of parsing the bytes received so far.
#[derive(Debug)]
pub(crate) enum Parsed<'a> {
    Whole(Head<'a>),
    Partial,
    /// Larger than the limit.
    TooLarge,
    /// Not HTTP/1.
    Broken,
}

/// Parses a head of at most `max_len` bytes from the start of `bytes`. One empty line before it is ignored, because
/// old clients send one after a body.
pub(crate) fn parse(bytes: &[u8], max_len: usize) -> Parsed<'_> {
    if bytes.starts_with(b"\r\n\r\n") {
        return Parsed::Broken;
    }
    let mut lines = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(bytes, &mut lines) {
        Ok(httparse::Status::Complete(len)) if len <= max_len => Parsed::Whole(read(&request, &bytes[..len])),
        Ok(httparse::Status::Partial) if bytes.len() <= max_len => Parsed::Partial,
        Ok(_) | Err(httparse::Error::TooManyHeaders) => Parsed::TooLarge,
        Err(_) => Parsed::Broken,
    }
}

fn read<'a>(request: &httparse::Request<'_, 'a>, bytes: &'a [u8]) -> Head<'a> {
    let is_http_1_0 = request.version == Some(0);
    let (mut host, mut length, mut encoding) = (Field::Absent, Field::Absent, Field::Absent);
    let mut expect = Field::Absent;
    let (mut says_close, mut says_keep_alive) = (false, false);
    let (mut has_bad_option, mut has_space_at_end) = (false, false);
    let mut has_bare_line_feed = !has_whole_empty_lines(bytes);
    let method = request.method.unwrap_or_default();
    let target = target::read(method, request.path.unwrap_or_default());
    let mut head = Head {
        len: bytes.len(),
        bytes,
        method,
        path: target.as_ref().map_or("", |target| target.path),
        is_sound: true,
        framing: Framing::Length(0),
        expects_continue: false,
        connection: Persistence::Stays,
        authorization: Field::Absent,
        content_type: Field::Absent,
        is_encoded: false,
        request_id: Field::Absent,
        origin: Field::Absent,
        requests_method: false,
    };
    for line in &*request.headers {
        let name = line.name;
        has_bare_line_feed |= !follows_whole_line(name, bytes);
        match name.len() {
            4 if is(name, b"host") => host.add(line.value),
            6 if is(name, b"origin") => head.origin.add(line.value),
            6 if is(name, b"expect") => expect.add(line.value),
            10 if is(name, b"connection") => {
                let mut options = line.value.split(|&b| b == b',').map(<[u8]>::trim_ascii);
                says_close |= options.clone().any(|option| option.eq_ignore_ascii_case(b"close"));
                says_keep_alive |= options.clone().any(|option| option.eq_ignore_ascii_case(b"keep-alive"));
                has_bad_option |= options.any(|option| !is_connection_option(option));
            }
            12 if is(name, b"content-type") => head.content_type.add(line.value),
            12 if is(name, b"x-request-id") => head.request_id.add(line.value),
            13 if is(name, b"authorization") => head.authorization.add(line.value),
            14 if is(name, b"content-length") => {
                length.add(line.value);
                has_space_at_end |= !ends_line(line.value, bytes);
            }
            16 if is(name, b"content-encoding") => head.is_encoded |= is_encoding(line.value),
            17 if is(name, b"transfer-encoding") => {
                encoding.add(line.value);
                has_space_at_end |= !ends_line(line.value, bytes);
            }
            29 if is(name, b"access-control-request-method") => head.requests_method = true,
            _ => {}
        }
    }
    let framing = framing(length, encoding, is_http_1_0);
    head.is_sound = is_method(method)
        && target.is_some_and(|target| is_host(host, target.authority, is_http_1_0))
        && framing.is_some()
        && is_expectation(expect)
        && !(has_bad_option || has_space_at_end || has_bare_line_feed);
    head.framing = framing.unwrap_or(Framing::Length(0));
    head.expects_continue = expect != Field::Absent && !is_http_1_0;
    head.connection = match is_http_1_0 {
        _ if says_close => Persistence::Closes,
        true if says_keep_alive => Persistence::StaysOnRequest,
        true => Persistence::Closes,
        false => Persistence::Stays,
    };
    head
}

/// Whether a name of a field is this one, which is in lower case, in any case. Comparing all of it at once is faster than letter by
/// letter. A name has no control characters, so only `-` becomes `-`.
fn is<const N: usize>(name: &str, lower_case: &[u8; N]) -> bool {
    let name: Result<&[u8; N], _> = name.as_bytes().try_into();
    name.is_ok_and(|name| name.iter().zip(lower_case).fold(0, |diff, (a, b)| diff | ((a | 0x20) ^ b)) == 0)
}

/// Methods are capital letters: some servers do not distinguish case, others refuse what they do not know. After
/// CONNECT, some expect a tunnel and no body.
fn is_method(method: &str) -> bool {
    method.bytes().all(|b| b.is_ascii_uppercase() || b == b'-' || b == b'_') && method != "CONNECT"
}

/// HTTP/1.1 requires exactly one Host, and HTTP/1.0 may have none. It must be the one of the target if that is a
/// full URL, because servers differ in which of the two they use.
fn is_host(host: Field<'_>, authority: Option<&str>, is_http_1_0: bool) -> bool {
    match host {
        Field::Once(host) => {
            target::is_authority(host)
                && authority.is_none_or(|authority| host.eq_ignore_ascii_case(authority.as_bytes()))
        }
        Field::Absent => is_http_1_0,
        Field::Repeated => false,
    }
}

/// The one expectation that there is. A server that does not know another would ignore it or wait for it.
fn is_expectation(expect: Field<'_>) -> bool {
    match expect {
        Field::Absent => true,
        Field::Once(expected) => expected.eq_ignore_ascii_case(b"100-continue"),
        Field::Repeated => false,
    }
}

/// Whether this is a word, and not the name of a field without which the request means something else: a proxy
/// removes the fields that Connection names. Some servers ignore a list with something that is not a word.
fn is_connection_option(option: &[u8]) -> bool {
    let fields: [&[u8]; 4] = [b"host", b"content-length", b"transfer-encoding", b"authorization"];
    option.iter().all(|&b| is_token(b)) && !fields.iter().any(|name| option.eq_ignore_ascii_case(name))
}

/// A character of a word in RFC 9110, section 5.6.2.
pub(crate) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether a list of content codings has one other than `identity`.
fn is_encoding(codings: &[u8]) -> bool {
    let mut codings = codings.split(|&b| b == b',').map(<[u8]>::trim_ascii);
    codings.any(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"))
}

/// How the body is framed, or `None` if that is ambiguous or the coding is not `chunked`.
fn framing(length: Field<'_>, encoding: Field<'_>, is_http_1_0: bool) -> Option<Framing> {
    match (length, encoding) {
        (Field::Absent, Field::Absent) => Some(Framing::Length(0)),
        (Field::Once(length), Field::Absent) => content_length(length).map(Framing::Length),
        (Field::Absent, Field::Once(encoding)) => {
            (!is_http_1_0 && encoding.eq_ignore_ascii_case(b"chunked")).then_some(Framing::Chunked)
        }
        _ => None,
    }
}

/// Whether a value is followed by its line end. In the fields that frame a body, spaces and tabs there are refused:
/// llhttp reads `chunked` with a tab after it as another coding.
fn ends_line(value: &[u8], head: &[u8]) -> bool {
    let end = value.as_ptr_range().end.addr().checked_sub(head.as_ptr().addr());
    end.and_then(|end| head.get(end)) == Some(&b'\r')
}

/// Accepts only digits, without leading zeros: some parsers read those as octal.
fn content_length(value: &[u8]) -> Option<u64> {
    if value.len() > 1 && value[0] == b'0' {
        return None;
    }
    let digits = value.iter().map(|&b| b.is_ascii_digit().then(|| u64::from(b - b'0')));
    let length = digits.reduce(|length, digit| length?.checked_mul(10)?.checked_add(digit?));
    length?
}

/// Whether the line before this name ends with a carriage return and a line feed. Parsers that accept a bare line feed and
/// parsers that do not would see two different requests. In a head that httparse accepts, line feeds are only at the ends of lines.
fn follows_whole_line(name: &str, head: &[u8]) -> bool {
    let end = name.as_ptr().addr().checked_sub(head.as_ptr().addr() + 2);
    end.and_then(|end| head.get(end)) == Some(&b'\r')
}

/// Whether an empty line before the request, its last line and the empty line after it end so too.
fn has_whole_empty_lines(head: &[u8]) -> bool {
    let request = head.strip_prefix(b"\r\n").unwrap_or(head);
    !request.starts_with(b"\n") && head.ends_with(b"\r\n\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_has_a_largest_size_whole_or_not() {
        const MAX: usize = 1_000;
        let text = format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(MAX));
        assert!(matches!(parse(text.as_bytes(), MAX), Parsed::TooLarge));
        assert!(matches!(parse(&text.as_bytes()[..MAX + 1], MAX), Parsed::TooLarge));
        assert!(matches!(parse(&text.as_bytes()[..MAX], MAX), Parsed::Partial));
        let lines = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(MAX_HEADERS + 1));
        assert!(matches!(parse(lines.as_bytes(), MAX), Parsed::TooLarge));
    }

    #[test]
    fn a_line_feed_without_its_carriage_return_is_refused_in_every_line() {
        let is_sound = |text: &[u8]| matches!(parse(text, 1_000), Parsed::Whole(head) if head.is_sound);
        for whole in [
            &b"\r\nPOST / HTTP/1.1\r\nHost: x\r\nEmpty:\r\nSpaces: a \t\r\n\r\n"[..],
            b"GET /a?b HTTP/1.0\r\n\r\n",
        ] {
            assert!(is_sound(whole));
            for at in (0..whole.len()).filter(|&at| whole[at] == b'\r') {
                let bare = [&whole[..at], &whole[at + 1..]].concat();
                assert!(!is_sound(&bare), "{}", bare.escape_ascii());
            }
        }
    }
}
