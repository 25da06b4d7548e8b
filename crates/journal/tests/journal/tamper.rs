//! Random manipulations of a journal: each is found, or changes nothing that anybody is told.
//!
//! The manipulator sees everything in `audit/`, knows the format, and can compute chain values with every key that a
//! checkpoint revealed. `CONTACTD_TAMPER_CASES` sets how many cases are tried.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use contactd_core::{AuditPosition, AuditRecord, Fate, RootKey, hex};
use contactd_journal::JournalHead;
use contactd_journal::{Entry, Mark, Verifier, outdated, remove};
use contactd_testing::Dice;
use ed25519_dalek::{Signer, SigningKey};

use crate::epochs::with_epochs;
use crate::place::{Place, at, copy_dir, fill, names, settled};

/// The first request after a manipulation. The journals before it have fewer, however many a busy machine makes of them.
const LATER: u64 = 9_000_000;

/// A journal as it was before anybody touched it.
struct Base {
    name: &'static str,
    place: Place,
    root: RootKey,
    head: JournalHead,
    records: Vec<AuditRecord>,
    /// An earlier state of `audit/`.
    older: PathBuf,
    /// Segments that were removed after their retention period.
    removed: Vec<(PathBuf, Vec<u8>)>,
}

/// Copies a journal that is being written, and its keys, as a kill would leave them.
fn copy_at_one_moment(from: &Place, to: &Place) {
    let (mut before, mut now) = (None, read_both(from));
    while before.is_none() || before != now {
        before = std::mem::replace(&mut now, read_both(from));
    }
    for (dir, files) in [to.audit(), to.keys()].iter().zip(now.expect("two equal reads")) {
        for (name, bytes) in files {
            fs::write(dir.join(name), bytes).expect("writes");
        }
    }
}

/// The files of the journal and of its keys; none if one of them was removed meanwhile.
fn read_both(place: &Place) -> Option<[BTreeMap<OsString, Vec<u8>>; 2]> {
    let read = |dir: PathBuf| {
        let entries = fs::read_dir(dir).expect("lists").map(|entry| entry.expect("an entry"));
        entries.map(|entry| Some((entry.file_name(), fs::read(entry.path()).ok()?))).collect::<Option<_>>()
    };
    Some([read(place.audit())?, read(place.keys())?])
}

fn records(place: &Place) -> Vec<AuditRecord> {
    let mut lines = place.lines_after(AuditPosition::default());
    let mut found = Vec::new();
    while let Some(line) = lines.read().expect("reads") {
        if let Entry::Request(record) = line.entry {
            found.push(record);
        }
    }
    found
}

impl Base {
    fn make(
        name: &'static str,
        segment_bytes: u64,
        is_compressed: bool,
        is_retained: bool,
        is_killed: bool,
    ) -> Self {
        let place = with_epochs(segment_bytes, 3);
        let older = place.dir.path().join("older");
        copy_dir(&place.audit(), &older);
        let journal = place.serve();
        fill(&journal, 1_000, 1_040);
        let mut removed = Vec::new();
        if is_retained {
            let later = at().plus(Duration::from_secs(1));
            let old =
                outdated(&place.audit(), later, &place.verifier()).expect("reads").expect("old segments");
            for path in place.segments() {
                removed.push((path.clone(), fs::read(&path).expect("reads")));
            }
            let ticket = journal.mark(later, &Mark::Retired { through: old.through, chain: old.chain });
            assert_eq!(settled(&ticket), Fate::Written);
            remove(&place.audit(), &old).expect("removes");
            removed.retain(|(path, _)| !path.exists());
            journal.mark(later, &Mark::Removed { through: old.through });
            fill(&journal, 1_040, 1_060);
        }
        assert!(journal.sign(), "signs");
        let head = place.head().expect("a head");
        if is_killed {
            // Lines after the last checkpoint, and no orderly end.
            fill(&journal, 1_060, 1_065);
            let killed = Place::with_segments_of(segment_bytes);
            copy_at_one_moment(&place, &killed);
            copy_dir(&older, &killed.dir.path().join("older"));
            drop(journal);
            let older = killed.dir.path().join("older");
            return Self::of(name, killed, head, older, removed);
        }
        drop(journal);
        if is_compressed {
            place.compress();
        }
        Self::of(name, place, head, older, removed)
    }

