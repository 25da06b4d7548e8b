//! Suppression: people, numbers and addresses that are never disclosed.
//!
//! The store keeps only keyed digests, so the list does not reveal who is on it. The keys are kept outside the
//! store. A digest cannot be recomputed under another key without the original text, so keys are only ever
//! added: new digests use the newest key, and digests under older keys stay valid.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use icu_normalizer::ComposingNormalizerBorrowed;

use crate::access::ByFirstBytes;
use crate::store::sealing::StateKey;
use crate::{ContactValue, Kind, Profile, ShortDigest, hex};

/// What can be suppressed.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// A person: no detail of the profile is disclosed.
    Profile(&'a Profile),
    /// A number or an address: it is not disclosed under any profile.
    Value(Kind, &'a ContactValue),
}

/// A secret key for digests, and the id under which the store knows it. Every kind of text has a key of its own, derived from it,
/// so that a digest never stands for two things.
#[derive(Clone)]
pub struct DigestKey {
    id: String,
    of_profiles: [u8; 32],
    of_phones: [u8; 32],
    of_emails: [u8; 32],
    of_request_ids: [u8; 32],
    of_state: [u8; 32],
}

impl DigestKey {
    /// Creates a key from 32 bytes.
    pub fn new(bytes: &[u8; 32]) -> Self {
        let derived = |what: &str| blake3::derive_key(&format!("contactd digest key: {what}"), bytes);
        Self {
            id: hex::encode(&derived("id")[..8]),
            of_profiles: derived("profiles"),
            of_phones: derived("phone numbers"),
            of_emails: derived("e-mail addresses"),
            of_request_ids: derived("request ids"),
            of_state: derived("state of the store"),
        }
    }

    /// A fingerprint: it identifies the key without revealing it.
    pub fn id(&self) -> &str {
        &self.id
    }

    fn digest_subject(&self, subject: Subject<'_>) -> [u8; 32] {
        match subject {
            Subject::Profile(profile) => digest(&self.of_profiles, profile.key()),
            Subject::Value(kind, value) => self.digest_value(kind, value.expose()),
        }
    }

    fn digest_value(&self, kind: Kind, value: &str) -> [u8; 32] {
        match kind {
            Kind::Phone => digest(&self.of_phones, value),
            Kind::Email if value.bytes().all(|b| b.is_ascii() && !b.is_ascii_uppercase()) => {
                digest(&self.of_emails, value)
            }
            Kind::Email => digest(&self.of_emails, &comparable_email(value)),
        }
    }
}

/// The keyed BLAKE3 hash of a text.
fn digest(key: &[u8; 32], text: &str) -> [u8; 32] {
    #[cfg(test)]
    tests::DIGESTS.set(tests::DIGESTS.get() + 1);
    *blake3::keyed_hash(key, text.as_bytes()).as_bytes()
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DigestKey({})", self.id)
    }
}

/// The form in which e-mail addresses are compared: the whole address in NFC, lower-cased.
pub(crate) fn comparable_email(address: &str) -> String {
    const NFC: ComposingNormalizerBorrowed<'static> = ComposingNormalizerBorrowed::new_nfc();
    NFC.normalize(&NFC.normalize(address).to_lowercase()).into_owned()
}

/// The digest keys of a data directory, oldest first. Never empty.
#[derive(Clone, Debug)]
pub struct DigestKeys(Vec<DigestKey>);

impl DigestKeys {
    /// Takes keys, oldest first; `None` if there are none.
    pub fn new(keys: Vec<DigestKey>) -> Option<Self> {
        (!keys.is_empty()).then_some(Self(keys))
    }

    /// Whether the key with this id is here, so that its digests can be recognised.
    pub fn hold(&self, id: &str) -> bool {
        self.0.iter().any(|key| key.id == id)
    }

    /// The id of the key for new digests.
    pub fn newest_id(&self) -> &str {
        self.0.last().map_or("", |key| &key.id)
    }

    /// The digest to store for a new suppression.
    pub fn digest(&self, subject: Subject<'_>) -> Option<SubjectDigest> {
        let key = self.0.last()?;
        Some(SubjectDigest { key: key.id.clone(), bytes: key.digest_subject(subject) })
    }

    /// The digests under every key. The subject may have been suppressed under any of them.
    pub fn all_digests(&self, subject: Subject<'_>) -> Vec<SubjectDigest> {
        let digest =
            |key: &DigestKey| SubjectDigest { key: key.id.clone(), bytes: key.digest_subject(subject) };
        self.0.iter().map(digest).collect()
    }

