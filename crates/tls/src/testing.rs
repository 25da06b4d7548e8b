//! For tests: certificates made with openssl.

use std::process::Command;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;

use crate::{Pair, PairFiles};

/// A directory with a certificate that signed itself, `server.pem`, and its key, `server.key`.
pub(crate) struct Made(TempDir);

impl Made {
    pub(crate) fn ending_in_days(days: u32) -> Self {
        let made = Self(tempfile::tempdir().expect("a directory"));
        made.openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout server.key -out server.pem -days {days} \
             -subj /CN=localhost -addext subjectAltName=DNS:localhost -addext basicConstraints=CA:FALSE"
        ));
        made
    }

    pub(crate) fn openssl(&self, args: &str) -> String {
        let output = Command::new("openssl").args(args.split(' ')).current_dir(self.0.path()).output();
        let output = output.expect("openssl runs");
        assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    pub(crate) fn pair(&self) -> Pair {
        let (cert, key) = (self.0.path().join("server.pem"), self.0.path().join("server.key"));
        Pair::read(&PairFiles { cert, key }).expect("a pair")
    }

    /// A client that trusts the certificate.
    pub(crate) fn client(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.pair().chain[0].clone()).expect("a root");
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth()
    }
}
