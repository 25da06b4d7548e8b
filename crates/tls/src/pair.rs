//! A certificate and its key, read from two files and checked.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use contactd_core::Timestamp;
use rustls::crypto::ring::{self, Ticketer};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{Error, InconsistentKeys, ServerConfig};

use crate::ends;

/// Files that are larger are not read.
const LARGEST: u64 = 1 << 20;

/// Where a certificate and its key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairFiles {
    /// The certificate of this server, and those that lead from it to an authority, in PEM form.
    pub cert: PathBuf,
    /// The key of the first certificate, in PEM form.
    pub key: PathBuf,
}

/// One of the two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The file with the certificate.
    Cert,
    /// The file with the key.
    Key,
}

/// Why two files cannot be used. The text contains nothing of the key.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// A file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// Which of the two.
        part: Part,
        /// Its path.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// There is no certificate in the file.
    #[error("{} has no certificate in it; it must be in PEM form and have a line -----BEGIN CERTIFICATE-----", .0.display())]
    NoCertificate(PathBuf),
    /// The file has something that is not a certificate.
    #[error("the certificate in {} cannot be used: {error}", path.display())]
    BadCertificate {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: String,
    },
    /// There is no key in the file.
    #[error("{} has no key in it; it must be in PEM form and have a line such as -----BEGIN PRIVATE KEY-----", .0.display())]
    NoKey(PathBuf),
    /// The key is encrypted.
    #[error(
        "the key in {} is encrypted, and nobody is there to enter its password; decrypt it with `openssl pkey -in {} -out FILE`",
        .0.display(), .0.display()
    )]
    EncryptedKey(PathBuf),
    /// The key is of a kind that is not supported, or broken.
    #[error("the key in {} cannot be used; make an ECDSA (P-256 or P-384), Ed25519 or RSA key (2048 to 8192 bits)", .0.display())]
    BadKey(PathBuf),
    /// Every user can read the key.
    #[error("other users can read {}; run `chmod 600 {}`", .0.display(), .0.display())]
    ExposedKey(PathBuf),
    /// The key is that of another certificate.
    #[error(
        "the key in {} does not belong to the certificate in {}; if that file has several certificates, that of this server \
         must be the first", .0.key.display(), .0.cert.display()
    )]
    Mismatch(PairFiles),
}

impl PairError {
    /// The file that has to be corrected.
    pub fn part(&self) -> Part {
        match self {
            Self::Read { part, .. } => *part,
            Self::NoCertificate(_) | Self::BadCertificate { .. } => Part::Cert,
            Self::NoKey(_)
            | Self::EncryptedKey(_)
            | Self::BadKey(_)
            | Self::ExposedKey(_)
            | Self::Mismatch(_) => Part::Key,
        }
    }
}

/// A certificate and its key, ready for handshakes.
#[derive(Debug)]
pub struct Pair {
    pub(crate) files: PairFiles,
    /// The state of the files just before they were read.
    pub(crate) state: FilesState,
    /// The certificates, the one of this server first.
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) ends: Timestamp,
    pub(crate) config: Arc<ServerConfig>,
    key_mode: u32,
}

impl Pair {
    /// Reads two files, and checks that they can be used and belong together. A certificate that has ended can be used.
    pub fn read(files: &PairFiles) -> Result<Self, PairError> {
        let state = FilesState::of(files);
        let (text, _) = read(&files.cert, Part::Cert)?;
        let chain = certificates(&text, &files.cert)?;
        let (text, metadata) = read(&files.key, Part::Key)?;
        if metadata.mode() & 0o007 != 0 {
            return Err(PairError::ExposedKey(files.key.clone()));
        }
        let key = key(&text, &files.key)?;
        let bad = |error: String| PairError::BadCertificate { path: files.cert.clone(), error };
        let ends = ends::of(&chain[0]).ok_or_else(|| bad("it does not say when it ends".to_owned()))?;
        let provider = ring::default_provider();
        let signing = provider.key_provider.load_private_key(key);
        let signing = signing.map_err(|_| PairError::BadKey(files.key.clone()))?;
        let certified = CertifiedKey::new(chain.clone(), signing);
        match certified.keys_match() {
            Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(Error::InconsistentKeys(_)) => return Err(PairError::Mismatch(files.clone())),
            Err(error) => return Err(bad(error.to_string())),
        }
        let config = Arc::new(config(certified).map_err(|error| bad(error.to_string()))?);
        Ok(Self { files: files.clone(), state, chain, ends, config, key_mode: metadata.mode() })
    }

    /// When the certificate ends.
    pub fn ends(&self) -> Timestamp {
        self.ends
    }

    /// Whether the group of the key's file can read it.
    pub fn group_can_read(&self) -> bool {
        self.key_mode & 0o070 != 0
    }
}

fn read(path: &Path, part: Part) -> Result<(Vec<u8>, Metadata), PairError> {
    let failed = |error| PairError::Read { part, path: path.to_owned(), error };
    let file = File::open(path).map_err(failed)?;
    // Of the file that is read, whatever has its name by then.
    let metadata = file.metadata().map_err(failed)?;
    let mut text = Vec::new();
    file.take(LARGEST).read_to_end(&mut text).map_err(failed)?;
    Ok((text, metadata))
}

fn certificates(text: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, PairError> {
    let found = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>();
    let broken = |_| PairError::BadCertificate {
        path: path.to_owned(),
        error: "the PEM form is broken; a line is missing or was changed".to_owned(),
    };
    let found = found.map_err(broken)?;
    if found.is_empty() { Err(PairError::NoCertificate(path.to_owned())) } else { Ok(found) }
}

fn key(text: &[u8], path: &Path) -> Result<PrivateKeyDer<'static>, PairError> {
    let has = |mark: &str| String::from_utf8_lossy(text).contains(mark);
    match PrivateKeyDer::from_pem_slice(text) {
        _ if has("BEGIN ENCRYPTED PRIVATE KEY") || has("Proc-Type: 4,ENCRYPTED") => {
            Err(PairError::EncryptedKey(path.to_owned()))
        }
        Ok(key) => Ok(key),
        Err(pem::Error::NoItemsFound) => Err(PairError::NoKey(path.to_owned())),
        Err(_) => Err(PairError::BadKey(path.to_owned())),
    }
}

fn config(certified: CertifiedKey) -> Result<ServerConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Clients keep their sessions in tickets, so that the server stores none. The key of the tickets belongs to this pair: with
    // the next one, every client sees the new certificate.
    config.ticketer = Ticketer::new()?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 1;
    // Early data could be replayed by somebody else.
    config.max_early_data_size = 0;
    Ok(config)
}

/// The state of both files, to notice that they were changed or replaced; `None` for a file that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FilesState([Option<FileState>; 2]);

/// Device, inode and size; when it was modified, and when it was changed: that also differs if a file is overwritten and gets its
/// old times back.
type FileState = (u64, u64, u64, [i64; 4]);

impl FilesState {
    pub(crate) fn of(files: &PairFiles) -> Self {
        Self([&files.cert, &files.key].map(|path| {
            let now = path.metadata().ok()?;
            let times = [now.mtime(), now.mtime_nsec(), now.ctime(), now.ctime_nsec()];
            Some((now.dev(), now.ino(), now.size(), times))
        }))
    }
}
