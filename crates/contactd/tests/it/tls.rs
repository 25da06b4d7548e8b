//! `lookup` and `enrich` through TLS. A proxy in front of the service ends it, with a certificate from an authority of our own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::fixture::{ADA, ADA_PHONE};
use crate::service::{Output, Service, Site};

/// Takes TLS connections, and passes on what comes to the port in its argument.
const PROXY: &str = r#"
import socket, ssl, sys, threading

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("server.pem", "server.key")
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)

def pump(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass

def serve(plain):
    try:
        client = context.wrap_socket(plain, server_side=True)
    except OSError:
        return
    service = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    threading.Thread(target=pump, args=(service, client), daemon=True).start()
    pump(client, service)

while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"#;

struct Proxy {
    child: Child,
    port: u16,
}

impl Proxy {
    fn start(service: &Service) -> Self {
        make_certificates(&service.site);
        let mut child = Command::new("python3")
            .args(["-c", PROXY, &service.public.port().to_string()])
            .current_dir(service.site.path(""))
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        let mut port = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut port).expect("reads");
        Self { child, port: port.trim().parse().expect("a port") }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An authority (`ca.pem`), a certificate from it for this machine (`server.pem`), and another authority (`other.pem`).
fn make_certificates(site: &Site) {
    site.file("names", "subjectAltName=DNS:localhost,IP:127.0.0.1\n");
    let new_key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    for command in [
        format!("req -x509 {new_key} -keyout ca.key -out ca.pem -days 2 -subj /CN=ours"),
        format!("req -x509 {new_key} -keyout other.key -out other.pem -days 2 -subj /CN=other"),
        format!("req {new_key} -keyout server.key -out server.csr -subj /CN=localhost"),
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.pem"
            .to_owned(),
    ] {
        let made = Command::new("openssl").args(command.split(' ')).current_dir(site.path("")).output();
        let made = made.expect("openssl runs");
        assert!(made.status.success(), "{command}: {}", String::from_utf8_lossy(&made.stderr));
    }
}

#[test]
fn lookup_and_enrich_trust_the_authority_that_they_are_told_to_trust() {
    let (service, token) = Service::with_people();
    let proxy = Proxy::start(&service);
    let site = &service.site;
    let lookup = |host: &str, flags: &[&str], env: &[(&str, &str)]| -> Output {
        let url = format!("https://{host}:{}", proxy.port);
        site.run_with(&[&["lookup", "phone", ADA, "--url", &url, "--token", &token], flags].concat(), "", env)
    };
    for host in ["localhost", "127.0.0.1"] {
        let found = lookup(host, &["--cacert", "ca.pem"], &[]);
        assert_eq!((found.code, found.stdout.as_str()), (0, "+14155550123\n"), "{host}: {found:?}");
    }
    let found = lookup("localhost", &[], &[("CONTACTD_CACERT", "ca.pem")]);
    assert_eq!((found.code, found.stdout.as_str()), (0, "+14155550123\n"), "{found:?}");

    // The authorities that everybody trusts are not enough, and another authority is not ours.
    for flags in [&[][..], &["--cacert", "other.pem"]] {
        let refused = lookup("localhost", flags, &[]);
        let expected = format!(
            "contactd: the certificate of https://localhost:{}/api/fetchPhoneNumber is not trusted; if it is from an authority \
             of your own, name that authority's certificate with --cacert: ",
            proxy.port
        );
        assert!(refused.code == 1 && refused.stderr.starts_with(&expected), "{refused:?}");
    }
    let absent = lookup("localhost", &["--cacert", "absent.pem"], &[]);
    let expected =
        "contactd: cannot read the certificates in absent.pem: No such file or directory (os error 2)\n";
    assert_eq!((absent.code, absent.stderr.as_str()), (1, expected));
    let key = lookup("localhost", &["--cacert", "ca.key"], &[]);
    let expected = "contactd: ca.key has no certificate in it; --cacert needs a file in PEM form\n";
    assert_eq!((key.code, key.stderr.as_str()), (1, expected));

    let input = site.file("in.csv", format!("profileUrl\n{ADA}\n"));
    let url = format!("https://localhost:{}", proxy.port);
    let enriched = site.run(&[
        "enrich", &input, "out.csv", "--only", "phone", "--url", &url, "--token", &token, "--cacert",
        "ca.pem",
    ]);
    assert_eq!(enriched.code, 0, "{enriched:?}");
    let out = std::fs::read_to_string(site.path("out.csv")).expect("an output");
    assert!(out.ends_with(&format!(",{ADA_PHONE},ok\n")), "{out}");
}
