//! The API description and the documentation page, as served.

use contactd_contract::openapi;

use crate::demo::Demo;
use crate::http::{Reply, Request};
use crate::service::{Service, Site};

#[test]
fn each_version_of_the_description_is_served_in_both_forms() {
    let (service, _) = Service::with_people();
    for (name, version, document) in
        [("openapi", "1.0.0", openapi::V1_0), ("openapi-1.1", "1.1.0", openapi::V1_1)]
    {
        let json = service.send(&Request::get(&format!("/{name}.json")));
        assert_eq!((json.status, json.header("content-type")), (200, Some("application/json")));
        assert_eq!(json.body, document.json);
        assert_eq!(
            (json.json()["openapi"].as_str(), json.json()["info"]["version"].as_str()),
            (Some("3.1.0"), Some(version))
        );
        let yaml = service.send(&Request::get(&format!("/{name}.yaml")));
        assert_eq!((yaml.status, yaml.header("content-type")), (200, Some("application/yaml")));
        assert_eq!(yaml.body, document.yaml);
    }
}

#[test]
fn the_server_of_the_description_is_the_public_url_if_there_is_one() {
    let url = "https://contacts.example.com/base";
    let file = format!("public_url = \"{url}/\"\n");
    for (flags, config, env, expected, page) in [
        (&["--public-url", url][..], "", &[][..], url, "/base/docs"),
        (&[], file.as_str(), &[], url, "/base/docs"),
        (&["--base-path", "/inside"], "", &[("CONTACTD_PUBLIC_URL", url)], url, "/base/docs"),
        (&["--public-url", "http://127.0.0.1:8080"], &file, &[], "http://127.0.0.1:8080", "/docs"),
        (&[], "", &[], "/", "/docs"),
    ] {
        let service = Site::empty().serve_in(flags, config, env);
        let base = if flags.contains(&"--base-path") { "/inside" } else { "" };
        let json = service.send(&Request::get(&format!("{base}/openapi.json"))).json();
        assert_eq!(json["servers"], serde_json::json!([{ "url": expected }]), "{flags:?} {config}");
        let yaml = service.send(&Request::get(&format!("{base}/openapi.yaml"))).body;
        assert!(yaml.contains(&format!("\nservers:\n- url: {expected}\n")), "{flags:?} {config}");
        assert_eq!(service.send(&Request::get(&format!("{base}/"))).header("location"), Some(page));
    }
}

/// What a tool does that knows nothing but the description.
#[test]
fn a_demo_answers_every_example_of_its_description_as_the_description_says() {
    let demo = Demo::start_with_public_url("");
    let document = demo.send(&Request::get("/openapi-1.1.json")).json();
    assert_eq!(document["servers"][0]["url"], format!("http://{}", demo.address));
    let mut sent = 0;
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            let found = &operation["responses"]["200"]["content"]["application/json"]["examples"];
            let found: Vec<_> =
                found.as_object().expect("examples").values().map(|one| &one["value"]).collect();
            let content = &operation["requestBody"]["content"]["application/json"];
            let schema = content["schema"]["$ref"].as_str().and_then(|at| document.pointer(&at[1..]));
            let bodies = content["examples"].as_object().into_iter().flat_map(|all| all.values());
            let bodies = bodies.map(|example| &example["value"]);
            let of_schema =
                schema.into_iter().flat_map(|schema| schema["examples"].as_array().expect("examples"));
            let mut requests: Vec<Request> = bodies
                .chain(of_schema)
                .map(|body| Request::lookup(path, body.to_string()).token(&demo.token))
                .collect();
            if method == "get" {
                requests.push(Request::get(path));
            }
            assert!(!requests.is_empty(), "{path} has no example");
            for request in requests {
                let reply = demo.send(&request);
                assert_eq!((reply.status, vec![&reply.json()]), (200, found.clone()), "{path}");
                sent += 1;
            }
        }
    }
    assert_eq!(sent, 8);
}

