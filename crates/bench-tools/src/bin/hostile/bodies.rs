//! Bodies of requests, and the profile URLs in them.

use crate::random::Random;

/// A body, in most cases JSON.
pub(crate) fn body(random: &mut Random) -> Vec<u8> {
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
    let mut url = random
        .pick(&[
            "https://linkedin.com/in/told-quell-1",
            "https://www.linkedin.com/in/josé-quell",
            "xing.com/profile/Mira_Quell",
            "https://de.linkedin.com/pub/ada-quell/1/2a/3b",
            "https://lnkd.in/x",
            "ftp://linkedin.com/in/a",
            "https://user@linkedin.com:8443/in/ada-quell",
            "https://linkedin.com/in/%41da%2Dquell%zz",
            "https://linkedin.com/in/%C3%28",
            "https://linkedin.com/in/%25%34%31",
            "https://linkedin.com//in/../in/x",
            "https://linkedin.com/company/quell",
            "https://ⓛinkedin.com/in/ada",
            "https://xn--linkedin-.com/in/ada",
            "https://[::1]/in/a",
            "javascript:alert(1)",
            "",
            " ",
            "https://linkedin.com/in/",
            "https://linkedin.com/in/ACoAAquellquellquellquellquellquellquell",
            "\u{feff}linkedin.com/in/told-quell-1",
        ])
        .to_owned();
    for _ in 0..random.below(4) {
        let at = (0..=random.below(url.len() + 1)).rev().find(|&at| url.is_char_boundary(at)).unwrap_or(0);
        match random.below(4) {
            0 => url.insert(at, char::from_u32(random.below(0x11_0000) as u32).unwrap_or('\u{fffd}')),
            1 => url.insert(at, char::from(random.below(33) as u8)),
            2 => url.insert_str(
                at,
                random.pick(&[
                    "%00",
                    "%",
                    "%E2%80%AE",
                    "\u{202e}",
                    "\u{200b}",
                    "e\u{301}",
                    "İ",
                    "ß",
                    "ﬀ",
                    "\u{1f469}\u{200d}\u{1f4bb}",
                    "?#",
                    "\\",
                    "\u{7f}",
                ]),
            ),
            _ => url.truncate(at),
        }
    }
    url
}

/// A JSON string in which some characters are escapes.
fn escaped(text: &str) -> String {
    text.encode_utf16()
        .map(|unit| {
            if !(32..=126).contains(&unit) || matches!(unit, 34 | 92) {
                format!("\\u{unit:04x}")
            } else {
                char::from(unit as u8).to_string()
            }
        })
        .collect()
}
