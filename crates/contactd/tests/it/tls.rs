//! TLS on both listeners, with certificates from an authority of our own.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rustix::process::Signal;
use serde_json::json;

use crate::demo::Demo;
use crate::doctor::{finding, finds};
use crate::fixture::{ADA, ADA_CANONICAL, ADA_PHONE};
use crate::http::{Connection, Request, head, profile_body};
use crate::service::{EMAIL, Output, PHONE, Service, Site, eventually};
use crate::tls_client::{
    Client, TlsConnection, certificate, certify, make_certificate, make_certificates, openssl,
};

const CONFIG: &str = "[tls]\ncert = \"server.pem\"\nkey = \"server.key\"\n";

/// A service with the invented people and TLS on both listeners, and a token.
fn serve(config: &str) -> (Service, String) {
    let site = Site::with_people();
    make_certificates(&site);
    let token = site.token(&[]);
    (site.serve_with(&[], config), token)
}

fn connect(service: &Service) -> TlsConnection {
    Client::of(&service.site).connect(service.public).expect("a handshake")
}

fn lookup(path: &str, token: &str) -> Vec<u8> {
    Request::lookup(path, profile_body(ADA)).token(token).bytes()
}

fn handshakes(service: &Service) -> [u64; 3] {
    ["ok", "failed", "timeout"].map(|outcome| {
        service.metric(&format!("contactd_tls_handshakes_total{{outcome=\"{outcome}\"}}")).expect(outcome)
    })
}

/// When a certificate ends, in our words.
fn ends(site: &Site, file: &str) -> String {
    let shown = openssl(site, &format!("x509 -in {file} -noout -enddate -dateopt iso_8601"));
    shown.trim().trim_start_matches("notAfter=").replacen(' ', "T", 1)
}