    fn of(
        name: &'static str,
        place: Place,
        head: JournalHead,
        older: PathBuf,
        removed: Vec<(PathBuf, Vec<u8>)>,
    ) -> Self {
        assert_eq!(place.faults(), [""; 0], "{name}");
        let (root, records) = (place.root(), records(&place));
        Self { name, place, root, head, records, older, removed }
    }
}

/// A segment's lines, decompressed.
fn read_lines(path: &Path) -> Vec<String> {
    let bytes = fs::read(path).expect("reads");
    let bytes = match path.extension().is_some_and(|end| end == "zst") {
        true => zstd::decode_all(&bytes[..]).unwrap_or_default(),
        false => bytes,
    };
    String::from_utf8_lossy(&bytes).split_inclusive('\n').map(str::to_owned).collect()
}

fn write_lines(path: &Path, lines: &[String]) {
    let text = lines.concat();
    let bytes = match path.extension().is_some_and(|end| end == "zst") {
        true => zstd::encode_all(text.as_bytes(), 1).expect("compresses"),
        false => text.into_bytes(),
    };
    fs::write(path, bytes).expect("writes");
}

fn chain_of(line: &str) -> Option<[u8; 16]> {
    hex::decode(line.trim_end().strip_suffix("\"}")?.get(line.trim_end().len().checked_sub(34)?..)?)
}

fn field(line: &str, name: &str) -> Option<String> {
    let start = line.find(&format!("\"{name}\":\""))? + name.len() + 4;
    line.get(start..)?.split('"').next().map(str::to_owned)
}

/// Gives a line the chain value that it has under `key` after `before`.
fn relinked(line: &str, key: &[u8; 32], before: [u8; 16]) -> Option<(String, [u8; 16])> {
    let text = &line.trim_end()[..line.trim_end().rfind(",\"chain\":\"")?];
    let hash = blake3::keyed_hash(key, &[&before[..], text.as_bytes()].concat());
    let mut chain = [0; 16];
    chain.copy_from_slice(&hash.as_bytes()[..16]);
    Some((format!("{text},\"chain\":\"{}\"}}\n", hex::encode(&chain)), chain))
}

/// Recomputes the chain from line `from` to the next checkpoint, with the key that it reveals, as far as that goes.
/// With a private key, the checkpoint is signed anew.
fn relink(lines: &mut [String], from: usize, signing: Option<&SigningKey>) {
    let is_signed = |line: &String| line.contains("\"sig\":\"");
    let Some(end) = (from..lines.len()).find(|&at| is_signed(&lines[at])) else { return };
    let Some(key) = field(&lines[end], "key").and_then(|key| hex::decode(&key)) else { return };
    let Some(mut before) = from.checked_sub(1).and_then(|at| chain_of(&lines[at])) else { return };
    let last = if signing.is_some() { end } else { end - usize::from(end > from) };
    for line in &mut lines[from..=last] {
        if let (true, Some(signing)) = (is_signed(line), signing) {
            let previous = field(line, "previous").unwrap_or_default();
            let changed = line.replacen(&previous, &hex::encode(&before), 1);
            let Some(text) = changed.find(",\"sig\":\"").map(|at| changed[..at].to_owned()) else { return };
            let signed = [b"contactd journal checkpoint\n", text.as_bytes()].concat();
            let signature = hex::encode(&signing.sign(&signed).to_bytes());
            *line = format!("{text},\"sig\":\"{signature}\",\"chain\":\"{}\"}}\n", "0".repeat(32));
        }
        let Some((linked, chain)) = relinked(line, &key, before) else { return };
        (*line, before) = (linked, chain);
    }
}

/// Every chain key and value in the journal.
fn seen(place: &Place) -> (Vec<[u8; 32]>, Vec<[u8; 16]>) {
    let (mut keys, mut chains) = (Vec::new(), Vec::new());
    for path in place.segments() {
        for line in read_lines(&path) {
            keys.extend(field(&line, "key").and_then(|key| hex::decode(&key)));
            chains.extend(chain_of(&line));
        }
    }
    (keys, chains)
}