    /// How the journal names the newest key.
    pub fn short_id(&self) -> &str {
        let id = self.newest_id();
        id.get(..8).unwrap_or(id)
    }

    /// The digests that the journal may contain for a subject.
    pub fn short_digests(&self, subject: Subject<'_>) -> Vec<ShortDigest> {
        self.0.iter().map(|key| ShortDigest::of(&key.digest_subject(subject))).collect()
    }

    /// The digest of a request id under the newest key.
    pub fn id_digest(&self, id: &str) -> ShortDigest {
        self.0.last().map_or(ShortDigest([0; 16]), |key| ShortDigest::of(&digest(&key.of_request_ids, id)))
    }

    /// The digests that the journal may contain for a request id.
    pub fn id_digests(&self, id: &str) -> Vec<ShortDigest> {
        self.0.iter().map(|key| ShortDigest::of(&digest(&key.of_request_ids, id))).collect()
    }

    /// The key with which the rows of the store are sealed, under the digest key of this id; `None` if that is not here.
    pub fn state_key(&self, id: &str) -> Option<StateKey> {
        let key = self.0.iter().find(|key| key.id == id)?;
        Some(StateKey::new(id, key.of_state))
    }

    /// How an entry of the journal names a subject.
    pub fn named(&self, subject: Subject<'_>) -> Option<String> {
        self.digest(subject).map(|digest| digest.name())
    }

    /// Every way in which an entry of the journal may name a subject.
    pub fn all_named(&self, subject: Subject<'_>) -> Vec<String> {
        self.all_digests(subject).iter().map(SubjectDigest::name).collect()
    }
}

/// A suppression as the store keeps it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SubjectDigest {
    /// The id of the key it was made with.
    pub key: String,
    /// The keyed BLAKE3 hash of the subject.
    pub bytes: [u8; 32],
}

impl SubjectDigest {
    /// How an entry of the journal names it: the beginnings of the key's id and of the digest.
    pub fn name(&self) -> String {
        let key = self.key.get(..8).unwrap_or(&self.key);
        format!("{key}:{}", hex::encode(&self.bytes[..16]))
    }
}

impl fmt::Debug for SubjectDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SubjectDigest({}, <redacted>)", self.key)
    }
}

/// A suppression was made with a key that is missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a suppression was made with the digest key {0}, which is not in keys/: put it back there")]
pub struct UnknownKey(String);

/// The result of checking a person or a value against the list.
#[derive(Clone, Copy, Debug)]
pub struct SubjectCheck {
    /// Whether it is suppressed.
    pub is_out: bool,
    /// Its digest under the newest key.
    pub digest: ShortDigest,
}

/// Digests that are ready to be put in force.
pub(crate) struct ListedDigests(HashSet<[u8; 32], ByFirstBytes>);

/// The suppressions in force, in memory.
#[derive(Debug)]
pub struct SuppressionList {
    keys: DigestKeys,
    listed: ArcSwap<HashSet<[u8; 32], ByFirstBytes>>,
}

impl SuppressionList {
    /// Creates an empty list.
    pub fn new(keys: DigestKeys) -> Self {
        Self { keys, listed: ArcSwap::default() }
    }

    /// Puts a new list in force for every lookup that starts afterwards. If a digest was made with a missing
    /// key, nothing changes: that subject could not be recognised and would be disclosed.
    pub fn replace(&self, digests: impl IntoIterator<Item = SubjectDigest>) -> Result<(), UnknownKey> {
        self.put_in_force(self.listed(digests)?);
        Ok(())
    }

    /// The list to put in force, from these digests.
    pub(crate) fn listed(
        &self,
        digests: impl IntoIterator<Item = SubjectDigest>,
    ) -> Result<ListedDigests, UnknownKey> {
        let mut listed = HashSet::default();
        for digest in digests {
            if !self.keys.hold(&digest.key) {
                return Err(UnknownKey(digest.key));
            }
            listed.insert(digest.bytes);
        }
        Ok(ListedDigests(listed))
    }

    /// Puts a list in force for every lookup that starts afterwards.
    pub(crate) fn put_in_force(&self, listed: ListedDigests) {
        self.listed.store(Arc::new(listed.0));
    }

    /// How many subjects are suppressed.
    pub fn len(&self) -> usize {
        self.listed.load().len()
    }

    /// Whether nothing is suppressed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the two lists differ.
    pub fn differs_from(&self, other: &Self) -> bool {
        **self.listed.load() != **other.listed.load()
    }

