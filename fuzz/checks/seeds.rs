//! The inputs in `fuzz/seeds`, for the tests that replay them.

/// The generated inputs of a target and those that fuzzing found: one per line, with escapes as in a Rust byte string.
pub(crate) fn inputs(target: &str) -> Vec<Vec<u8>> {
    let read = |name: &str| {
        let path = format!("{}/../../fuzz/seeds/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path)
    };
    let generated = read(target).expect("a file of inputs");
    let found = read(&format!("{target}.found")).unwrap_or_default();
    generated.lines().chain(found.lines()).map(unescaped).collect()
}

/// A line without its escapes.
pub(crate) fn unescaped(line: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = line.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next().expect("an escape") {
            b'r' => b'\r',
            b'n' => b'\n',
            b't' => b'\t',
            b'x' => {
                let digits = [rest.next().expect("a digit"), rest.next().expect("a digit")];
                u8::from_str_radix(&String::from_utf8_lossy(&digits), 16).expect("a hexadecimal number")
            }
            other => other,
        });
    }
    bytes
}
