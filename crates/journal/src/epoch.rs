//! Epochs: for a while, a journal's lines are signed with one private key, which is then destroyed.

use std::fmt;

use contactd_core::{RootKey, Timestamp};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use zeroize::Zeroizing;

use crate::JournalError;
use crate::chain::ChainKey;

/// Begins everything that is signed, so that a signature means nothing elsewhere.
const SIGNED: &[u8] = b"contactd journal checkpoint\n";
/// From an epoch's secret and the number of a checkpoint to the key of the lines before it.
const INTERVAL: &str = "contactd journal interval key";

/// The keys of one epoch.
#[derive(Clone)]
pub(crate) struct EpochKeys {
    /// The first epoch's public key, which identifies the journal.
    pub(crate) root: RootKey,
    /// Its number, from one.
    pub(crate) epoch: u64,
    pub(crate) begun_at: Timestamp,
    pub(crate) secret: Zeroizing<[u8; 32]>,
    pub(crate) signing: SigningKey,
}

impl EpochKeys {
    /// New random keys: of the epoch after `before`, or of the first epoch of a new journal.
    pub(crate) fn generate(before: Option<&Self>, at: Timestamp) -> Result<Self, JournalError> {
        let (mut secret, mut seed) = (Zeroizing::new([0; 32]), Zeroizing::new([0; 32]));
        for bytes in [&mut secret, &mut seed] {
            getrandom::fill(&mut **bytes)
                .map_err(|error| JournalError::Key(format!("no randomness from the system: {error}")))?;
        }
        let signing = SigningKey::from_bytes(&seed);
        let (root, epoch) = match before {
            Some(before) => (before.root, before.epoch + 1),
            None => (RootKey(signing.verifying_key().to_bytes()), 1),
        };
        Ok(Self { root, epoch, begun_at: at, secret, signing })
    }

    /// The public key.
    pub(crate) fn public(&self) -> RootKey {
        RootKey(self.signing.verifying_key().to_bytes())
    }

    /// The key of the lines up to the checkpoint with this number.
    pub(crate) fn interval(&self, checkpoint: u64) -> ChainKey {
        let mut material = Zeroizing::new([0; 40]);
        material[..32].copy_from_slice(&*self.secret);
        material[32..].copy_from_slice(&checkpoint.to_le_bytes());
        ChainKey::new(&blake3::derive_key(INTERVAL, &*material))
    }

    /// Signs the text of a checkpoint.
    pub(crate) fn sign(&self, text: &[u8]) -> [u8; 64] {
        self.signing.sign(&[SIGNED, text].concat()).to_bytes()
    }
}

impl fmt::Debug for EpochKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EpochKeys({}, <redacted>)", self.epoch)
    }
}

/// Whether the text of a checkpoint was signed with the private key of `public`.
pub(crate) fn is_signed(public: RootKey, text: &[u8], signature: &[u8; 64]) -> bool {
    VerifyingKey::from_bytes(&public.0).is_ok_and(|key| {
        key.verify_strict(&[SIGNED, text].concat(), &Signature::from_bytes(signature)).is_ok()
    })
}
