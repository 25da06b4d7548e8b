//! Prints `openapi-1.1.json` as YAML: `cargo run -q -p contactd-contract --example openapi`
#![expect(clippy::print_stdout, reason = "printing is what it does")]

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let document: serde_json::Value = serde_json::from_str(contactd_contract::openapi::V1_1.json)?;
    print!("{}", serde_norway::to_string(&document)?);
    Ok(())
}