#[test]
fn the_page_loads_nothing_from_other_hosts() {
    let (service, _) = Service::with_people();
    let page = service.send(&Request::get("/docs"));
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(
        page.header("content-security-policy").is_some_and(|policy| policy.starts_with("default-src 'none'"))
    );
    let links = page.body.replace("xmlns='http://www.w3.org/2000/svg'", "");
    assert!(!links.contains("http://") && !links.contains("https://"), "{links}");
    assert_eq!(
        service.send(&Request::get("/docs/app.js")).header("content-type"),
        Some("text/javascript; charset=utf-8")
    );
    assert_eq!(
        service.send(&Request::get("/docs/style.css")).header("content-type"),
        Some("text/css; charset=utf-8")
    );
}

/// What a browser loads before it shows the page: it gets each file compressed once, and then only hears that nothing has changed.
#[test]
fn the_page_is_compressed_and_browsers_keep_it() {
    let (service, _) = Service::with_people();
    let files = ["/docs", "/docs/style.css", "/docs/app.js", "/openapi.json"];
    let weight = weight_of_kept(&files, |request| service.send(request));
    assert!(weight < 40_000, "{weight} bytes");
}

/// Fails unless these files are compressed for who accepts that, and kept. Gives their length as they are sent.
pub(crate) fn weight_of_kept(files: &[&str], send: impl Fn(&Request) -> Reply) -> usize {
    let mut weight = 0;
    for path in files {
        let (plain, packed) =
            (Request::get(path), Request::get(path).header("Accept-Encoding", "gzip, deflate, br"));
        let (plain, packed) = (send(&plain), send(&packed));
        let codings = (plain.header("content-encoding"), packed.header("content-encoding"));
        assert_eq!((codings, &packed.body), ((None, Some("gzip")), &plain.body), "{path}");
        assert_eq!(
            packed.header("vary").map(str::to_lowercase).as_deref(),
            Some("accept-encoding"),
            "{path}"
        );
        weight += packed.sent_length();
        let tag = packed.header("etag").expect("a tag");
        let again = send(&Request::get(path).header("Accept-Encoding", "gzip").header("If-None-Match", tag));
        assert_eq!((again.status, again.header("etag"), again.body.as_str()), (304, Some(tag), ""), "{path}");
        assert_eq!(send(&Request::get(path).header("If-None-Match", "\"old\"")).status, 200, "{path}");
    }
    weight
}

#[test]
fn the_root_leads_to_the_page() {
    let (service, _) = Service::with_people();
    let body = "{\"status\":\"temporary_redirect\",\"message\":\"The documentation is at /docs.\"}";
    let expected = format!(
        "307\ncache-control: no-store\ncontent-length: {}\ncontent-type: application/json\nlocation: /docs\n\n{body}",
        body.len()
    );
    assert_eq!(service.send(&Request::get("/")).shown(), expected);
    assert_eq!(service.send(&Request::get("/?x=1")).shown(), expected);
    let mut connection = service.connect();
    connection.send(Request::new("HEAD", "/").bytes());
    let head = connection.reply_to_head();
    assert_eq!((head.status, head.header("location"), head.body.as_str()), (307, Some("/docs"), ""));
    let posted = service.send(&Request::new("POST", "/").body(""));
    assert_eq!((posted.status, posted.header("allow")), (405, Some("GET, HEAD")));
}

#[test]
fn health_is_answered_in_json_and_to_head_without_a_body() {
    let (service, _) = Service::with_people();
    assert_eq!(service.send(&Request::get("/healthz")).body, "{\"status\":\"ok\"}");
    assert_eq!(service.send(&Request::get("/readyz")).body, "{\"status\":\"ready\"}");
    let mut connection = service.connect();
    connection.send(Request::new("HEAD", "/healthz").bytes());
    let head = connection.reply_to_head();
    assert_eq!((head.status, head.header("content-length"), head.body.as_str()), (200, Some("15"), ""));
    assert_eq!(connection.ask(&Request::get("/readyz")).status, 200, "the connection stays open after HEAD");
}
