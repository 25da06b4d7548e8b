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
            "\npublic_url = \"contacts.example.com\"\n",
            "line 2",
            "`contacts.example.com` is not a public URL: write it like https://contacts.example.com or https://example.com/contacts",
        ),
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
fn a_server_with_settings_of_a_cluster_wants_a_store() {
    let site = Site::empty();
    let file = site.file("cluster.toml", "[cluster]\nname = \"node-1\"\n");
    let serve = ["serve", "--config", &file, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    for (args, code, begin) in [
        (&serve[..], 2, String::new()),
        (&["config", "check", "--config", &file], 1, format!("{file}, line 2: cluster.name: ")),
    ] {
        let refused = site.run_with(args, "", &[("CONTACTD_STORE", "")]);
        let words = format!("{begin}there are settings under [cluster], but no store: ");
        assert!(
            refused.code == code && format!("{}{}", refused.stdout, refused.stderr).contains(&words),
            "{refused:?}"
        );
    }
    assert!(!site.data().join("contactd.db").exists());
    for (args, store) in [("config", "sqlite"), ("config", "postgres://contactd@127.0.0.1/contacts")] {
        let checked = site.run_with(&[args, "check", "--config", &file], "", &[("CONTACTD_STORE", store)]);
        assert_eq!(checked.code, 0, "{checked:?}");
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
    run(&["token", "create", "crm"], &[]);
    assert!(made("from-file") && !made("contactd-data"));
    run(&["token", "create", "crm"], &[("CONTACTD_DATA", "from-env")]);
    assert!(made("from-env"));
    run(&["token", "create", "crm", "--data", "from-flag"], &[("CONTACTD_DATA", "from-env-2")]);
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
fn a_store_that_cannot_be_used_is_refused_and_its_password_is_never_shown() {
    let site = Site::empty();
    let secret = "open-sesame";
    let config = site.file(
        "cluster.toml",
        format!("data = \"d\"\nstore = \"postgres://olga:{secret}@db.example.com/contacts\"\n[cluster]\nlease = \"1h\"\n"),
    );
    let no_database = format!("postgres://olga:{secret}@localhost");
    let elsewhere = "the database is on another machine: say in the URL of the store how to check that it is the right one, with \
                     sslrootcert=FILE (certificates in PEM), or sslmode=disable if the network is safe";
    for (args, env, code, stderr) in [
        (
            vec!["stats", "--store", &no_database],
            vec![],
            2,
            "contactd: --store: the URL of the store has no database\n".to_owned(),
        ),
        (
            vec!["stats"],
            vec![("CONTACTD_STORE", no_database.as_str())],
            2,
            "contactd: --store: the URL of the store has no database\n".to_owned(),
        ),
        (
            vec!["stats", "--store", "mysql://localhost/contacts"],
            vec![],
            2,
            "contactd: --store: use sqlite, which keeps its files in the data directory, or \
             postgres://USER@HOST/DATABASE\n"
                .to_owned(),
        ),
        (
            vec!["config", "check", "--config", &config],
            vec![("CONTACTD_STORE", "")],
            1,
            format!(
                "contactd: {config}, line 2: store: {elsewhere}\n\
                 contactd: {config}, line 4: cluster.lease: `1h` is not possible; use one second to ten minutes, such as 60s\n\
                 2 errors\n"
            ),
        ),
        (vec!["stats", "--help"], vec![("CONTACTD_STORE", no_database.as_str())], 0, String::new()),
    ] {
        let output = site.run_with(&args, "", &env);
        assert_eq!(output.code, code, "{args:?}: {output:?}");
        assert!(!format!("{output:?}").contains(secret), "{args:?}: {output:?}");
        if code != 0 {
            let said = format!("{}{}", output.stdout, output.stderr);
            assert!(said.ends_with(&stderr), "{args:?}: {said} instead of {stderr}");
        }
    }
}

#[test]
fn a_file_with_which_the_service_would_not_start_is_not_called_good() {
    let site = Site::empty();
    let file = site.file("remote.toml", "[serve]\nadmin_listen = \"0.0.0.0:8081\"\n");
    let checked = site.run(&["config", "check", "--config", &file]);
    assert_eq!(
        (checked.code, checked.stderr),
        (
            1,
            format!(
                "contactd: {file}, line 2: serve.admin_listen: --admin-listen 0.0.0.0:8081 can be reached from other \
                 machines, and its /metrics asks for no password. Choose a loopback address such as \
                 127.0.0.1:8081, or set `allow_remote = true` under [admin] in the configuration file\n1 error\n"
            )
        )
    );
}

#[test]
fn a_check_reports_every_error_with_its_line_and_a_suggestion() {
    let site = Site::empty();
    let file = site.file(
        "bad.toml",
        "dta = \"x\"\n\
         store = 5\n\
         [serve]\n\
         lissten = \"127.0.0.1:8080\"\n\
         workers = 0\n\
         admin_listen = \"here\"\n\
         [limits]\n\
         rate = \"fast\"\n\
         connections = \"many\"\n\
         [sreve]\n\
         listen = \"127.0.0.1:8080\"\n\
         [audit]\n\
         keep = \"0d\"\n\
         [[network]]\n\
         name = \"one\"\n\
         route = \"/in\"\n\
         colour = \"red\"\n\
         [[network]]\n\
         name = \"xing\"\n\
         host = \"people.example.com\"\n\
         route = \"/in/{slug}\"\n",
    );
    let checked = site.run(&["config", "check", "--config", &file]);
    let expected = [
        "line 1: dta: there is no such setting; did you mean `data`?",
        "line 2: store: invalid type: integer `5`, expected a string",
        "line 4: serve.lissten: there is no such setting; did you mean `listen`?",
        "line 5: serve.workers: 0 is too small; it must be at least 1",
        "line 6: serve.admin_listen: `here` is not an address to listen on: write it like 127.0.0.1:8080",
        "line 8: limits.rate: write a rate like 50/s, 600/m or 1000/h",
        "line 9: limits.connections: invalid type: string \"many\", expected a whole number",
        "line 10: sreve: there is no such setting; did you mean `serve`?",
        "line 13: audit.keep: `0d` would keep nothing; use never to keep everything",
        "line 14: network: `host` is missing",
        "line 16: network.route: `/in` is not a route: write it like /in/{slug}, with {slug} last",
        "line 17: network.colour: there is no such setting; there are name, host, route, more_routes, subdomains, \
         country_subdomains, case_sensitive, reserved",
        "line 18: network: `xing` is described twice",
    ];
    let expected: String = expected.iter().map(|error| format!("contactd: {file}, {error}\n")).collect();
    assert_eq!((checked.code, checked.stderr), (1, format!("{expected}13 errors\n")));

    let json = site.run(&["config", "check", "--config", &file, "--json"]);
    assert_eq!((json.code, json.json().as_array().map(Vec::len)), (1, Some(13)));
    assert_eq!(
        json.json()[5],
        serde_json::json!({
            "file": file,
            "line": 8,
            "setting": "limits.rate",
            "message": "write a rate like 50/s, 600/m or 1000/h",
        })
    );
    let used = site.run(&["stats", "--config", &file]);
    assert_eq!(
        (used.code, used.stderr),
        (
            1,
            format!(
                "contactd: {file}, line 1: dta: there is no such setting; did you mean `data`? (and 12 more: \
                 `contactd config check` lists them)\n"
            )
        )
    );
}

#[test]
fn a_check_finds_errors_of_syntax_and_of_the_environment_too() {
    let site = Site::empty();
    let file =
        site.file("bad.toml", "[serve]\nlisten = \"127.0.0.1:8080\nworkers = 2\n[log]\nlevel = \"loud\"\n");
    let checked = site.run(&["config", "check", "--config", &file, "--json"]);
    let lines: Vec<u64> =
        checked.json().as_array().expect("a list").iter().filter_map(|e| e["line"].as_u64()).collect();
    assert_eq!((checked.code, lines), (1, vec![2, 5]), "{}", checked.stdout);
    let env = site.run_with(&["config", "check"], "", &[("CONTACTD_LISTEN", "there")]);
    assert_eq!(
        (env.code, env.stderr.as_str()),
        (
            1,
            "contactd: the environment: invalid value 'there' for '--listen <ADDRESS>': `there` is not an address to \
             listen on: write it like 127.0.0.1:8080\n1 error\n"
        )
    );
}

#[test]
fn a_check_without_errors_says_which_settings_come_from_where() {
    let site = Site::empty();
    let file = site.file(
        "good.toml",
        "data = \"elsewhere\"\n[serve]\nlisten = \"127.0.0.1:9000\"\nworkers = 2\n[limits]\nrate = \"50/s\"\n",
    );
    let env = [("CONTACTD_LISTEN", "127.0.0.1:9001"), ("CONTACTD_LOG_LEVEL", "debug")];
    let checked = site.run_with(&["config", "check", "--config", &file, "--store", "sqlite"], "", &env);
    assert_eq!(
        (checked.code, checked.stderr),
        (
            0,
            format!(
                "{file} has no errors\nfrom flags: store\nfrom the environment: data, serve.listen, log.level\n\
                 from the file: serve.workers, limits.rate\neverything else has its default\n"
            )
        )
    );
    let json = site.run(&["config", "check", "--config", &file, "--json"]);
    assert_eq!((json.code, json.stdout.as_str(), json.stderr.as_str()), (0, "[]\n", ""));
    let none = site.run(&["config", "check"]);
    assert_eq!(
        (none.code, none.stderr.as_str()),
        (0, "there is no configuration file\nfrom the environment: data\neverything else has its default\n")
    );
}

#[test]
fn every_wrong_element_of_a_list_is_reported() {
    let site = Site::empty();
    let file = site.file(
        "c.toml",
        "[cors]\nallow_origins = [\n  \"*\",\n  \"https://app.example.com\",\n  \"https://App.example.com/\",\n]\n",
    );
    let checked = site.run(&["config", "check", "--config", &file, "--json"]);
    let errors = checked.json();
    let lines: Vec<_> =
        errors.as_array().expect("a list").iter().map(|error| error["line"].clone()).collect();
    assert_eq!((checked.code, lines), (1, vec![3.into(), 5.into()]), "{errors}");
}