/// One manipulation. Returns what was done, in words.
fn manipulate(base: &Base, place: &Place, random: &mut Dice) -> String {
    let segments = place.segments();
    let Some(path) = segments.get(random.index(segments.len())).cloned() else {
        return "nothing is left".to_owned();
    };
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    let mut lines = read_lines(&path);
    let (at, other) = (random.index(lines.len()), random.index(lines.len()));
    let repair = random.index(3) == 0;
    let what = match random.index(14) {
        0 => {
            let (old, new) =
                [("\"hit\"", "\"miss\""), ("\"n1\"", "\"n2\""), ("tok_1", "tok_2"), ("2026-", "2025-")]
                    [random.index(4)];
            if let Some(line) = lines.get_mut(at) {
                *line = line.replacen(old, new, 1);
            }
            "edit"
        }
        1 => {
            if let Some(line) = lines.get_mut(at) {
                let byte = random.index(line.len().saturating_sub(1));
                let changed: String = line
                    .char_indices()
                    .map(|(n, c)| if n == byte { if c == '7' { '3' } else { '7' } } else { c })
                    .collect();
                *line = changed;
            }
            "change a character"
        }
        2 => {
            if at < lines.len() {
                lines.drain(at..(at + 1 + random.index(3)).min(lines.len()));
            }
            "drop"
        }
        3 => {
            if !lines.is_empty() {
                lines.swap(at, other);
            }
            "swap"
        }
        4 => {
            if let Some(line) = lines.get(other).cloned() {
                lines.insert(at, line);
            }
            "duplicate"
        }
        5 => {
            if let Some(line) = lines.get(at).cloned() {
                lines.insert(at, line.replacen("\"requestId\":\"r", "\"requestId\":\"f", 1));
            }
            "insert"
        }
        6 => {
            lines.truncate(at);
            "cut at a line"
        }
        7 => {
            fs::remove_file(&path).expect("removes");
            return format!("remove {name}");
        }
        8 => {
            let number = [1, 2, at as u64 + 2, 999_999_999_999][random.index(4)];
            let end = if name.ends_with(".zst") { ".jsonl.zst" } else { ".jsonl" };
            fs::rename(&path, place.audit().join(format!("{number:012}{end}"))).expect("renames");
            return format!("rename {name} to {number}");
        }
        9 => {
            let bytes = fs::read(&path).expect("reads");
            fs::write(&path, &bytes[..random.index(bytes.len())]).expect("writes");
            return format!("truncate {name}");
        }
        10 => return forge(place, random),
        11 => {
            let older = base.older.join(&name);
            if older.exists() {
                fs::copy(older, &path).expect("copies");
            }
            return format!("an older copy of {name}");
        }
        12 => {
            if let Some((path, bytes)) = base.removed.get(random.index(base.removed.len())) {
                let target = place.audit().join(path.file_name().expect("a name"));
                fs::write(target, bytes).expect("writes");
            }
            return "put back what was removed".to_owned();
        }
        _ => {
            let path = place.audit().join("seals.jsonl");
            let mut seals = read_lines(&path);
            if !seals.is_empty() {
                let at = random.index(seals.len());
                match random.index(3) {
                    0 => drop(seals.remove(at)),
                    1 => seals.swap(at, 0),
                    _ => seals[at] = seals[at].replacen("\"epoch\":", "\"epoch\":1", 1),
                }
            }
            write_lines(&path, &seals);
            return "seals".to_owned();
        }
    };
    if repair && at < lines.len() {
        relink(&mut lines, at, None);
    }
    write_lines(&path, &lines);
    format!("{what} in {name} at line {}{}", at + 1, if repair { ", with its chain repaired" } else { "" })
}

