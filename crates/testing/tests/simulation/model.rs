//! What the product promises, in simple maps.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use contactd_core::{ContactValue, Detail, Kind, Label, Networks, Profile, SubjectName, Timestamp};

pub(crate) const PEOPLE: usize = 4;
const VALUES: usize = 4;

/// Whether a person or a value is opted out, as far as callers were told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    In,
    Out,
    /// A change is under way, failed, or is not confirmed.
    Unknown,
}

/// A person, a number or an address, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    Person(usize),
    Value(Kind, usize),
}

impl Who {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let values = Kind::ALL.into_iter().flat_map(|kind| (0..VALUES).map(move |n| Self::Value(kind, n)));
        (0..PEOPLE).map(Self::Person).chain(values)
    }

    pub(crate) fn name(self) -> SubjectName {
        match self {
            Self::Person(number) => SubjectName::Person(profile(number)),
            Self::Value(kind, number) => SubjectName::Value(kind, value(kind, number)),
        }
    }
}

pub(crate) fn url(number: usize) -> String {
    format!("https://linkedin.com/in/quell-nuvel-{number}")
}

pub(crate) fn profile(number: usize) -> Profile {
    static PROFILES: OnceLock<Vec<Profile>> = OnceLock::new();
    let all = || {
        let networks = Networks::built_in();
        (0..PEOPLE).map(|number| networks.canonicalize(&url(number)).expect("a profile")).collect()
    };
    PROFILES.get_or_init(all)[number].clone()
}

pub(crate) fn value(kind: Kind, number: usize) -> ContactValue {
    ContactValue::from_store(match kind {
        Kind::Phone => format!("+1415555012{number}"),
        Kind::Email => format!("quell{number}@example.com"),
    })
}

/// The detail with this value in an import.
pub(crate) fn detail(kind: Kind, number: usize, source: &str) -> Detail {
    // The best one expires.
    let expires_at = (number == 3).then(|| Timestamp::parse("2026-05-02T10:00:00Z").expect("a time"));
    let confidence = [50, 60, 70, 80][number];
    Detail { confidence, expires_at, ..Detail::new(kind, value(kind, number), source) }
}

/// A token that was created.
pub(crate) struct KnownToken {
    pub(crate) id: String,
    pub(crate) secret: String,
    pub(crate) family: String,
    pub(crate) quota: u32,
    pub(crate) is_revoked: bool,
    pub(crate) expires_at: Option<Timestamp>,
    /// Whether what is said here is not certain.
    pub(crate) is_unknown: bool,
}

#[derive(Default)]
pub(crate) struct Model {
    states: HashMap<Who, Known>,
    pub(crate) tokens: Vec<KnownToken>,
    /// Disclosed by family and day.
    pub(crate) hits: HashMap<(String, i64), u32>,
    /// How often actions returned without an error.
    pub(crate) done: HashMap<&'static str, usize>,
}

/// What a lookup must return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Exactly(Option<ContactValue>),
    /// One of these, or nothing.
    OneOf(HashSet<String>),
}

impl Model {
    pub(crate) fn state(&self, who: Who) -> Known {
        self.states.get(&who).copied().unwrap_or(Known::In)
    }

    pub(crate) fn set(&mut self, who: Who, known: Known) {
        self.states.insert(who, known);
    }

    pub(crate) fn is_known(&self, who: Who) -> bool {
        self.state(who) != Known::Unknown
    }

    /// A change that could undo an opt-out, or one that could make it, begins.
    pub(crate) fn begin(&mut self, who: Who, is_suppression: bool) {
        if !(is_suppression && self.state(who) == Known::Out) {
            self.set(who, Known::Unknown);
        }
    }

    /// What a lookup that starts now may return, if these details are held, best first.
    pub(crate) fn expected(&self, person: usize, kind: Kind, held: &[Detail], now: Timestamp) -> Expected {
        let may_be = |detail: &&Detail| {
            detail.kind == kind
                && detail.label == Label::Personal
                && detail.expires_at.is_none_or(|end| end.seconds() > now.seconds())
        };
        let state = self.state(Who::Person(person));
        if state == Known::Out {
            return Expected::Exactly(None);
        }
        let mut possible = HashSet::new();
        for detail in held.iter().filter(may_be) {
            let number =
                (0..VALUES).find(|&number| value(kind, number) == detail.value).expect("a known value");
            match self.state(Who::Value(kind, number)) {
                Known::Out => {}
                Known::In if possible.is_empty() && state == Known::In => {
                    return Expected::Exactly(Some(detail.value.clone()));
                }
                Known::In => {
                    possible.insert(detail.value.expose().to_owned());
                    return Expected::OneOf(possible);
                }
                Known::Unknown => {
                    possible.insert(detail.value.expose().to_owned());
                }
            }
        }
        if possible.is_empty() { Expected::Exactly(None) } else { Expected::OneOf(possible) }
    }
}
