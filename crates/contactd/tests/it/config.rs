//! Configuration: which setting takes precedence, and the messages for errors.

use crate::http::Request;
use crate::service::{PHONE, Site};

#[test]
fn the_example_is_valid_and_errors_are_reported_with_their_line() {
    let site = Site::empty();
    let example = site.ok(&["config", "example"]);
    let file = site.file("good.toml", example);
    assert_eq!(site.run(&["config", "check", "--config", &file]).code, 0);
    for (text, line, hint) in [
        ("\n[serve]\nlissten = \"x\"\n", "line 3", "lissten"),
        ("[limits]\n\n\nrate = \"fast\"\n", "line 4", "50/s"),
        ("[limits]\nbody_timeout = \"10\"\n", "line 2", "10"),
        ("data = \n", "line 1", ""),
        ("[serve]\nlisten = \"here\"\n", "line 2", "127.0.0.1:8080"),
        ("[limits]\nconnections = 0\n", "line 2", "at least 1"),
        (
            "\n[[network]]\nname = \"xing\"\nhost = \"p.example.com\"\nroute = \"/p/{slug}\"\n",
            "line 2",
            "described twice",
        ),
        ("[[network]]\nname = \"p\"\nhost = \"p.example.com\"\nroute = \"/p\"\n", "line", "{slug}"),
    ] {
        let file = site.file("bad.toml", text);
        let output = site.run(&["config", "check", "--config", &file]);
        assert_eq!(output.code, 1, "{text}");
        assert!(output.stderr.contains(line) && output.stderr.contains(hint), "{text}: {}", output.stderr);
    }
}

#[test]
fn a_flag_overrides_the_environment_and_the_environment_overrides_the_file() {
    let site = Site::empty();
    site.file("contactd.toml", "data = \"from-file\"\n");
    let made = |name: &str| site.path(name).exists();
    let run = |args: &[&str], env: &[(&str, &str)]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_contactd"))
            .args(args)
            .env_clear()
            .envs(env.iter().copied())
            .current_dir(site.path(""))
            .output()
            .expect("runs");
        assert!(output.status.success());
    };
    run(&["stats"], &[]);
    assert!(made("from-file") && !made("contactd-data"));
    run(&["stats"], &[("CONTACTD_DATA", "from-env")]);
    assert!(made("from-env"));
    run(&["stats", "--data", "from-flag"], &[("CONTACTD_DATA", "from-env-2")]);
    assert!(made("from-flag") && !made("from-env-2"));
}

#[test]
fn a_network_from_the_file_is_served_like_the_others() {
    let config = "[networks]\nxing = false\n[[network]]\nname = \"people\"\nhost = \"people.example.com\"\nroute = \"/in/{slug}\"\n";
    let site = Site::empty();
    let file = site.file("networks.toml", config);
    site.ok(&[
        "put",
        "https://people.example.com/in/Zoe-Quell",
        "--phone",
        "+14155550123",
        "--config",
        &file,
    ]);
    let token = site.token(&[]);
    let service = site.serve_with(&[], config);
    let reply = service.look_up(PHONE, &token, "www.people.example.com/in/zoe-quell?x");
    assert_eq!(reply.json()["profileUrl"], "https://people.example.com/in/zoe-quell");
    let off = service.look_up(PHONE, &token, "https://www.xing.com/profile/Zoe_Quell");
    assert_eq!((off.status, off.header("x-invalid-reason")), (400, Some("bad_host")));
}

#[test]
fn limits_from_the_file_are_applied() {
    let site = Site::with_people();
    let token = site.token(&[]);
    let service = site.serve_with(&[], "[limits]\nbody_bytes = 60\nprofile_url_chars = 40\n");
    let reply = service.look_up(PHONE, &token, "https://linkedin.com/in/ada-quell-1a2b3c4");
    assert_eq!((reply.status, reply.header("x-invalid-reason")), (400, Some("too_long")));
    let reply = service.send(&Request::lookup(PHONE, " ".repeat(61)).token(&token));
    assert_eq!(reply.status, 413);
}

#[test]
fn postgres_is_refused_with_a_clear_message() {
    let output = Site::empty().run(&["stats", "--store", "postgres://localhost/x"]);
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("SQLite only"), "{}", output.stderr);
}

#[test]
fn a_file_with_which_the_service_would_not_start_is_not_called_good() {
    let site = Site::empty();
    let file = site.file("remote.toml", "[serve]\nadmin_listen = \"0.0.0.0:8081\"\n");
    let checked = site.run(&["config", "check", "--config", &file]);
    assert!(checked.code == 2 && checked.stderr.contains("allow_remote = true"), "{checked:?}");
}
