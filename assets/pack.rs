// What the build scripts of crates with web pages share.

/// Writes a file of a page, and beside it what browsers get of it, to where `include_str!` and `include_bytes!` find them.
fn pack(name: &str, content: &str) -> std::io::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "cargo tells build scripts where to write in this variable")]
    let dir = std::path::PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    std::fs::write(dir.join(name), content)?;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut packed, content.as_bytes())?;
    std::fs::write(dir.join(format!("{name}.gz")), packed.finish()?)
}
