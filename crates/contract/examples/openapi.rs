//! Prints the OpenAPI document: `cargo run -p contactd-contract --example openapi -- json`
#![expect(clippy::print_stdout, reason = "printing is what it does")]

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let document = contactd_contract::openapi::document();
    match std::env::args().nth(1).as_deref() {
        Some("json") => println!("{}", serde_json::to_string_pretty(&document)?),
        Some("yaml") => print!("{}", serde_norway::to_string(&document)?),
        _ => return Err("say json or yaml".into()),
    }
    Ok(())
}