/// Makes a segment with any number, from keys and chain values that can be seen, signed with a key of one's own.
fn forge(place: &Place, random: &mut Dice) -> String {
    let (keys, chains) = seen(place);
    let (key, before) = (keys.get(random.index(keys.len())), chains.get(random.index(chains.len())));
    let (Some(key), Some(before)) = (key.copied(), before.copied()) else {
        return "nothing to forge with".to_owned();
    };
    let last: u64 = place
        .segments()
        .last()
        .and_then(|path| {
            read_lines(path).last().and_then(|line| line.get(7..)?.split(',').next()?.parse().ok())
        })
        .unwrap_or(1);
    let first = [2, last + 1, last + 2, last.saturating_sub(3).max(1), 999_999][random.index(5)];
    let root = field(&read_lines(&place.audit().join("seals.jsonl")).concat(), "root").unwrap_or_default();
    let mine = SigningKey::from_bytes(&[7; 32]);
    let opened = format!(
        "{{\"seq\":{first},\"time\":\"2026-05-01T10:00:00.000Z\",\"node\":\"n1\",\"mark\":\"opened\",\"after\":{},\
         \"previous\":\"{}\",\"chain\":\"\"}}\n",
        first - 1,
        hex::encode(&before)
    );
    let signed = format!(
        "{{\"seq\":{},\"time\":\"2026-05-01T10:00:00.000Z\",\"node\":\"n1\",\"mark\":\"checkpoint\",\"root\":\"{root}\",\
         \"epoch\":{},\"number\":{},\"previous\":\"{}\",\"key\":\"{}\",\"sig\":\"\",\"chain\":\"\"}}\n",
        first + 1,
        1 + random.index(5),
        1 + random.index(50),
        hex::encode(&before),
        hex::encode(&key)
    );
    let hit = format!(
        "{{\"seq\":{},\"time\":\"2026-05-01T10:00:00.000Z\",\"node\":\"n1\",\"requestId\":\"forged\",\"token\":\"tok_1\",\
         \"operation\":\"phone\",\"profile\":\"k1:{}\",\"outcome\":\"hit\",\"chain\":\"\"}}\n",
        first + 2,
        "01".repeat(16)
    );
    let mut lines = Vec::new();
    let mut chain = before;
    for line in [opened, signed, hit] {
        let line = match line.find(",\"sig\":\"\"") {
            Some(end) => {
                let text = line[..end].replacen(&hex::encode(&before), &hex::encode(&chain), 1);
                let signature = mine.sign(&[b"contactd journal checkpoint\n", text.as_bytes()].concat());
                format!("{text},\"sig\":\"{}\",\"chain\":\"\"}}\n", hex::encode(&signature.to_bytes()))
            }
            None => line,
        };
        let (line, next) = relinked(&line, &key, chain).expect("links");
        chain = next;
        lines.push(line);
    }
    if random.index(2) == 0 {
        // A line alone, as a naive forger would do it.
        lines.drain(..2);
    }
    write_lines(&place.audit().join(format!("{first:012}.jsonl")), &lines);
    format!("forge segment {first}")
}

fn cases() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "how long a test runs is set from outside")]
    let asked = std::env::var("CONTACTD_TAMPER_CASES");
    asked.ok().and_then(|asked| asked.parse().ok()).unwrap_or(300)
}

#[test]
fn without_keys_every_manipulation_is_found_or_changes_nothing() {
    let bases = [
        Base::make("one segment", 1 << 20, false, false, false),
        Base::make("many segments", 6_000, false, false, false),
        Base::make("many segments, compressed", 6_000, true, false, false),
        Base::make("after retention", 6_000, false, true, false),
        Base::make("after retention, compressed", 6_000, true, true, false),
        Base::make("killed", 1 << 20, false, false, true),
        Base::make("killed, many segments", 6_000, false, false, true),
    ];
    let (mut found, mut harmless) = (0, 0);
    for case in 0..cases() {
        let mut random = Dice::new(case.wrapping_mul(0x0051_7CC1_B727_2220));
        let base = &bases[random.index(bases.len())];
        let place = Place::with_segments_of(base.place.segment_bytes);
        copy_dir(&base.place.audit(), &place.audit());
        copy_dir(&base.place.keys(), &place.keys());
        let mut done = Vec::new();
        for _ in 0..=random.index(3) {
            done.push(manipulate(base, &place, &mut random));
        }
        let is_served = random.index(2) == 0;
        if is_served {
            let journal = place.serve();
            if random.index(2) == 0 {
                fill(&journal, LATER, LATER + 10);
            }
        }
        if !place.check_with(base.root, Some(base.head)).is_whole() {
            found += 1;
            continue;
        }
        let later = names(LATER, LATER + 10);
        let told: Vec<AuditRecord> =
            records(&place).into_iter().filter(|record| !later.contains(&record.request_id)).collect();
        assert!(
            told == base.records,
            "case {case}, {}: {done:?}, server started: {is_served}: not found, and something else is told",
            base.name
        );
        harmless += 1;
    }
    println!("found {found}, without effect {harmless}, undetected 0");
    assert!(found > harmless, "most manipulations change something");
}

