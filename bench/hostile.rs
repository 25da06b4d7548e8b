//! Sends hostile requests and checks every answer: `hostile PORT PID SEED COUNT THREADS TOKENS-FILE [ONLY]`
//!
//! An exchange is one connection: one to eight requests, then the sending side is closed and everything is read. Each exchange
//! depends only on the seed and its number, so ONLY, the number of an exchange, sends that one alone and prints it whole. An
//! answer must have a documented status, the headers and the body that are documented for it, and the right length.
//! Prints lines of `KIND=value`; the memory of the process PID is read twenty times, evenly spread.
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SAMPLES: u64 = 20;
const MOST_PRINTED: usize = 20;
const PRINTED_BYTES: usize = 1_000;
/// How much of a body that it does not need the server reads.
const SKIPPED: usize = 16 * 1024;
const PATHS: [&str; 2] = ["/api/fetchPhoneNumber", "/api/fetchPersonalEmail"];

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() % most.max(1) as u64) as usize
    }

    fn is_one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.next() as u8).collect()
    }
}

/// What one connection sends.
struct Exchange {
    bytes: Vec<u8>,
    requests: u64,
    /// Every request is valid HTTP, so each must be answered until an answer closes the connection.
    is_sound: bool,
    /// The connection is dropped without reading.
    is_dropped: bool,
    /// A lookup of a person on file with a good token, which must be answered with 200 and nothing else.
    is_control: bool,
}

fn exchange(seed: u64, number: u64, tokens: &[String]) -> Exchange {
    let mut random = Random(seed ^ number.wrapping_mul(0xd134_2543_de82_ef95));
    if number % 200 == 0 {
        let body = r#"{"profileUrl":"https://linkedin.com/in/told-quell-7"}"#;
        let bytes = format!(
            "POST {} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{body}",
            PATHS[0], tokens[0], body.len()
        );
        return Exchange { bytes: bytes.into(), requests: 1, is_sound: true, is_dropped: false, is_control: true };
    }
    let requests = if random.is_one_in(3) { 1 + random.below(8) } else { 1 };
    let mut all = Exchange { bytes: Vec::new(), requests: requests as u64, is_sound: true, is_dropped: random.is_one_in(50), is_control: false };
    for _ in 0..requests {
        let (mut bytes, mut is_sound) = request(&mut random, tokens);
        // An invalid request ends the connection, so among several most are valid.
        while requests > 1 && !is_sound && !random.is_one_in(8) {
            (bytes, is_sound) = request(&mut random, tokens);
        }
        if random.is_one_in(if requests > 1 { 24 } else { 3 }) {
            is_sound = false;
            mutate(&mut random, &mut bytes);
        }
        all.is_sound &= is_sound;
        all.bytes.extend(bytes);
    }
    if random.is_one_in(20) {
        all.is_sound = false;
        let cut = random.below(all.bytes.len());
        all.bytes.truncate(cut);
    }
    all
}

/// Flips, inserts, deletes and repeats bytes.
fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..1 + random.below(6) {
        let at = random.below(bytes.len());
        let end = (at + random.below(24)).min(bytes.len());
        match random.below(7) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            1 if !bytes.is_empty() => bytes[at] = random.next() as u8,
            2 => bytes.insert(at, random.pick(&[b"\r", b"\n", b"\0", b" ", b":", b"\xff", b"\"", b"{", b"%"])[0]),
            3 => drop(bytes.drain(at..end)),
            4 => drop(bytes.splice(at..at, bytes[at..end].to_vec())),
            5 => drop(bytes.splice(at..at, random.bytes(40))),
            // Repeats a whole line, such as a header.
            _ => {
                let start = bytes[..at].iter().rposition(|&b| b == b'\n').map_or(0, |found| found + 1);
                let stop = bytes[at..].iter().position(|&b| b == b'\n').map_or(bytes.len(), |found| at + found + 1);
                drop(bytes.splice(start..start, bytes[start..stop].to_vec()));
            }
        }
    }
}

