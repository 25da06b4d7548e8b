//! Runs the code of docs/clients.md against a demo, and compares what it prints with the page.

use std::path::Path;
use std::process::Command;

use crate::demo::Demo;

const PAGE: &str = include_str!("../../../../docs/clients.md");

/// The address in the page.
const ADDRESS: &str = "127.0.0.1:8080";

/// A block of code, and what the page says that it prints.
struct Block {
    language: &'static str,
    code: &'static str,
    prints: &'static str,
}

fn blocks() -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut fences = PAGE.split("\n```").skip(1);
    while let (Some(block), Some(between)) = (fences.next(), fences.next()) {
        let (language, code) = block.split_once('\n').expect("a language");
        assert!(between.starts_with('\n'), "a fence that does not end after {language}");
        match language {
            "sh" | "python" | "javascript" => blocks.push(Block { language, code, prints: "" }),
            "text" => blocks.last_mut().expect("code before text").prints = code,
            // What the test itself does instead.
            "console" => assert!(code.contains("serve --demo"), "{code}"),
            other => panic!("a block of {other} is not tested"),
        }
    }
    blocks
}

/// Runs a block with a token, in a directory of its own, and gives what it prints.
fn run(demo: &Demo, dir: &Path, block: &Block, token: &str) -> String {
    let address = demo.address.to_string();
    let code = block.code.replace(ADDRESS, &address);
    let (program, flags): (_, &[&str]) = match block.language {
        "sh" => ("sh", &["-ec"]),
        "python" => ("python3", &["-c"]),
        _ => ("node", &["--input-type=module", "-e"]),
    };
    let first = code.lines().next().unwrap_or_default().trim_start_matches(['#', '/', ' ']);
    if let Some(name) = Some(first).filter(|name| name.ends_with(".py") || name.ends_with(".mjs")) {
        std::fs::write(dir.join(name), &code).expect("writes");
    }
    // The page calls contactd by its name.
    let bin = Path::new(env!("CARGO_BIN_EXE_contactd")).parent().expect("a directory").display();
    let run = if program == "sh" { format!("PATH='{bin}':$PATH\n{code}") } else { code.clone() };
    let output = Command::new(program)
        .args(flags)
        .arg(&run)
        .env("CONTACTD_DATA", demo.site.data())
        .env("CONTACTD_TOKEN", token)
        .env("no_proxy", "*")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(dir)
        .output()
        .expect("runs");
    assert!(output.status.success(), "{code}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8").replace(&address, ADDRESS)
}

#[test]
fn every_block_of_the_page_runs_and_prints_what_the_page_says() {
    let demo = Demo::start_with_public_url("[cors]\nallow_origins = [\"https://app.example.com\"]\n");
    let dir = tempfile::tempdir().expect("a directory");
    let blocks = blocks();
    let count = |language: &str| blocks.iter().filter(|block| block.language == language).count();
    assert_eq!((count("sh"), count("python"), count("javascript")), (8, 3, 2));
    for block in &blocks {
        assert_eq!(run(&demo, dir.path(), block, &demo.token).trim_end(), block.prints, "{}", block.code);
    }

    // The clients wait for a rate, and give up on a quota.
    for import in ["from contacts import", "from './contacts.mjs'"] {
        let uses_client = blocks.iter().find(|block| block.code.contains(import)).expect("a block");
        let slow = demo.site.token(&["--rate", "2/s", "--burst", "1"]);
        assert_eq!(run(&demo, dir.path(), uses_client, &slow).trim_end(), uses_client.prints);
        let used_up = demo.site.token(&["--quota", "0/day"]);
        let printed = run(&demo, dir.path(), uses_client, &used_up);
        assert_eq!(printed.matches("429 quota_exceeded, request ").count(), 4, "{printed}");
        let printed = run(&demo, dir.path(), uses_client, "ctd_mistyped");
        let refused =
            "401 no_authorization_found (Bearer error=\"invalid_token\", error_description=\"unknown\")\n";
        assert_eq!(printed, refused.repeat(4));
    }
}
