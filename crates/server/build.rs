//! Compresses the files of the documentation page.

use std::fs::read_to_string;

include!("../../assets/pack.rs");

fn main() -> std::io::Result<()> {
    let base_style = read_to_string("../../assets/base.css")?;
    pack("docs.html", &read_to_string("assets/docs.html")?)?;
    pack("docs.css", &format!("{base_style}\n{}", read_to_string("assets/docs.css")?))?;
    pack("docs.js", &read_to_string("assets/docs.js")?)?;
    std::io::Write::write_all(
        &mut std::io::stdout(),
        b"cargo:rerun-if-changed=assets\ncargo:rerun-if-changed=../../assets\n",
    )
}
