//! Certificates made with openssl, and a client that trusts them.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::http::{self, Connection};
use crate::service::Site;

/// A new ECDSA key, as a part of openssl's arguments.
const NEW_KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";

pub(crate) type TlsConnection = Connection<StreamOwned<ClientConnection, TcpStream>>;

/// Runs openssl in the directory of a site.
pub(crate) fn openssl(site: &Site, args: &str) -> String {
    let made = Command::new("openssl").args(args.split(' ')).current_dir(site.path("")).output();
    let made = made.expect("openssl runs");
    assert!(made.status.success(), "{args}: {}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8(made.stdout).expect("UTF-8")
}

/// An authority (`ca.pem`), a certificate from it for this machine (`server.pem`, `server.key`), and another authority
/// (`other.pem`).
pub(crate) fn make_certificates(site: &Site) {
    site.file("names", "subjectAltName=DNS:localhost,IP:127.0.0.1\n");
    openssl(site, &format!("req -x509 {NEW_KEY} -keyout ca.key -out ca.pem -days 30 -subj /CN=ours"));
    openssl(site, &format!("req -x509 {NEW_KEY} -keyout other.key -out other.pem -days 30 -subj /CN=other"));
    make_certificate(site, "server", 20);
}

/// A certificate from our authority for this machine, `NAME.pem`, with its key, `NAME.key`. It ends after so many days.
pub(crate) fn make_certificate(site: &Site, name: &str, days: i32) {
    openssl(site, &format!("req {NEW_KEY} -keyout {name}.key -out {name}.csr -subj /CN=localhost"));
    sign(site, name, days);
}

/// A certificate for a key that exists, `NAME.key`.
pub(crate) fn certify(site: &Site, name: &str) {
    std::fs::set_permissions(site.path(&format!("{name}.key")), PermissionsExt::from_mode(0o600))
        .expect("sets");
    openssl(site, &format!("req -new -key {name}.key -out {name}.csr -subj /CN=localhost"));
    sign(site, name, 20);
}

fn sign(site: &Site, name: &str, days: i32) {
    openssl(
        site,
        &format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days {days} -extfile names -out {name}.pem"
        ),
    );
}

/// The certificate in a file of a site.
pub(crate) fn certificate(site: &Site, file: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(site.path(file)).expect("a certificate")
}

/// A client that trusts our authority.
pub(crate) struct Client(ClientConfig);

impl Client {
    pub(crate) fn of(site: &Site) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(certificate(site, "ca.pem")).expect("an authority");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self(config)
    }

    /// Offers these protocols.
    pub(crate) fn offering(mut self, protocols: &[&str]) -> Self {
        self.0.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        self
    }

    pub(crate) fn into_config(self) -> ClientConfig {
        self.0
    }

    /// Connects, and does the handshake.
    pub(crate) fn connect(&self, address: SocketAddr) -> std::io::Result<TlsConnection> {
        let name = ServerName::try_from("localhost").expect("a name");
        let mut session = ClientConnection::new(Arc::new(self.0.clone()), name).expect("a client");
        let mut stream = http::connect(address);
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }
        Ok(Connection::over(StreamOwned::new(session, stream)))
    }
}

impl TlsConnection {
    /// The certificate that the server has shown.
    pub(crate) fn shown(&self) -> CertificateDer<'static> {
        let chain = self.stream.conn.peer_certificates().expect("a certificate");
        chain[0].clone().into_owned()
    }
}
