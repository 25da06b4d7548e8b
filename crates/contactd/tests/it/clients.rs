//! Runs the code of docs/clients.md against a demo, and compares what it prints with the page. `clients/test.sh` does the same with
//! the code that needs one of our clients.

use std::path::Path;
use std::process::Command;

use crate::demo::Demo;

const PAGE: &str = include_str!("../../../../docs/clients.md");

/// The address in the page.
const ADDRESS: &str = "127.0.0.1:8080";

/// How our clients are imported.
const CLIENTS: [&str; 2] = ["from contactd import ", "from 'contactd-client'"];

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
    blocks.retain(|block| !CLIENTS.iter().any(|import| block.code.contains(import)));
    blocks
}

/// Runs a block in this directory, and gives what it prints.
fn run(demo: &Demo, dir: &Path, block: &Block) -> String {
    let address = demo.address.to_string();
    let code = block.code.replace(ADDRESS, &address);
    let (program, flag) = if block.language == "sh" { ("sh", "-ec") } else { ("python3", "-c") };
    // The page calls contactd by its name.
    let bin = Path::new(env!("CARGO_BIN_EXE_contactd")).parent().expect("a directory").display();
    let run = if program == "sh" { format!("PATH='{bin}':$PATH\n{code}") } else { code.clone() };
    let output = Command::new(program)
        .args([flag, &run])
        .env("CONTACTD_DATA", demo.site.data())
        .env("CONTACTD_TOKEN", &demo.token)
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
    assert_eq!((count("sh"), count("python"), count("javascript")), (8, 1, 0));
    for block in &blocks {
        assert_eq!(run(&demo, dir.path(), block).trim_end(), block.prints, "{}", block.code);
    }
}
