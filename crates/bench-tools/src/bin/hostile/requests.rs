//! What is sent: requests that are valid, nearly valid and not at all.

use crate::PATHS;
use crate::bodies::body;
use crate::random::Random;

/// How much of a body that it does not need the server reads.
const SKIPPED: usize = 16 * 1024;

/// What one connection sends.
pub(crate) struct Exchange {
    pub(crate) bytes: Vec<u8>,
    pub(crate) requests: u64,
    /// Every request is valid HTTP, so each must be answered until an answer closes the connection.
    pub(crate) is_sound: bool,
    /// The connection is dropped without reading.
    pub(crate) is_dropped: bool,
    /// A lookup of a person on file with a good token, which must be answered with 200 and nothing else.
    pub(crate) is_control: bool,
}

pub(crate) fn exchange(seed: u64, number: u64, tokens: &[String]) -> Exchange {
    let mut random = Random(seed ^ number.wrapping_mul(0xd134_2543_de82_ef95));
    if number.is_multiple_of(200) {
        let body = r#"{"profileUrl":"https://linkedin.com/in/told-quell-7"}"#;
        let bytes = format!(
            "POST {} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{body}",
            PATHS[0],
            tokens[0],
            body.len()
        );
        return Exchange {
            bytes: bytes.into(),
            requests: 1,
            is_sound: true,
            is_dropped: false,
            is_control: true,
        };
    }
    let requests = if random.is_one_in(3) { 1 + random.below(8) } else { 1 };
    let mut all = Exchange {
        bytes: Vec::new(),
        requests: requests as u64,
        is_sound: true,
        is_dropped: random.is_one_in(50),
        is_control: false,
    };
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
            2 => bytes
                .insert(at, random.pick(&[b"\r", b"\n", b"\0", b" ", b":", b"\xff", b"\"", b"{", b"%"])[0]),
            3 => drop(bytes.drain(at..end)),
            4 => drop(bytes.splice(at..at, bytes[at..end].to_vec())),
            5 => drop(bytes.splice(at..at, random.bytes(40))),
            // Repeats a whole line, such as a header.
            _ => {
                let start = bytes[..at].iter().rposition(|&b| b == b'\n').map_or(0, |found| found + 1);
                let stop =
                    bytes[at..].iter().position(|&b| b == b'\n').map_or(bytes.len(), |found| at + found + 1);
                drop(bytes.splice(start..start, bytes[start..stop].to_vec()));
            }
        }
    }
}

/// One request, and whether it is valid HTTP.
fn request(random: &mut Random, tokens: &[String]) -> (Vec<u8>, bool) {
    let mut is_sound = true;
    let method = match random.below(10) {
        0 => random
            .pick(&[
                "GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "post", "PRI",
                "M-SEARCH", "A",
            ])
            .to_owned(),
        1 => {
            is_sound = false;
            random
                .pick(&["", "P OST", "POST\0", "PÖST", "\u{7f}", "(POST)", "POST\t", &"M".repeat(5_000)])
                .to_owned()
        }
        _ => "POST".to_owned(),
    };
    let path = match random.below(12) {
        0 => random
            .pick(&[
                "/",
                "/healthz",
                "/readyz",
                "/docs",
                "/docs/app.js",
                "/docs/style.css",
                "/openapi.json",
                "/openapi.yaml",
            ])
            .to_owned(),
        1 => random
            .pick(&[
                "//",
                "/api",
                "/api/",
                "/api/fetchphonenumber",
                "/api/fetchPhoneNumber/",
                "/../etc/passwd",
                "/api//fetchPhoneNumber",
                "*",
                "/%61pi/fetchPhoneNumber",
                "/api/fetchPhoneNumber%00",
                "/%",
                "/%zz",
                "/%ff%fe",
                "/?",
                "/?a=%",
                "http://x/api/fetchPhoneNumber",
                "http://",
                "/api/fetchPhoneNumber?profileUrl=x",
                "/api/fetchPhoneNumber;x",
                "/.",
                "/metrics",
                "/control.sock",
            ])
            .to_owned(),
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
            random.pick(&[
                "HTTP/1.0",
                "HTTP/2.0",
                "HTTP/1.2",
                "HTTP/0.9",
                "HTTP/1.1 ",
                "http/1.1",
                "",
                "HTTP/9999999999.1",
                "RTSP/1.0",
            ])
        }
        _ => "HTTP/1.1",
    };
    let mut out = format!("{method} {path} {version}\r\n").into_bytes();
    match random.below(20) {
        0 => {
            is_sound = false;
            out.extend(
                random
                    .pick(&[
                        "",
                        "Host:\r\n",
                        "Host: a\r\nHost: b\r\n",
                        "Host: a/b\r\n",
                        "Host: a\n",
                        "Host : a\r\n",
                        "Host: \u{0}\r\n",
                    ])
                    .as_bytes(),
            );
        }
        _ => out.extend(b"Host: x\r\n"),
    }
    authorization(random, tokens, &mut out);
    if method == "OPTIONS" && random.is_one_in(2) {
        out.extend(b"Origin: https://app.example.com\r\nAccess-Control-Request-Method: POST\r\n");
    }
    if let Some(line) = [
        "Content-Type: application/json\r\n",
        "Content-Type: application/json; charset=utf-16\r\n",
        "Content-Type: application/ld+json\r\n",
        "Content-Type: application/json\r\n",
        "Content-Type: application/json\r\n",
        "Content-Type: application/json\r\n",
        "Content-Type: text/plain\r\n",
        "Content-Type: application/json\r\nContent-Type: text/xml\r\n",
        "Content-Type:\r\n",
    ]
    .get(random.below(14))
    {
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
        4 => format!(
            "Authorization: {}\r\n",
            random.pick(&["Bearer", "Bearer ", "Basic eDp5", "bearer  ", "Bearer \"\"", "Token x", ""])
        ),
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
            out.extend(
                random
                    .pick(&[
                        "No-Colon\r\n",
                        ": no name\r\n",
                        "X y: z\r\n",
                        "X: a\rb\r\n",
                        "X: a\n",
                        "\u{e9}: x\r\n",
                    ])
                    .as_bytes(),
            );
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
            out.extend(
                random
                    .pick(&[
                        "Transfer-Encoding: gzip\r\n\r\n",
                        "Transfer-Encoding: chunked, chunked\r\n\r\n",
                        "Transfer-Encoding:\r\n\r\n",
                        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
                        "\r\n",
                    ])
                    .as_bytes(),
            );
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
