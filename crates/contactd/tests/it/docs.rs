//! The API description and the documentation page, as served.

use crate::http::Request;
use crate::service::Service;

#[test]
fn the_description_is_served_in_both_forms() {
    let (service, _) = Service::with_people();
    let json = service.send(&Request::get("/openapi.json"));
    assert_eq!((json.status, json.header("content-type")), (200, Some("application/json")));
    assert_eq!(json.body, contactd_contract::openapi::JSON);
    assert_eq!(
        (json.json()["openapi"].as_str(), json.json()["info"]["version"].as_str()),
        (Some("3.1.0"), Some("1.0.0"))
    );
    let yaml = service.send(&Request::get("/openapi.yaml"));
    assert_eq!((yaml.status, yaml.header("content-type")), (200, Some("application/yaml")));
    assert_eq!(yaml.body, contactd_contract::openapi::YAML);
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
    connection.send(Request::get("/readyz").bytes());
    assert_eq!(connection.reply().status, 200, "the connection stays open after HEAD");
}
