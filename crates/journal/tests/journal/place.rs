//! A directory for a journal and one for its keys.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use contactd_core::{
    Asked, Audit, AuditEvent, AuditOutcome, AuditPosition, Fate, Kind, ManualClock, RootKey, ShortDigest,
    Ticket, Timestamp,
};

use contactd_journal::{
    Entry, Journal, JournalHead, JournalReader, JournalSettings, KeyDir, KnownLine, Lines, OpenedBy, Roots,
    Sync, Verification, Verifier, compress_closed, segments,
};

pub(crate) struct Place {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) sync: Sync,
    pub(crate) segment_bytes: u64,
    pub(crate) epoch: Duration,
    pub(crate) clock: Arc<ManualClock>,
}

pub(crate) fn at() -> Timestamp {
    Timestamp::parse("2026-05-01T10:00:00Z").expect("a time")
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["audit", "keys"] {
            fs::create_dir(dir.path().join(name)).expect("a directory");
        }
        Self {
            dir,
            sync: Sync::Os,
            segment_bytes: 1 << 20,
            epoch: Duration::from_secs(3600),
            clock: Arc::new(ManualClock::at(at())),
        }
    }

    pub(crate) fn with_segments_of(segment_bytes: u64) -> Self {
        Self { segment_bytes, ..Self::new() }
    }

    pub(crate) fn audit(&self) -> PathBuf {
        self.dir.path().join("audit")
    }

    pub(crate) fn keys(&self) -> PathBuf {
        self.dir.path().join("keys")
    }

    pub(crate) fn settings(&self) -> JournalSettings {
        JournalSettings {
            dir: self.audit(),
            sync: self.sync,
            segment_bytes: self.segment_bytes,
            node: "n1".to_owned(),
            digest_key: "k1".to_owned(),
            keys: KeyDir::new(&self.keys()),
            epoch: self.epoch,
            opened_by: OpenedBy::Command,
        }
    }

    pub(crate) fn open(&self) -> Journal {
        Journal::open(self.settings(), Arc::clone(&self.clock) as _).expect("opens")
    }

    pub(crate) fn serve(&self) -> Journal {
        let settings = JournalSettings { opened_by: OpenedBy::Server, ..self.settings() };
        Journal::open(settings, Arc::clone(&self.clock) as _).expect("opens")
    }

    /// Opens the journal, appends requests, and closes it.
    pub(crate) fn fill(&self, from: u64, to: u64) {
        fill(&self.open(), from, to);
    }

    pub(crate) fn reader(&self) -> JournalReader {
        JournalReader::of_dir(&self.audit(), KeyDir::new(&self.keys()))
    }

    pub(crate) fn root(&self) -> RootKey {
        *self.reader().roots().expect("reads").last().expect("a root")
    }

    pub(crate) fn verifier(&self) -> Verifier {
        let roots = self.reader().roots().expect("reads");
        Verifier { roots: Roots::remembered(roots), keys: Some(KeyDir::new(&self.keys())) }
    }

    /// Verifies with what an operator has on the machine.
    pub(crate) fn check(&self) -> Verification {
        self.verifier().verify(&self.audit(), &[]).expect("reads")
    }

    /// Verifies with the root and a head that were noted down.
    pub(crate) fn check_with(&self, root: RootKey, noted: Option<JournalHead>) -> Verification {
        let known: Vec<KnownLine> = noted
            .map(|head| KnownLine { seq: head.seq, chain: head.chain, how: "was noted down" })
            .into_iter()
            .collect();
        let verifier = Verifier { roots: Roots::given(vec![root]), ..self.verifier() };
        verifier.verify(&self.audit(), &known).expect("reads")
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        self.check().faults.iter().map(ToString::to_string).collect()
    }

    /// Fails unless a verification finds this.
    #[track_caller]
    pub(crate) fn finds(&self, words: &str) {
        let found = self.faults();
        assert!(found.iter().any(|fault| fault.contains(words)), "{words} is not in {found:?}");
    }

    pub(crate) fn head(&self) -> Option<JournalHead> {
        self.reader().head(&self.verifier().roots).expect("reads")
    }

    pub(crate) fn lines_after(&self, position: AuditPosition) -> Lines {
        self.reader().lines_after(position, &self.verifier().roots)
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        let mut lines = self.lines_after(AuditPosition::default());
        let mut found = Vec::new();
        while let Some(line) = lines.read().expect("reads") {
            if let Entry::Request(record) = line.entry {
                found.push(record.request_id);
            }
        }
        found
    }

    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        segments(&self.audit()).expect("lists").into_iter().map(|segment| segment.path).collect()
    }

    pub(crate) fn first_segment(&self) -> PathBuf {
        self.segments().remove(0)
    }

    pub(crate) fn compress(&self) -> u64 {
        let open = segments(&self.audit()).expect("lists").last().map_or(0, |segment| segment.first);
        compress_closed(&self.audit(), open, &self.verifier()).expect("compresses")
    }
}

pub(crate) fn append(journal: &Journal, request_id: &str) -> Ticket {
    journal.append(&AuditEvent {
        at: at(),
        request_id,
        given_id: None,
        token: "tok_1",
        operation: Asked::Detail(Kind::Email),
        via: None,
        place: None,
        is_repeat: false,
        profile: Some(ShortDigest([1; 16])),
        value: Some(ShortDigest([2; 16])),
        outcome: AuditOutcome::Hit,
    })
}

pub(crate) fn settled(ticket: &Ticket) -> Fate {
    let until = Instant::now() + Duration::from_secs(10);
    while ticket.fate() == Fate::Waiting && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    ticket.fate()
}

/// Appends the requests `from..to`, flushing after every ten.
pub(crate) fn fill(journal: &Journal, from: u64, to: u64) {
    for number in from..to {
        let ticket = append(journal, &format!("r{number}"));
        if number % 10 == 9 || number + 1 == to {
            journal.flush();
            assert_eq!(settled(&ticket), Fate::Written);
        }
    }
}

pub(crate) fn names(from: u64, to: u64) -> Vec<String> {
    (from..to).map(|number| format!("r{number}")).collect()
}

pub(crate) fn copy_dir(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir(to).expect("a directory");
    for entry in fs::read_dir(from).expect("lists") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("copies");
    }
}
