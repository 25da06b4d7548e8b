//! Makes what a browser loads of the console: the modules become two scripts, one for the first page and one for all others, because
//! dozens of small files take a browser longer than everything else.

use std::collections::BTreeMap;
use std::fs::{read_dir, read_to_string};
use std::io;

include!("../../assets/pack.rs");

const CONSOLE: &str = "assets/console";

fn main() -> io::Result<()> {
    io::Write::write_all(
        &mut io::stdout(),
        b"cargo:rerun-if-changed=assets\ncargo:rerun-if-changed=../../assets\n",
    )?;
    let mut modules = Modules::read()?;
    let first = modules.bundle("app.js")?;
    pack("app.js", &format!("{}export {{ {} }};\n", first.text, first.names.join(", ")))?;
    let later = modules.bundle("pages.js")?;
    let end = "export const { PAGES } = $pages;\n";
    pack(
        "pages.js",
        &format!("import {{ {} }} from './app.js';\n{}{end}", first.names.join(", "), later.text),
    )?;
    if let Some(unused) = modules.sources.keys().next() {
        return Err(io::Error::other(format!("{unused} is imported by no script of the console")));
    }
    let base_style = read_to_string("../../assets/base.css")?;
    pack("style.css", &format!("{base_style}\n{}", read_to_string(format!("{CONSOLE}/style.css"))?))?;
    pack("index.html", &read_to_string(format!("{CONSOLE}/index.html"))?)
}

/// The modules that are in no script yet, by their path.
struct Modules {
    sources: BTreeMap<String, String>,
}

/// Modules in one script, each in a function of its own, which returns what it exports. Modules that are imported come first.
#[derive(Default)]
struct Bundle {
    text: String,
    names: Vec<String>,
}

impl Modules {
    fn read() -> io::Result<Self> {
        let mut sources = BTreeMap::new();
        for dir in ["", "pages/"] {
            for entry in read_dir(format!("{CONSOLE}/{dir}"))? {
                let name = format!("{dir}{}", entry?.file_name().to_string_lossy());
                if name.ends_with(".js") {
                    let source = read_to_string(format!("{CONSOLE}/{name}"))?;
                    sources.insert(name, source);
                }
            }
        }
        Ok(Self { sources })
    }

    /// Takes a module and what it imports.
    fn bundle(&mut self, entry: &str) -> io::Result<Bundle> {
        let mut bundle = Bundle::default();
        self.add(entry, &mut bundle)?;
        Ok(bundle)
    }

    fn add(&mut self, path: &str, bundle: &mut Bundle) -> io::Result<()> {
        let Some(source) = self.sources.remove(path) else { return Ok(()) };
        let (mut body, mut exports) = (String::new(), Vec::new());
        for line in without_comments(&source) {
            if line.starts_with("import ") {
                let (names, target) = import(line).ok_or_else(|| unreadable(path, line))?;
                let target = resolved(path, target);
                self.add(&target, bundle)?;
                body.push_str(&format!(
                    "const {} = {};\n",
                    names.replace("* as ", "").replace(" as ", ": "),
                    name_of(&target)
                ));
            } else if let Some(declared) = line.strip_prefix("export ") {
                exports.push(declared_name(declared).ok_or_else(|| unreadable(path, line))?);
                body.push_str(&format!("{declared}\n"));
            } else {
                body.push_str(&format!("{line}\n"));
            }
        }
        let name = name_of(path);
        bundle.text.push_str(&format!(
            "const {name} = (() => {{\n{body}return {{ {} }};\n}})();\n",
            exports.join(", ")
        ));
        bundle.names.push(name);
        Ok(())
    }
}

fn unreadable(path: &str, line: &str) -> io::Error {
    io::Error::other(format!("{path}: build.rs reads imports and exports of one line only, not: {line}"))
}

/// The lines of a script without those that are a comment as a whole.
fn without_comments(source: &str) -> impl Iterator<Item = &str> {
    let mut is_comment = false;
    source.lines().filter(move |line| {
        let text = line.trim_start();
        let is_left_out = is_comment || text.is_empty() || text.starts_with("//") || text.starts_with("/**");
        // Code may follow, as in `/** @type {T} */ (value)`.
        let has_code = text.split_once("*/").is_some_and(|(_, code)| !code.is_empty());
        is_comment = (is_comment || text.starts_with("/**")) && !text.contains("*/");
        !is_left_out || has_code
    })
}

/// What is imported, and from which path.
fn import(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("import ")?.strip_suffix("';")?.split_once(" from '")
}

fn declared_name(declared: &str) -> Option<&str> {
    let declared = declared.strip_prefix("async ").unwrap_or(declared);
    let named = ["const ", "function ", "class "].iter().find_map(|word| declared.strip_prefix(word))?;
    named.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// The path that an import of a module means.
fn resolved(from: &str, target: &str) -> String {
    match (target.strip_prefix("./"), from.rsplit_once('/')) {
        (Some(target), Some((dir, _))) => format!("{dir}/{target}"),
        (Some(target), None) => target.to_owned(),
        (None, _) => target.trim_start_matches("../").to_owned(),
    }
}

/// What the exports of a module are called in its script.
fn name_of(path: &str) -> String {
    let name: String =
        path.trim_end_matches(".js").chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
    format!("${name}")
}