fn curl(service: &Service, flags: &[&str], path: &str, token: &str) -> String {
    let output = Command::new("curl")
        .args(["-sS", "--cacert", "ca.pem", "-H", &format!("Authorization: Bearer {token}")])
        .args(["-H", "Content-Type: application/json", "-d", &profile_body(ADA)])
        .args(["-w", " %{http_version} %{ssl_verify_result}"])
        .args(flags)
        .arg(format!("https://localhost:{}{path}", service.public.port()))
        .current_dir(service.site.path(""))
        .output()
        .expect("curl runs");
    assert!(output.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn curl_gets_both_operations_with_both_versions_of_tls_and_every_form_of_key() {
    let site = Site::with_people();
    let token = site.token(&[]);
    make_certificates(&site);
    openssl(&site, "genrsa -traditional -out pkcs1.key 2048");
    openssl(&site, "ecparam -name secp384r1 -genkey -noout -out sec1.key");
    openssl(&site, "genpkey -algorithm ed25519 -out ed25519.key");
    let mut site = site;
    for (name, mark) in [
        ("server", "BEGIN PRIVATE KEY"),
        ("pkcs1", "BEGIN RSA PRIVATE KEY"),
        ("sec1", "BEGIN EC PRIVATE KEY"),
        ("ed25519", "BEGIN PRIVATE KEY"),
    ] {
        let key = std::fs::read_to_string(site.path(&format!("{name}.key"))).expect("a key");
        assert!(key.contains(mark), "{name}: {key}");
        if name != "server" {
            certify(&site, name);
        }
        let flags = ["--tls-cert", &format!("{name}.pem"), "--tls-key", &format!("{name}.key")];
        let service = site.serve_with(&flags, "");
        let phone = format!(
            "{{\"phoneNumber\":\"{ADA_PHONE}\",\"profileUrl\":\"https://linkedin.com/in/ada-quell-1a2b3c\"}} 1.1 0"
        );
        let email = "{\"email\":\"ada@example.com\",\"profileUrl\":\"https://linkedin.com/in/ada-quell-1a2b3c\"} 1.1 0";
        for version in [&["--tlsv1.2", "--tls-max", "1.2"][..], &["--tlsv1.3"], &["--http2"]] {
            assert_eq!(curl(&service, version, PHONE, &token), phone, "{name} {version:?}");
            assert_eq!(curl(&service, version, EMAIL, &token), email, "{name} {version:?}");
        }
        site = service.stop();
    }
}

#[test]
fn lookup_and_enrich_trust_the_authority_that_they_are_told_to_trust() {
    let (service, token) = serve(CONFIG);
    let (site, port) = (&service.site, service.public.port());
    let lookup = |host: &str, flags: &[&str], env: &[(&str, &str)]| -> Output {
        let url = format!("https://{host}:{port}");
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
        let expected = format!(
            "contactd: the certificate of https://localhost:{port}/api/fetchPhoneNumber is not trusted; if it is from an authority \
             of your own, name that authority's certificate with --cacert: "
        );
        lookup("localhost", flags, &[]).mentions(1, expected);
    }
    let absent = lookup("localhost", &["--cacert", "absent.pem"], &[]);
    let expected =
        "contactd: cannot read the certificates in absent.pem: No such file or directory (os error 2)\n";
    assert_eq!((absent.code, absent.stderr.as_str()), (1, expected));
    let key = lookup("localhost", &["--cacert", "ca.key"], &[]);
    let expected = "contactd: ca.key has no certificate in it; --cacert needs a file in PEM form\n";
    assert_eq!((key.code, key.stderr.as_str()), (1, expected));

    let rows = 300;
    let input = site.file("in.csv", format!("profileUrl\n{}", format!("{ADA}\n").repeat(rows)));
    let url = format!("https://localhost:{port}");
    site.ok(&[
        "enrich", &input, "out.csv", "--only", "phone", "--url", &url, "--token", &token, "--cacert",
        "ca.pem",
    ]);
    let out = std::fs::read_to_string(site.path("out.csv")).expect("an output");
    assert_eq!(out.matches(&format!(",{ADA_PHONE},ok\n")).count(), rows, "{out}");
}

#[test]
fn http_1_1_is_spoken_also_if_the_client_offers_nothing_and_h2_alone_is_refused() {
    let (service, token) = serve(CONFIG);
    for (offered, spoken) in [(&["h2", "http/1.1"][..], Some("http/1.1")), (&[], None)] {
        let client = Client::of(&service.site).offering(offered);
        let mut connection = client.connect(service.public).expect("a handshake");
        let chosen = connection.stream.conn.alpn_protocol().map(<[u8]>::to_vec);
        assert_eq!(chosen, spoken.map(|name| name.as_bytes().to_vec()), "{offered:?}");
        connection.send(lookup(PHONE, &token));
        assert_eq!(connection.reply().status, 200);
    }
    let refused = Client::of(&service.site).offering(&["h2"]).connect(service.public).err();
    assert_eq!(refused.expect("it is refused").to_string(), "received fatal alert: NoApplicationProtocol");
    eventually("all are counted", || handshakes(&service) == [2, 1, 0]);
}

#[test]
fn what_is_not_tls_is_closed_and_other_clients_go_on() {
    let (service, token) = serve(CONFIG);
    let mut open = connect(&service);
    for bytes in [&lookup(PHONE, &token)[..], b"\x16\x03\x01\x00\x05junk!", &[0; 70_000], b""] {
        let mut plain = Connection::open(service.public);
        plain.try_send(bytes);
        if bytes.is_empty() {
            plain.finish_sending();
        }
        // An alert at most, and nothing of an answer.
        let received = plain.rest();
        assert!(received.len() <= 7 && !received.starts_with(b"HTTP"), "{received:?}");
        open.send(lookup(PHONE, &token));
        assert_eq!(open.reply().status, 200);
    }
    eventually("all are counted", || handshakes(&service) == [1, 4, 0]);
    assert_eq!(service.logged("WARN"), [""; 0], "failed handshakes are counted, not logged");
}

#[test]
fn a_handshake_that_does_not_end_is_closed_at_the_deadline_of_the_first_request() {
    let (service, token) = serve(&format!("{CONFIG}[limits]\nhead_timeout = \"3s\"\n"));
    // Nothing, a part of a first message, and a whole first message without what has to follow.
    let mut hello = Vec::new();
    let name = rustls::pki_types::ServerName::try_from("localhost").expect("a name");
    let config = std::sync::Arc::new(Client::of(&service.site).into_config());
    let mut session = rustls::ClientConnection::new(config, name).expect("a client");
    session.write_tls(&mut hello).expect("writes");
    let mut stuck: Vec<Connection> = (0..90)
        .map(|number| {
            let mut connection = Connection::open(service.public);
            connection.send(&hello[..[0, 20, hello.len()][number % 3]]);
            connection
        })
        .collect();
    // They hold nobody up.
    let mut other = connect(&service);
    other.send(lookup(PHONE, &token));
    assert_eq!(other.reply().status, 200);
    // The handshake is done, and the request does not come.
    let mut silent = connect(&service);
    silent.send("POST /api/fetch");
    assert!(silent.is_closed());
    for connection in &mut stuck {
        connection.rest();
    }
    eventually("all are counted", || handshakes(&service) == [2, 0, 90]);
}

#[test]
fn pipelined_requests_and_bodies_in_pieces_are_answered_over_tls() {
    let (service, token) = serve(&format!("{CONFIG}[limits]\nbody_bytes = 2000\n"));
    let mut connection = connect(&service);
    connection.send(lookup(PHONE, &token).repeat(50));
    for _ in 0..50 {
        let reply = connection.reply();
        assert_eq!((reply.status, &reply.json()["phoneNumber"]), (200, &ADA_PHONE.into()));
    }
    for part in lookup(EMAIL, &token).chunks(7) {
        connection.send(part);
    }
    assert_eq!(connection.reply().status, 200);
    let body = profile_body(ADA);
    let head = head(&token, "Content-Type: application/json\r\n");
    connection.send(format!("{head}Content-Length: {}\r\nExpect: 100-continue\r\n\r\n", body.len()));
    assert_eq!(connection.reply().status, 100);
    connection.send(&body);
    assert_eq!(connection.reply().status, 200);
    connection.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n"));
    for part in body.as_bytes().chunks(10) {
        connection.send(format!("{:x}\r\n{}\r\n", part.len(), String::from_utf8_lossy(part)));
    }
    connection.send("0\r\n\r\n");
    assert_eq!(connection.reply().status, 200);
    // Answers that are larger than what is buffered.
    connection.send(Request::get("/openapi.json").bytes().repeat(40));
    let first = connection.reply();
    assert!(first.status == 200 && first.body.len() > 10_000, "{}", first.body.len());
    for _ in 1..40 {
        assert_eq!(connection.reply().body, first.body);
    }
    // A client that is still sending can read why it was refused, and that the connection is closed.
    connection.send(format!("{head}Content-Length: 900000\r\n\r\n{}", "x".repeat(100_000)));
    let refused = connection.reply();
    assert_eq!((refused.status, refused.header("connection")), (413, Some("close")));
    assert!(connection.is_closed());
}

/// Moves a certificate and its key, or one of them, over those in use.
fn replace(site: &Site, name: &str, parts: &[&str]) {
    for part in parts {
        let new = site.path(&format!("{name}.{part}.new"));
        std::fs::copy(site.path(&format!("{name}.{part}")), &new).expect("copies");
        std::fs::rename(new, site.path(&format!("server.{part}"))).expect("moves");
    }
}

#[test]
fn new_files_are_taken_over_without_a_signal_once_they_fit_and_open_connections_go_on() {
    let (service, token) = serve(CONFIG);
    let site = &service.site;
    let ask = |connection: &mut TlsConnection| {
        connection.send(lookup(PHONE, &token));
        assert_eq!(connection.reply().status, 200);
    };
    let old = certificate(site, "server.pem");
    let old_ends = ends(site, "server.pem");
    let mut open = connect(&service);
    assert_eq!(open.shown(), old);
    make_certificate(site, "next", 25);
    let next = certificate(site, "next.pem");

    replace(site, "next", &["pem"]);
    let warning = format!(
        "the certificate has changed and cannot be used, so the one that ends {old_ends} stays in use: the key in server.key \
         does not belong to the certificate in server.pem; if that file has several certificates, that of this server must be \
         the first"
    );
    eventually("it says that the key does not fit", || service.logged("WARN") == [warning.clone()]);
    assert_eq!(connect(&service).shown(), old);
    replace(site, "next", &["key"]);
    eventually("new connections get the new certificate", || connect(&service).shown() == next);
    ask(&mut open);
    ask(&mut connect(&service));
    let expected = format!(
        "the certificate has changed; new connections get the new one, which ends {}",
        ends(site, "next.pem")
    );
    eventually("it says so", || service.logged("INFO").contains(&expected));
    let epoch = openssl(site, "x509 -in next.pem -noout -enddate -dateopt iso_8601");
    let unix =
        Command::new("date").args(["-u", "+%s", "-d", epoch.trim().trim_start_matches("notAfter=")]).output();
    let unix: u64 =
        String::from_utf8_lossy(&unix.expect("date runs").stdout).trim().parse().expect("a number");
    assert_eq!(service.metric("contactd_tls_certificate_expires_seconds"), Some(unix));
    assert_eq!(service.logged("WARN"), [warning], "once for the change, not at every look");
}

#[test]
fn sighup_takes_over_a_certificate_at_once_and_a_pair_that_does_not_fit_changes_nothing() {
    let (service, token) = serve(CONFIG);
    let site = &service.site;
    let reload = |config: &str, count: usize| crate::running::reload(&service, config, count);
    let mut open = connect(&service);
    assert_eq!(reload(CONFIG, 1), ["INFO reloaded: no setting has changed"]);

    make_certificate(site, "next", 25);
    let other = CONFIG.replace("server.", "next.");
    let reloaded =
        format!("INFO reloaded: tls.cert, tls.key, the certificate, which ends {}", ends(site, "next.pem"));
    assert_eq!(reload(&other, 1), [reloaded]);
    assert_eq!(connect(&service).shown(), certificate(site, "next.pem"));
    open.send(lookup(PHONE, &token));
    assert_eq!(open.reply().status, 200);

    let unfit = "ERROR cannot reload, nothing has changed: tls.key: the key in other.key does not belong to the certificate in \
                 next.pem; if that file has several certificates, that of this server must be the first";
    let config = format!("{}[networks]\nxing = false\n", other.replace("next.key", "other.key"));
    assert_eq!(reload(&config, 1), [unfit]);
    let half = "ERROR cannot reload, nothing has changed: a certificate needs its key: set `key` under [tls] too, or --tls-key";
    assert_eq!(reload("[tls]\ncert = \"next.pem\"\n", 1), [half]);
    assert_eq!(connect(&service).shown(), certificate(site, "next.pem"));

    // Without TLS, it would be another kind of listener.
    let restart = "WARN changed in the configuration, but needs a restart: tls.cert, tls.key";
    assert_eq!(reload("", 2), ["INFO reloaded: no setting has changed", restart]);
    assert_eq!(connect(&service).shown(), certificate(site, "next.pem"));
}

#[test]
fn the_admin_listener_has_tls_too_unless_it_is_switched_off() {
    let (service, _) = serve(CONFIG);
    service.has_logged(format!("listening on https://{} ", service.public));
    service.has_logged(format!("(documentation at https://{}/docs)", service.public));
    service.has_logged(format!("admin on https://{} ", service.admin));
    let mut connection = Client::of(&service.site).connect(service.admin).expect("a handshake");
    assert_eq!(connection.shown(), certificate(&service.site, "server.pem"));
    let reply = connection.ask(&Request::get("/metrics"));
    assert_eq!(reply.status, 200);
    assert!(reply.body.contains("contactd_tls_handshakes_total{outcome=\"ok\"} 0\n"), "{}", reply.body);
    // No other name below the same domain can give the browser this cookie.
    let password = service.site.ok(&["user", "create", "ada", "--role", "admin"]);
    let login = format!(r#"{{"name":"ada","password":"{password}"}}"#);
    let request = |method, path: &str| Request::new(method, &format!("/admin/api/v1{path}"));
    let json = request("POST", "/session").header("Content-Type", "application/json");
    let reply = connection.ask(&json.body(login));
    let cookie = reply.header("Set-Cookie").expect("a cookie");
    let (pair, attributes) = cookie.split_once(';').expect("attributes");
    assert_eq!(attributes, " Path=/; HttpOnly; SameSite=Strict; Secure");
    let plain = pair.strip_prefix("__Host-").expect("the prefix");
    for (cookie, status) in [(pair, 200), (plain, 401)] {
        assert_eq!(connection.ask(&request("GET", "/session").header("Cookie", cookie)).status, status);
    }
    // Half a handshake is closed, and plain HTTP.
    let mut stuck = Connection::open(service.admin);
    stuck.send(b"\x16\x03\x01");
    let mut plain = Connection::open(service.admin);
    plain.send(Request::get("/metrics").bytes());
    for connection in [&mut plain, &mut stuck] {
        let received = connection.rest();
        assert!(received.len() <= 7, "{received:?}");
    }

    let (service, _) = serve(&format!("{CONFIG}admin = false\n"));
    service.has_logged(format!("listening on https://{} ", service.public));
    service.has_logged(format!("admin on http://{} ", service.admin));
    connect(&service);
    eventually("it is counted", || handshakes(&service) == [1, 0, 0]);
}

#[test]
fn a_graceful_stop_answers_the_current_request_over_tls_and_tells_clients_that_it_closes() {
    let (mut service, token) = serve(CONFIG);
    let body = profile_body(ADA);
    let (mut slow, mut idle) = (connect(&service), connect(&service));
    idle.send(lookup(PHONE, &token));
    assert_eq!(idle.reply().status, 200);
    slow.send(head(&token, &format!("Content-Length: {}\r\n\r\n", body.len())));
    service.signal(Signal::TERM);
    eventually("it is stopping", || service.log.text().contains("is stopping"));
    // The end of the stream would be an error if the server had not announced it.
    assert!(idle.is_closed());
    slow.send(&body);
    let reply = slow.reply();
    assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
    assert!(slow.is_closed());
    assert_eq!(service.wait(), 0);
}

#[test]
fn files_that_cannot_be_used_are_reported_with_the_line_of_their_setting() {
    let site = Site::with_people();
    make_certificates(&site);
    crate::transcript::check(&site, "tls_files");
}

#[test]
fn doctor_and_the_log_warn_before_a_certificate_ends_and_when_it_has_ended() {
    let mut site = Site::with_people();
    make_certificates(&site);
    let token = site.token(&[]);
    let advice = "renew it; a running server takes over the new files by itself";
    for (days, verdict, code, words) in [
        (20, "ok", 0, "server.pem ends {}"),
        (3, "warn", 0, "the certificate in server.pem ends {}, in 2 days"),
        (-1, "fail", 1, "the certificate in server.pem ended {}: clients refuse it"),
    ] {
        make_certificate(&site, "server", days);
        let words = words.replace("{}", &ends(&site, "server.pem"));
        let file = site.file("c.toml", CONFIG);
        let doctor = site.run(&["doctor", "--json", "--config", &file]);
        let expected = match verdict {
            "ok" => json!({"check": "certificate", "verdict": verdict, "message": words}),
            _ => finding("certificate", verdict, &words, advice),
        };
        finds(&doctor, code, &expected);
        let service = site.serve_with(&[], &format!("{CONFIG}admin = false\n"));
        if verdict == "ok" {
            assert_eq!(service.logged("WARN"), [""; 0]);
        } else {
            let warning = format!("{words}; {advice}");
            eventually("it warns", || service.logged("WARN") == [warning.clone()]);
        }
        if verdict != "fail" {
            let mut connection = connect(&service);
            connection.send(lookup(PHONE, &token));
            assert_eq!(connection.reply().status, 200);
        }
        site = service.stop();
    }
    make_certificate(&site, "server", 20);
    std::fs::set_permissions(site.path("server.key"), PermissionsExt::from_mode(0o640)).expect("sets");
    let file = site.file("c.toml", CONFIG);
    let doctor = site.run(&["doctor", "--json", "--config", &file]);
    let advice = "chmod 600 server.key, unless the group has to read it";
    finds(&doctor, 0, &finding("certificate", "warn", "the group can read server.key", advice));
    let service = site.serve_with(&[], CONFIG);
    assert_eq!(
        service.logged("WARN"),
        ["the group can read server.key; unless it has to, run `chmod 600 server.key`"]
    );
}

#[test]
fn a_demo_with_a_certificate_prints_commands_that_work() {
    let site = Site::empty();
    make_certificates(&site);
    let flags = ["--listen", "127.0.0.1:0", "--tls-cert", "server.pem", "--tls-key", "server.key"];
    let mut demo = Demo::start(site, &flags);
    assert!(demo.commands[0].starts_with("curl -sS --insecure https://127.0.0.1:"), "{:?}", demo.commands);
    let found = format!(r#"{{"phoneNumber":"{ADA_PHONE}","profileUrl":"{ADA_CANONICAL}"}}"#);
    assert_eq!(demo.run(0), found);
    assert_eq!(
        [demo.run(3).trim_end(), demo.run(4).trim_end()],
        [found.as_str(); 2],
        "from Python and JavaScript"
    );
    demo.stop();
}