    /// The suppressions in force at this moment. Every lookup uses one for all its checks.
    pub fn current(&self) -> CurrentSuppressions<'_> {
        CurrentSuppressions { keys: &self.keys, listed: self.listed.load() }
    }

    /// Whether the subject is suppressed. The cost does not depend on the result.
    pub fn contains(&self, subject: Subject<'_>) -> bool {
        self.current().contains_digest(|key| key.digest_subject(subject))
    }

    /// Whether a detail must not be disclosed: its person, or the number or address itself, is suppressed.
    pub fn withholds(&self, profile: &Profile, kind: Kind, value: &ContactValue) -> bool {
        self.contains(Subject::Profile(profile)) || self.contains(Subject::Value(kind, value))
    }

    /// The digest under which a request id is recorded that may contain personal data.
    pub fn id_digest(&self, id: &str) -> ShortDigest {
        self.keys.id_digest(id)
    }

    /// The digest of a profile.
    pub fn profile_digest(&self, profile: &Profile) -> ShortDigest {
        let digest = self.keys.digest(Subject::Profile(profile));
        digest.map_or(ShortDigest([0; 16]), |digest| ShortDigest::of(&digest.bytes))
    }
}

/// The suppressions that were in force at one moment.
pub struct CurrentSuppressions<'a> {
    keys: &'a DigestKeys,
    listed: Guard<Arc<HashSet<[u8; 32], ByFirstBytes>>>,
}

impl CurrentSuppressions<'_> {
    /// Whether a person is suppressed, and their digest. The cost does not depend on the result.
    pub fn check_profile(&self, profile: &Profile) -> SubjectCheck {
        self.check(|key| key.digest_subject(Subject::Profile(profile)))
    }

    /// Whether a value is suppressed, given as an engine returns it, and its digest.
    pub fn check_value(&self, kind: Kind, value: &str) -> SubjectCheck {
        self.check(|key| key.digest_value(kind, value))
    }

    fn check(&self, digest: impl Fn(&DigestKey) -> [u8; 32]) -> SubjectCheck {
        let mut newest = [0; 32];
        let is_out = self.contains_digest(|key| {
            newest = digest(key);
            newest
        });
        SubjectCheck { is_out, digest: ShortDigest::of(&newest) }
    }

    fn contains_digest(&self, mut digest: impl FnMut(&DigestKey) -> [u8; 32]) -> bool {
        // Not `any`: the work must not depend on the result.
        self.keys.0.iter().fold(false, |found, key| found | self.listed.contains(&digest(key)))
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
        assert!(list.replace(foreign).is_err(), "its key is missing");
        assert!(list.contains(Subject::Profile(&ada)), "the old list stays in force");
    }

    #[test]
    fn emails_compare_in_any_case_and_phones_never_equal_emails() {
        let keys = DigestKeys::new(vec![key(1)]).expect("a key");
        let list = SuppressionList::new(keys.clone());
        let address = ContactValue::email("Jürg@example.com").expect("an address");
        list.replace(keys.digest(Subject::Value(Kind::Email, &address))).expect("known keys");
        let list = list.current();
        assert!(list.check_value(Kind::Email, "jU\u{308}RG@example.com").is_out);
        assert!(!list.check_value(Kind::Phone, "jürg@example.com").is_out);
        assert!(!list.check_value(Kind::Email, "jorg@example.com").is_out);
    }

    // Stores and journals are full of these: with another one, people who opted out would be disclosed.
    #[test]
    fn digests_are_what_they_always_were() {
        let keys = DigestKeys::new(vec![key(7)]).expect("a key");
        let ada = Networks::built_in().canonicalize("linkedin.com/in/ada-quell").expect("a profile");
        let phone = ContactValue::from_store("+14155550123".to_owned());
        let email = ContactValue::from_store("ada@example.com".to_owned());
        let of = |subject| keys.named(subject).expect("a digest");
        let id = &keys.newest_id()[..8];
        assert_eq!(
            [
                of(Subject::Profile(&ada)),
                of(Subject::Value(Kind::Phone, &phone)),
                of(Subject::Value(Kind::Email, &email)),
                format!("{id}:{}", hex::encode(&keys.id_digest("job-7").0)),
            ],
            [
                "6b2fcbb4:69804d3a4c8f0c02916ab744d015f38c",
                "6b2fcbb4:6193bb60fac07e873082d42c831234ad",
                "6b2fcbb4:f72af41ecbea1febc68d88741fdd414c",
                "6b2fcbb4:84c4dc1f4fb4eced38f630e296a8b19b",
            ]
        );
    }

    #[test]
    fn a_key_is_never_printed() {
        let printed = format!("{:?}", key(7));
        assert!(!printed.contains("07070707"), "{printed}");
    }
}