/// The private key of the current epoch.
fn signing_key(place: &Place) -> SigningKey {
    let key = fs::read_dir(place.keys())
        .expect("lists")
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.extension().is_some_and(|end| end == "key"))
        .expect("the current keys");
    let seed = field(&fs::read_to_string(key).expect("reads"), "signing").and_then(|seed| hex::decode(&seed));
    SigningKey::from_bytes(&seed.expect("a private key"))
}

#[test]
fn a_checkpoint_with_another_number_than_the_next_is_found_although_its_signature_is_good() {
    let place = Place::new();
    place.fill(0, 5);
    let path = place.first_segment();
    let mut lines = read_lines(&path);
    let last = lines.len() - 1;
    assert!(lines[last].contains("\"number\":2,"), "{}", lines[last]);
    for number in [1, 3] {
        lines[last] = lines[last].replacen("\"number\":2,", &format!("\"number\":{number},"), 1);
        relink(&mut lines, last, Some(&signing_key(&place)));
        write_lines(&path, &lines);
        let what = format!(
            "000000000001.jsonl, line {}: this is checkpoint {number}, but checkpoint 2 was expected here",
            last + 1
        );
        let verifier = Verifier { keys: None, ..place.verifier() };
        let found = verifier.verify(&place.audit(), &[]).expect("reads").faults;
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), [what]);
        lines[last] = lines[last].replacen(&format!("\"number\":{number},"), "\"number\":2,", 1);
    }
}

#[test]
fn with_all_current_keys_every_change_of_what_is_sealed_is_found() {
    let bases = [with_epochs(1 << 20, 4), with_epochs(6_000, 4)];
    let (mut tried, wanted) = (0, cases());
    let mut random = Dice::new(7);
    while tried < wanted {
        let base = &bases[random.index(bases.len())];
        let root = base.root();
        let place = Place::with_segments_of(base.segment_bytes);
        copy_dir(&base.audit(), &place.audit());
        copy_dir(&base.keys(), &place.keys());
        let signing = signing_key(&place);
        // What is sealed ends with the last seal.
        let segments = place.segments();
        let last_seal =
            segments.iter().rposition(|path| read_lines(path).concat().contains("\"mark\":\"seal\""));
        let Some(path) = segments.get(random.index(last_seal.expect("a seal") + 1)) else { continue };
        let mut lines = read_lines(path);
        let is_last = Some(path) == last_seal.and_then(|at| segments.get(at));
        let end = match is_last {
            true => lines.iter().rposition(|line| line.contains("\"mark\":\"seal\"")).expect("a seal"),
            false => lines.len(),
        };
        let at = random.index(end);
        match random.index(4) {
            0 => lines[at] = lines[at].replacen("\"time\":\"2026", "\"time\":\"2025", 1),
            1 => drop(lines.remove(at)),
            2 => lines.insert(at, lines[at].replacen("r", "f", 1)),
            _ => lines[at] = lines[at].replacen("\"node\":\"n1\"", "\"node\":\"n9\"", 1),
        }
        if at < lines.len() {
            relink(&mut lines, at, Some(&signing));
        }
        write_lines(path, &lines);
        if random.index(2) == 0 {
            // The copies of the seals are changed to fit.
            let all: String = place.segments().iter().map(|path| read_lines(path).concat()).collect();
            let seals: Vec<String> = all
                .split_inclusive('\n')
                .filter(|line| line.contains("\"mark\":\"seal\"") || line.contains("\"number\":1,"))
                .map(str::to_owned)
                .collect();
            write_lines(&place.audit().join("seals.jsonl"), &seals);
        }
        if random.index(3) == 0 {
            drop(place.serve());
        }
        assert!(
            !place.check_with(root, None).is_whole(),
            "case {tried}: line {} of {}",
            at + 1,
            path.display()
        );
        tried += 1;
    }
    println!("found {tried} of {tried}");
}