/// One request, and whether it is valid HTTP.
fn request(random: &mut Random, tokens: &[String]) -> (Vec<u8>, bool) {
    let mut is_sound = true;
    let method = match random.below(10) {
        0 => random.pick(&["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "post", "PRI", "M-SEARCH", "A"]).to_owned(),
        1 => {
            is_sound = false;
            random.pick(&["", "P OST", "POST\0", "PÖST", "\u{7f}", "(POST)", "POST\t", &"M".repeat(5_000)]).to_owned()
        }
        _ => "POST".to_owned(),
    };
    let path = match random.below(12) {
        0 => random.pick(&["/", "/healthz", "/readyz", "/docs", "/docs/app.js", "/docs/style.css", "/openapi.json", "/openapi.yaml"]).to_owned(),
        1 => random.pick(&["//", "/api", "/api/", "/api/fetchphonenumber", "/api/fetchPhoneNumber/", "/../etc/passwd", "/api//fetchPhoneNumber", "*",
            "/%61pi/fetchPhoneNumber", "/api/fetchPhoneNumber%00", "/%", "/%zz", "/%ff%fe", "/?", "/?a=%", "http://x/api/fetchPhoneNumber", "http://",
            "/api/fetchPhoneNumber?profileUrl=x", "/api/fetchPhoneNumber;x", "/.", "/metrics", "/control.sock"]).to_owned(),
        2 => {
            is_sound = false;
            match random.below(4) {
                0 => format!("/{}", "a".repeat(random.below(40_000))),
                1 => "/é\u{1f600}\u{202e}".to_owned(),
                2 => "/a b".to_owned(),
                _ => format!("/{}", String::from_utf8_lossy(&random.bytes(60))),
            }
        }
        _ => random.pick(&PATHS).to_owned(),
    };
    let version = match random.below(20) {
        0 => {
            is_sound = false;
            random.pick(&["HTTP/1.0", "HTTP/2.0", "HTTP/1.2", "HTTP/0.9", "HTTP/1.1 ", "http/1.1", "", "HTTP/9999999999.1", "RTSP/1.0"])
        }
        _ => "HTTP/1.1",
    };
    let mut out = format!("{method} {path} {version}\r\n").into_bytes();
    match random.below(20) {
        0 => {
            is_sound = false;
            out.extend(random.pick(&["", "Host:\r\n", "Host: a\r\nHost: b\r\n", "Host: a/b\r\n", "Host: a\n", "Host : a\r\n", "Host: \u{0}\r\n"]).as_bytes());
        }
        _ => out.extend(b"Host: x\r\n"),
    }
    authorization(random, tokens, &mut out);
    if method == "OPTIONS" && random.is_one_in(2) {
        out.extend(b"Origin: https://app.example.com\r\nAccess-Control-Request-Method: POST\r\n");
    }
    if let Some(line) = [
        "Content-Type: application/json\r\n", "Content-Type: application/json; charset=utf-16\r\n", "Content-Type: application/ld+json\r\n",
        "Content-Type: application/json\r\n", "Content-Type: application/json\r\n", "Content-Type: application/json\r\n",
        "Content-Type: text/plain\r\n", "Content-Type: application/json\r\nContent-Type: text/xml\r\n", "Content-Type:\r\n",
    ].get(random.below(14)) {
        out.extend(line.as_bytes());
    }
    if random.is_one_in(4) {
        is_sound &= extra(random, &mut out);
    }
    let body = body(random);
    is_sound &= framed(random, &mut out, &body);
    (out, is_sound)
}

fn authorization(random: &mut Random, tokens: &[String], out: &mut Vec<u8>) {
    let token = &tokens[random.below(tokens.len())];
    let line = match random.below(16) {
        0 => String::new(),
        1 => format!("Authorization: Bearer ctd_{}\r\n", "x".repeat(random.below(80))),
        2 => format!("Authorization: Bearer {}\r\n", token.replace('a', "b")),
        3 => format!("Authorization: Bearer {token}\r\nAuthorization: Bearer {token}\r\n"),
        4 => format!("Authorization: {}\r\n", random.pick(&["Bearer", "Bearer ", "Basic eDp5", "bearer  ", "Bearer \"\"", "Token x", ""])),
        5 => format!("Authorization: Bearer {}\r\n", "t".repeat(random.below(9_000))),
        6 => format!("Authorization: Bearer {}\u{e9}\r\n", &token[..token.len() - 1]),
        7 => format!("authorization:\tbEARER   {token}  \r\n"),
        _ => format!("Authorization: Bearer {token}\r\n"),
    };
    out.extend(line.as_bytes());
}

/// Adds other headers. Returns whether they are valid HTTP.
fn extra(random: &mut Random, out: &mut Vec<u8>) -> bool {
    match random.below(14) {
        0 => out.extend(b"X-Request-Id: hostile-1\r\n"),
        1 => out.extend(format!("X-Request-Id: {}\r\n", "i".repeat(random.below(400))).as_bytes()),
        2 => out.extend("X-Request-Id: a b\u{e9}<script>\r\n".as_bytes()),
        3 => out.extend(b"Origin: https://app.example.com\r\nAccess-Control-Request-Method: POST\r\n"),
        4 => out.extend(b"Origin: https://app.example.com\r\n"),
        5 => out.extend(b"Origin: null\r\nOrigin: https://app.example.com\r\n"),
        6 => out.extend(b"Content-Encoding: gzip, identity, br\r\n"),
        7 => out.extend(b"Connection: close, keep-alive, upgrade\r\nUpgrade: h2c\r\n"),
        8 => out.extend(b"Expect: 100-continue\r\n"),
        // What follows may be more than the server accepts, or not valid.
        9 => {
            out.extend(format!("X-Huge: {}\r\n", "h".repeat(random.below(60_000))).as_bytes());
            return false;
        }
        10 => {
            (0..random.below(150)).for_each(|n| out.extend(format!("X-{n}: {n}\r\n").as_bytes()));
            return false;
        }
        11 => {
            out.extend(b"X-Fold: a\r\n b\r\n");
            return false;
        }
        12 => {
            out.extend(b"X-Raw: ");
            out.extend(random.bytes(60));
            out.extend(b"\r\n");
            return false;
        }
        _ => {
            out.extend(random.pick(&["No-Colon\r\n", ": no name\r\n", "X y: z\r\n", "X: a\rb\r\n", "X: a\n", "\u{e9}: x\r\n"]).as_bytes());
            return false;
        }
    }
    true
}

/// Adds the length and the body. Returns whether they agree.
fn framed(random: &mut Random, out: &mut Vec<u8>, body: &[u8]) -> bool {
    let length = body.len();
    let wrong = match random.below(30) {
        0 => "-1".to_owned(),
        1 => "18446744073709551616".to_owned(),
        2 => "9223372036854775807".to_owned(),
        3 => format!("+{length}"),
        4 => format!("{length}, {length}"),
        5 => format!("0x{length:x}"),
        6 => (length + 1 + random.below(50)).to_string(),
        7 => random.below(length).to_string(),
        8 => format!("{length}\r\nContent-Length: {}", length + 1),
        9 => format!("{length}\r\nTransfer-Encoding: chunked"),
        10..=13 => {
            out.extend(b"Transfer-Encoding: chunked\r\n\r\n");
            let (is_broken, start) = (random.is_one_in(2), out.len());
            chunked(random, out, body, is_broken);
            // If the answer did not need the body, a longer one ends the connection after an answer that could not say so.
            return !is_broken && out.len() - start <= SKIPPED;
        }
        14 => {
            out.extend(random.pick(&["Transfer-Encoding: gzip\r\n\r\n", "Transfer-Encoding: chunked, chunked\r\n\r\n", "Transfer-Encoding:\r\n\r\n",
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "\r\n"]).as_bytes());
            out.extend(body);
            return false;
        }
        _ => {
            out.extend(format!("Content-Length: {length}\r\n\r\n").as_bytes());
            out.extend(body);
            return true;
        }
    };
    out.extend(format!("Content-Length: {wrong}\r\n\r\n").as_bytes());
    out.extend(body);
    false
}

fn chunked(random: &mut Random, out: &mut Vec<u8>, body: &[u8], is_broken: bool) {
    let at = if is_broken { random.below(8) } else { usize::MAX };
    for piece in body.chunks(1 + random.below(200)) {
        let size = match at {
            0 => format!("{:x}\r\n", piece.len() + 1),
            1 => "ffffffffffffffff\r\n".to_owned(),
            2 => format!("-{:x}\r\n", piece.len()),
            3 => format!("{:x}\n", piece.len()),
            4 => format!("{:x};{}\r\n", piece.len(), "e".repeat(random.below(20_000))),
            5 => "\r\n".to_owned(),
            _ => format!("{:X}\r\n", piece.len()),
        };
        out.extend(size.as_bytes());
        out.extend(piece);
        out.extend(b"\r\n");
    }
    match at {
        6 => {}
        7 => out.extend(format!("0\r\nX-Trailer: {}\r\n\r\n", "t".repeat(random.below(20_000))).as_bytes()),
        _ => out.extend(b"0\r\n\r\n"),
    }
}

fn body(random: &mut Random) -> Vec<u8> {
    let deepest = if random.is_one_in(20) { 30_000 } else { 300 };
    let deep = 1 + random.below(deepest);
    let field = |value: &str| format!("{{\"profileUrl\":{value}}}").into_bytes();
    match random.below(30) {
        0 => Vec::new(),
        1 => [b"[".repeat(deep), b"]".repeat(deep)].concat(),
        2 => b"{\"a\":".repeat(deep),
        3 => field(&[&*"[".repeat(deep), &*"]".repeat(deep)].concat()),
        4 => field(random.pick(&["1e999999", "-0", "0x10", "NaN", "1e-999999", "12345678901234567890123", "1.", "-", "Infinity", "null", "true", "[]", "{}"])),
        5 => field(&"9".repeat(deep)),
        6 => br#"{"profileUrl":"https://linkedin.com/in/told-quell-1","profileUrl":"https://linkedin.com/in/told-quell-2"}"#.to_vec(),
        7 => br#"{"profileUrl":"https://linkedin.com/in/told-quell-1","profile\u0055rl":1}"#.to_vec(),
        8 => [b"{\"profileUrl\":\"https://linkedin.com/in/".to_vec(), random.bytes(30), b"\"}".to_vec()].concat(),
        9 => b"\xef\xbb\xbf{\"profileUrl\":\"https://linkedin.com/in/told-quell-1\"}".to_vec(),
        10 => b"\xef\xbb\xbf\xef\xbb\xbf{}".to_vec(),
        11 => b"\xff\xfe{\0}\0".to_vec(),
        12 => field(random.pick(&[r#""\ud800""#, r#""\udc00\ud800""#, r#""\ud83d\ude00""#, r#""\u0000""#, r#""\x""#, r#""\u12""#, "\"\n\"", "\"\t\"", "\"", "'a'"])),
        13 => random.bytes(600),
        14 => random.pick(&["null", "true", "\"\"", "[]", "{}", "0", " ", "{", "}", "{}{}", "{},", "[{}]", "{\"profileUrl\"}", "// x\n{}", "undefined"]).as_bytes().to_vec(),
        15 => [vec![b' '; random.below(20_000)], b"{\"profileUrl\":\"x\"}".to_vec()].concat(),
        16 => field(&format!("\"{}\"", "u".repeat(random.below(40_000)))),
        17 => [field("\"https://linkedin.com/in/told-quell-1\""), random.bytes(20)].concat(),
        18 => format!("{{{}\"profileUrl\":\"https://linkedin.com/in/told-quell-3\"}}", "\"k\":[1,{\"x\":null}],".repeat(random.below(400))).into_bytes(),
        19..=22 => field(&format!("\"https://linkedin.com/in/told-quell-{}\"", random.below(20))),
        _ => {
            let url = url(random);
            field(&format!("\"{}\"", if random.is_one_in(2) { escaped(&url) } else { url.replace(['"', '\\'], "") }))
        }
    }
}

fn url(random: &mut Random) -> String {
    let mut url = random.pick(&["https://linkedin.com/in/told-quell-1", "https://www.linkedin.com/in/josé-quell", "xing.com/profile/Mira_Quell",
        "https://de.linkedin.com/pub/ada-quell/1/2a/3b", "https://lnkd.in/x", "ftp://linkedin.com/in/a", "https://user@linkedin.com:8443/in/ada-quell",
        "https://linkedin.com/in/%41da%2Dquell%zz", "https://linkedin.com/in/%C3%28", "https://linkedin.com/in/%25%34%31", "https://linkedin.com//in/../in/x",
        "https://linkedin.com/company/quell", "https://ⓛinkedin.com/in/ada", "https://xn--linkedin-.com/in/ada", "https://[::1]/in/a", "javascript:alert(1)",
        "", " ", "https://linkedin.com/in/", "https://linkedin.com/in/ACoAAquellquellquellquellquellquellquell", "\u{feff}linkedin.com/in/told-quell-1"]).to_owned();
    for _ in 0..random.below(4) {
        let at = (0..=random.below(url.len() + 1)).rev().find(|&at| url.is_char_boundary(at)).unwrap_or(0);
        match random.below(4) {
            0 => url.insert(at, char::from_u32(random.below(0x11_0000) as u32).unwrap_or('\u{fffd}')),
            1 => url.insert(at, char::from(random.below(33) as u8)),
            2 => url.insert_str(at, random.pick(&["%00", "%", "%E2%80%AE", "\u{202e}", "\u{200b}", "e\u{301}", "İ", "ß", "ﬀ", "\u{1f469}\u{200d}\u{1f4bb}", "?#", "\\", "\u{7f}"])),
            _ => url.truncate(at),
        }
    }
    url
}

/// A JSON string in which some characters are escapes.
fn escaped(text: &str) -> String {
    text.encode_utf16().map(|unit| if unit < 32 || unit > 126 || matches!(unit, 34 | 92) { format!("\\u{unit:04x}") } else { char::from(unit as u8).to_string() }).collect()
}

/// An answer, without its body.
struct Answer<'a> {
    status: u16,
    headers: BTreeMap<&'a str, &'a str>,
}

const KNOWN: [&str; 24] = [
    "content-type", "cache-control", "content-length", "connection", "date", "x-request-id", "x-invalid-reason", "www-authenticate", "allow", "retry-after",
    "location", "ratelimit", "ratelimit-policy", "accept-encoding", "access-control-allow-origin", "vary", "access-control-expose-headers",
    "access-control-allow-headers", "access-control-max-age", "access-control-allow-methods", "content-security-policy", "referrer-policy",
    "x-content-type-options", "server",
];

/// Takes one answer off the front, checked.
fn take<'a>(received: &mut &'a [u8], may_be_head: bool) -> Result<Answer<'a>, String> {
    let end = received.windows(4).position(|four| four == b"\r\n\r\n").ok_or("an answer without the end of its head")?;
    let head = std::str::from_utf8(&received[..end]).map_err(|_| "a head that is not UTF-8")?;
    *received = &received[end + 4..];
    let mut lines = head.split("\r\n");
    let line = lines.next().unwrap_or_default();
    let status: u16 = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok()).ok_or_else(|| format!("status line {line:?}"))?;
    let mut headers = BTreeMap::new();
    for line in lines {
        let (name, value) = line.split_once(": ").ok_or_else(|| format!("header line {line:?}"))?;
        if !KNOWN.contains(&name) || value.bytes().any(|b| !(b' '..=b'~').contains(&b)) {
            return Err(format!("unknown header {line:?}"));
        }
        if headers.insert(name, value).is_some() {
            return Err(format!("{name} twice"));
        }
    }
    let answer = Answer { status, headers };
    if status == 100 {
        return if answer.headers.is_empty() { Ok(answer) } else { Err("100 with headers".to_owned()) };
    }
    let id = answer.headers.get("x-request-id").ok_or("no X-Request-Id")?;
    if id.is_empty() || id.len() > 128 || id.contains(' ') {
        return Err(format!("X-Request-Id {id:?}"));
    }
    answer.headers.get("date").ok_or("no Date")?;
    if status == 204 {
        return if answer.headers.contains_key("content-length") { Err("204 with a length".to_owned()) } else { Ok(answer) };
    }
    let length: usize = answer.headers.get("content-length").and_then(|length| length.parse().ok()).ok_or("no Content-Length")?;
    if may_be_head && (received.is_empty() || received.starts_with(b"HTTP/1.1 ")) {
        return Ok(answer);
    }
    let body = received.get(..length).ok_or("a body shorter than its Content-Length")?;
    *received = &received[length..];
    check(&answer, body)?;
    Ok(answer)
}

/// Whether headers and body are those that are documented for the status.
fn check(answer: &Answer<'_>, body: &[u8]) -> Result<(), String> {
    let has = |name: &str| answer.headers.contains_key(name);
    let is_json = answer.headers.get("content-type") == Some(&"application/json");
    if answer.status == 200 && (!is_json || body.len() > 4_096) {
        return if has("content-security-policy") { Ok(()) } else { Err("200 that is neither JSON nor a page".to_owned()) };
    }
    let text = std::str::from_utf8(body).map_err(|_| "a body that is not UTF-8")?;
    let fields = fields(text).ok_or("a body that is not an object of strings")?;
    let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
    if answer.headers.get("cache-control") != Some(&"no-store") {
        return Err("JSON without Cache-Control: no-store".to_owned());
    }
    if answer.status == 200 {
        let is_known = matches!(names[..], ["phoneNumber" | "email", "profileUrl"]) && fields[1].1.starts_with("https://")
            || matches!(text, r#"{"status":"ok"}"# | r#"{"status":"ready"}"#);
        return if is_known { Ok(()) } else { Err(format!("200 with {text}")) };
    }
    let ["status", "message"] = names[..] else { return Err(format!("fields {names:?}")) };
    let (code, message) = (fields[0].1.as_str(), fields[1].1.as_str());
    let closes = answer.headers.get("connection") == Some(&"close");
    let is_right = match (answer.status, code) {
        (307, "temporary_redirect") => has("location"),
        (400, "invalid_profile_url") => {
            has("x-invalid-reason") && message.starts_with("Invalid profileUrl: ")
                && PATHS.iter().any(|path| message.ends_with(&format!(" on {path} api call.")))
        }
        (400, "bad_request") => closes && message == "The request is not valid HTTP/1.1 for this service.",
        (431, "bad_request") => closes && message == "The request line and headers are too large.",
        (401, "no_authorization_found") => message == "No authorization found." && answer.headers.get("www-authenticate").is_some_and(|value| value.starts_with("Bearer")),
        (404, "contact_not_found") => {
            ["No phone number found for https://", "No personal e-mail found for https://"].iter().any(|start| message.starts_with(start))
        }
        (404, "not_found") => message == "There is nothing at this path.",
        (405, "method_not_allowed") => has("allow") && message == "This method is not allowed here; the Allow header lists those that are.",
        (408, "request_timeout") => closes && message == "The request body did not arrive in time.",
        (413, "request_too_large") => closes && message == "The request body is too large.",
        (415, "unsupported_media_type") => {
            message == "The request body must be JSON (Content-Type: application/json)."
                || has("accept-encoding") && message == "The request body must not be encoded; send it without Content-Encoding."
        }
        (429, "rate_limited") => has("retry-after") && has("ratelimit") && message == "Too many requests; retry after the time in Retry-After.",
        (429, "quota_exceeded") => has("retry-after") && message == "The quota of this token is used up; it is renewed after the time in Retry-After.",
        (503, "service_unavailable") => has("retry-after") && message == "The service cannot take this request now; retry after the time in Retry-After.",
        _ => false,
    };
    if is_right { Ok(()) } else { Err(format!("{} with {text}", answer.status)) }
}

/// The fields of a JSON object whose values are all strings, or `None` if it is anything else.
fn fields(text: &str) -> Option<Vec<(String, String)>> {
    let mut rest = text.strip_prefix('{')?;
    let mut found = Vec::new();
    loop {
        let name = string(&mut rest)?;
        rest = rest.strip_prefix(':')?;
        found.push((name, string(&mut rest)?));
        match rest {
            "}" => return Some(found),
            _ => rest = rest.strip_prefix(',')?,
        }
    }
}

fn string(rest: &mut &str) -> Option<String> {
    let mut units: Vec<u16> = Vec::new();
    let mut chars = rest.strip_prefix('"')?.chars();
    loop {
        let mut buffer = [0; 2];
        match chars.next()? {
            '"' => break,
            '\\' => units.push(match chars.next()? {
                c @ ('"' | '\\' | '/') => c as u16,
                'b' => 8,
                'f' => 12,
                'n' => 10,
                'r' => 13,
                't' => 9,
                'u' => {
                    let digits: String = chars.by_ref().take(4).collect();
                    u16::from_str_radix(&digits, 16).ok()?
                }
                _ => return None,
            }),
            c if c < ' ' => return None,
            c => units.extend_from_slice(c.encode_utf16(&mut buffer)),
        }
    }
    *rest = chars.as_str();
    String::from_utf16(&units).ok()
}

/// Sends an exchange and reads everything. The second value says whether the connection was reset.
fn send(port: u16, exchange: &Exchange) -> std::io::Result<(Vec<u8>, bool)> {
    let mut connection = TcpStream::connect(("127.0.0.1", port))?;
    connection.set_read_timeout(Some(Duration::from_secs(30)))?;
    connection.set_write_timeout(Some(Duration::from_secs(30)))?;
    let is_sent = connection.write_all(&exchange.bytes).is_ok();
    let mut received = Vec::new();
    if exchange.is_dropped {
        return Ok((received, false));
    }
    let is_shut = connection.shutdown(Shutdown::Write).is_ok();
    match connection.read_to_end(&mut received) {
        Ok(_) => Ok((received, !is_sent || !is_shut)),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Ok((received, true)),
        Err(error) => Err(error),
    }
}

/// Checks all answers of an exchange and returns their statuses.
fn judge(exchange: &Exchange, received: &[u8], is_reset: bool) -> Result<Vec<u16>, String> {
    let may_be_head = exchange.bytes.windows(4).any(|four| four == b"HEAD");
    let (mut rest, mut statuses, mut closes) = (received, Vec::new(), false);
    while !rest.is_empty() {
        if closes {
            return Err("bytes after an answer that closes the connection".to_owned());
        }
        let answer = take(&mut rest, may_be_head)?;
        if answer.status == 100 {
            continue;
        }
        closes = answer.headers.get("connection") == Some(&"close");
        statuses.push(answer.status);
    }
    let answered = statuses.len() as u64;
    if exchange.is_sound && !exchange.is_dropped && !closes && (answered != exchange.requests || is_reset) {
        return Err(format!("{answered} answers to {} requests, reset: {is_reset}", exchange.requests));
    }
    let known = br#"{"phoneNumber":"+14155550107","profileUrl":"https://linkedin.com/in/told-quell-7"}"#;
    if exchange.is_control && statuses != [503] && !(statuses == [200] && received.ends_with(known)) {
        return Err("a good lookup failed".to_owned());
    }
    Ok(statuses)
}

fn memory(pid: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or("0");
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, port, pid, seed, count, threads, file, only @ ..] = &arguments[..] else {
        panic!("hostile PORT PID SEED COUNT THREADS TOKENS-FILE [ONLY]")
    };
    let [seed, count, threads] = [seed, count, threads].map(|text| text.parse::<u64>().expect("a number"));
    let port: u16 = port.parse().expect("a port");
    let tokens: Vec<String> = std::fs::read_to_string(file).expect("tokens").lines().map(str::to_owned).collect();
    if let Some(only) = only.first() {
        let exchange = exchange(seed, only.parse().expect("a number"), &tokens);
        println!("SENT=b\"{}\"", exchange.bytes.escape_ascii());
        let (received, is_reset) = send(port, &exchange).expect("an answer");
        println!("RECEIVED=b\"{}\"", received.escape_ascii());
        println!("JUDGED={:?}", judge(&exchange, &received, is_reset));
        return;
    }
    let (next, sent, problems) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let (statuses, memories, printed) = (Mutex::new(BTreeMap::<u16, u64>::new()), Mutex::new(vec![memory(pid)]), Mutex::new(0));
    let every = (count / SAMPLES).max(1);
    let work = || {
        while sent.load(Ordering::Relaxed) < count && problems.load(Ordering::Relaxed) < 1_000 {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let exchange = exchange(seed, number, &tokens);
            let (judged, received) = match send(port, &exchange) {
                Ok((received, is_reset)) => (judge(&exchange, &received, is_reset), received),
                Err(error) => (Err(format!("no end of the connection: {error}")), Vec::new()),
            };
            match judged {
                Ok(found) => {
                    let mut statuses = statuses.lock().expect("statuses");
                    found.into_iter().for_each(|status| *statuses.entry(status).or_default() += 1);
                }
                Err(why) => {
                    problems.fetch_add(1, Ordering::Relaxed);
                    let mut printed = printed.lock().expect("printed");
                    *printed += 1;
                    if *printed <= MOST_PRINTED {
                        let [sent, answer] = [&exchange.bytes, &received].map(|bytes| bytes[..bytes.len().min(PRINTED_BYTES)].escape_ascii().to_string());
                        println!("PROBLEM=exchange {number} of seed {seed}: {why}; sent {} bytes b\"{sent}\"; received {} bytes b\"{answer}\"", exchange.bytes.len(), received.len());
                    }
                }
            }
            let before = sent.fetch_add(exchange.requests, Ordering::Relaxed);
            if before / every != (before + exchange.requests) / every {
                memories.lock().expect("memories").push(memory(pid));
            }
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    println!("REQUESTS={}", sent.into_inner());
    println!("EXCHANGES={}", next.into_inner());
    println!("PROBLEMS={}", problems.into_inner());
    statuses.into_inner().expect("statuses").iter().for_each(|(status, count)| println!("STATUS={status} {count}"));
    memories.into_inner().expect("memories").iter().for_each(|kib| println!("MEMORY={kib}"));
}
