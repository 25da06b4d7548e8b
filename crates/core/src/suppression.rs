//! Suppression: people, numbers and addresses that are never disclosed.
//!
//! What is kept is a keyed digest, so that the list tells nobody who it is about. The keys
//! are outside the store. A digest cannot be made again under another key without what it
//! hides, so keys are only ever added: new digests use the newest, old ones go on counting.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use hmac::{Hmac, KeyInit, Mac};
use icu_normalizer::ComposingNormalizerBorrowed;
use sha2::{Digest, Sha256};

use crate::first_bytes::ByFirstBytes;
use crate::{ContactValue, Kind, Profile, ProfileDigest, hex};

/// What can be suppressed.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// A person: nothing of the profile is disclosed.
    Profile(&'a Profile),
    /// A number or an address: it is not disclosed under any profile.
    Value(Kind, &'a ContactValue),
}

/// A secret key of digests, and the id by which the store remembers it.
#[derive(Clone)]
pub struct DigestKey {
    id: String,
    keyed: Hmac<Sha256>,
}

impl DigestKey {
    /// The key made of these 32 bytes.
    pub fn new(bytes: &[u8; 32]) -> Self {
        let mut fingerprint = Sha256::new();
        fingerprint.update(b"contactd digest key\0");
        fingerprint.update(bytes);
        let id = hex::encode(&fingerprint.finalize()[..8]);
        // A key of any length is taken: this cannot fail.
        let keyed = Hmac::new_from_slice(bytes).unwrap_or_else(|_| Hmac::new(&Default::default()));
        Self { id, keyed }
    }

    /// A fingerprint: it tells keys apart and tells nothing about them.
    pub fn id(&self) -> &str {
        &self.id
    }

    fn digest(&self, tag: u8, text: &[u8]) -> [u8; 32] {
        #[cfg(test)]
        tests::DIGESTS.set(tests::DIGESTS.get() + 1);
        let mut mac = self.keyed.clone();
        mac.update(&[tag]);
        mac.update(text);
        mac.finalize().into_bytes().into()
    }

    fn digest_subject(&self, subject: Subject<'_>) -> [u8; 32] {
        match subject {
            Subject::Profile(profile) => self.digest(b'u', profile.key().as_bytes()),
            Subject::Value(kind, value) => self.digest_value(kind, value.expose()),
        }
    }

    fn digest_value(&self, kind: Kind, value: &str) -> [u8; 32] {
        match kind {
            Kind::Phone => self.digest(b'p', value.as_bytes()),
            Kind::Email if value.bytes().all(|b| b.is_ascii() && !b.is_ascii_uppercase()) => {
                self.digest(b'e', value.as_bytes())
            }
            Kind::Email => self.digest(b'e', comparable_email(value).as_bytes()),
        }
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DigestKey({})", self.id)
    }
}

/// E-mails compare as the whole address, NFC and lower-cased.
pub(crate) fn comparable_email(address: &str) -> String {
    const NFC: ComposingNormalizerBorrowed<'static> = ComposingNormalizerBorrowed::new_nfc();
    NFC.normalize(&NFC.normalize(address).to_lowercase()).into_owned()
}

/// The keys of a data directory, oldest first. There is always one.
#[derive(Clone, Debug)]
pub struct DigestKeys(Vec<DigestKey>);

impl DigestKeys {
    /// These keys, oldest first; none where there are none.
    pub fn new(keys: Vec<DigestKey>) -> Option<Self> {
        (!keys.is_empty()).then_some(Self(keys))
    }

    /// Whether a digest with this key's id could be recognised.
    pub fn hold(&self, id: &str) -> bool {
        self.0.iter().any(|key| key.id == id)
    }

    /// The id of the key that new digests are made with.
    pub fn newest_id(&self) -> &str {
        self.0.last().map_or("", |key| &key.id)
    }

    /// The digest to keep for a new suppression.
    pub fn digest(&self, subject: Subject<'_>) -> Option<SubjectDigest> {
        let key = self.0.last()?;
        Some(SubjectDigest { key: key.id.clone(), bytes: key.digest_subject(subject) })
    }

    /// The digests under every key, by any of which the subject may have been suppressed.
    pub fn all_digests(&self, subject: Subject<'_>) -> Vec<SubjectDigest> {
        let digest =
            |key: &DigestKey| SubjectDigest { key: key.id.clone(), bytes: key.digest_subject(subject) };
        self.0.iter().map(digest).collect()
    }

    /// The digests under which the audit may know a profile, with the ids of their keys.
    pub fn profile_digests(&self, profile: &Profile) -> Vec<(String, ProfileDigest)> {
        let digests = self.all_digests(Subject::Profile(profile));
        digests.into_iter().map(|digest| (digest.key, ProfileDigest::of(&digest.bytes))).collect()
    }
}

/// What the store keeps of a suppression.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SubjectDigest {
    /// The id of the key it was made with.
    pub key: String,
    /// HMAC-SHA-256 of the subject.
    pub bytes: [u8; 32],
}

impl fmt::Debug for SubjectDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SubjectDigest({}, <redacted>)", self.key)
    }
}

/// A suppression was made with a key that is not here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a suppression was made with the digest key {0}, which is not in keys/: put it back there")]
pub struct UnknownKey(String);

/// What the list says about a person.
#[derive(Clone, Copy, Debug)]
pub struct PersonCheck {
    /// Whether they are suppressed.
    pub is_out: bool,
    /// Their digest under the newest key.
    pub digest: ProfileDigest,
}

/// The suppressions in force, in memory.
#[derive(Debug)]
pub struct SuppressionList {
    keys: DigestKeys,
    listed: ArcSwap<HashSet<[u8; 32], ByFirstBytes>>,
}

impl SuppressionList {
    /// Nothing is suppressed yet.
    pub fn new(keys: DigestKeys) -> Self {
        Self { keys, listed: ArcSwap::default() }
    }

    /// Puts this list in force, for every lookup that begins afterwards. If one of the
    /// digests was made with a key that is not here, nothing changes: that subject could
    /// not be recognised, and would be disclosed.
    pub fn replace(&self, digests: impl IntoIterator<Item = SubjectDigest>) -> Result<(), UnknownKey> {
        let mut listed = HashSet::default();
        for digest in digests {
            if !self.keys.hold(&digest.key) {
                return Err(UnknownKey(digest.key));
            }
            listed.insert(digest.bytes);
        }
        self.listed.store(Arc::new(listed));
        Ok(())
    }

    /// How many subjects are suppressed.
    pub fn len(&self) -> usize {
        self.listed.load().len()
    }

    /// Whether nothing is suppressed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether another list holds other subjects than this one.
    pub fn differs_from(&self, other: &Self) -> bool {
        **self.listed.load() != **other.listed.load()
    }

    /// Whether the subject is suppressed. Costs the same whether it is or not.
    pub fn contains(&self, subject: Subject<'_>) -> bool {
        self.contains_digest(|key| key.digest_subject(subject))
    }

    /// Whether a detail must not be disclosed: its person, or the number or address itself, is suppressed.
    pub fn withholds(&self, profile: &Profile, kind: Kind, value: &ContactValue) -> bool {
        self.contains(Subject::Profile(profile)) || self.contains(Subject::Value(kind, value))
    }

    /// Whether a person is suppressed, and their digest. Costs the same whether they are or not.
    pub fn check_profile(&self, profile: &Profile) -> PersonCheck {
        let mut newest = [0; 32];
        let is_out = self.contains_digest(|key| {
            newest = key.digest_subject(Subject::Profile(profile));
            newest
        });
        PersonCheck { is_out, digest: ProfileDigest::of(&newest) }
    }

    /// Whether a value is suppressed, as an engine hands it over.
    pub fn contains_value(&self, kind: Kind, value: &str) -> bool {
        self.contains_digest(|key| key.digest_value(kind, value))
    }

    fn contains_digest(&self, mut digest: impl FnMut(&DigestKey) -> [u8; 32]) -> bool {
        let listed = self.listed.load();
        // Not `any`: the work is not to depend on what is found.
        self.keys.0.iter().fold(false, |found, key| found | listed.contains(&digest(key)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::Networks;

    thread_local! {
        /// Digests made on this thread.
        pub(crate) static DIGESTS: Cell<u64> = const { Cell::new(0) };
    }

    fn key(byte: u8) -> DigestKey {
        DigestKey::new(&[byte; 32])
    }

    #[test]
    fn a_digest_under_an_old_key_still_counts() {
        let ada = Networks::built_in().canonicalize("linkedin.com/in/ada-quell").expect("a profile");
        let before = DigestKeys::new(vec![key(1)]).expect("a key");
        let digest = before.digest(Subject::Profile(&ada)).expect("a digest");
        let list = SuppressionList::new(DigestKeys::new(vec![key(1), key(2)]).expect("keys"));
        list.replace([digest]).expect("known keys");
        assert!(list.contains(Subject::Profile(&ada)));
        let foreign = DigestKeys::new(vec![key(3)]).expect("a key").digest(Subject::Profile(&ada));
        assert!(list.replace(foreign).is_err(), "made with a key that is not here");
        assert!(list.contains(Subject::Profile(&ada)), "what was in force stays so");
    }

    #[test]
    fn emails_compare_in_any_case_and_phones_never_equal_emails() {
        let keys = DigestKeys::new(vec![key(1)]).expect("a key");
        let list = SuppressionList::new(keys.clone());
        let address = ContactValue::email("Jürg@example.com").expect("an address");
        list.replace(keys.digest(Subject::Value(Kind::Email, &address))).expect("known keys");
        assert!(list.contains_value(Kind::Email, "jU\u{308}RG@example.com"));
        assert!(!list.contains_value(Kind::Phone, "jürg@example.com"));
        assert!(!list.contains_value(Kind::Email, "jorg@example.com"));
    }

    #[test]
    fn a_key_never_prints() {
        let printed = format!("{:?}", key(7));
        assert!(!printed.contains("07070707"), "{printed}");
    }
}
