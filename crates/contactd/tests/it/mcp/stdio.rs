//! `contactd mcp`: the same over standard input and output.

use serde_json::{Value, json};

use super::{AGENT, LEGACY, arguments, lines, message};
use crate::fixture::{ADA, ADA_PHONE};
use crate::service::{Output, Service, Site};

/// What the program says to these lines.
fn relay(site: &Site, url: &str, token: &str, lines: &[String]) -> (Vec<Value>, Output) {
    let input = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let said = site.run_with(&["mcp", "--url", url], input, &[("CONTACTD_TOKEN", token), ("NO_PROXY", "*")]);
    let answers =
        said.stdout.lines().map(|line| serde_json::from_str(line).expect("one message a line")).collect();
    (answers, said)
}

fn of(service: &Service) -> String {
    format!("http://{}", service.public)
}

fn sent(id: &Value, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

#[test]
fn an_agent_looks_somebody_up_in_either_version_and_ends_with_its_input() {
    let (service, token) = Service::with(&AGENT, "");
    let older = [
        sent(&json!("hello"), "initialize", &json!({ "protocolVersion": LEGACY, "capabilities": {} })),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string(),
        String::new(),
        sent(&json!(2), "tools/list", &json!({})),
        sent(&json!(3), "tools/call", &arguments("fetch_phone_number", ADA)),
        sent(&json!(4), "resources/list", &json!({})),
    ];
    let (answers, said) = relay(&service.site, &of(&service), &token, &older);
    said.says(0, "");
    let ids: Vec<_> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&json!("hello"), &json!(2), &json!(3), &json!(4)], "a notification has no answer");
    assert_eq!(answers[0]["result"]["protocolVersion"], LEGACY);
    assert_eq!(answers[2]["result"]["structuredContent"]["phoneNumber"], ADA_PHONE);
    assert_eq!(answers[3]["error"]["code"], -32601);
    let newer = [
        message("server/discover", &json!({})).to_string(),
        message("tools/call", &arguments("fetch_phone_number", ADA)).to_string(),
    ];
    let (answers, said) = relay(&service.site, &format!("{}/", of(&service)), &token, &newer);
    said.says(0, "");
    assert_eq!(answers[0]["result"]["resultType"], "complete");
    assert_eq!(answers[1]["result"]["structuredContent"]["phoneNumber"], ADA_PHONE);
    assert_eq!(lines(&service.site).iter().filter(|line| line[1..3] == ["mcp", "hit"]).count(), 2);
}

#[test]
fn what_is_wrong_is_an_answer_to_the_request_and_nothing_else_is_said() {
    let (service, token) = Service::with(&AGENT, "");
    let call = message("tools/call", &arguments("fetch_phone_number", ADA)).to_string();
    let (answers, said) = relay(&service.site, &of(&service), "ctd_unknown", std::slice::from_ref(&call));
    said.says(0, "");
    assert_eq!((&answers[0]["id"], &answers[0]["error"]["code"]), (&json!(1), &json!(401)));
    assert_eq!(answers[0]["error"]["message"], "No authorization found.");
    let odd = ["{", "[]", "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", "\"\u{e9}\u{2028}\""]
        .map(str::to_owned);
    let (answers, said) = relay(&service.site, &of(&service), &token, &odd);
    said.says(0, "");
    let codes: Vec<_> = answers.iter().map(|answer| answer["error"]["code"].as_i64()).collect();
    assert_eq!(codes, [Some(-32700), Some(-32600), Some(-32600), Some(-32600)]);
    let name = message("tools/call", &arguments("\n\u{e9}", ADA));
    let (answers, said) = relay(&service.site, &of(&service), &token, &[name.to_string()]);
    said.says(0, "");
    assert_eq!(answers[0]["error"]["code"], -32020, "no header can have such a name, and no tool has it");
}

#[test]
fn a_service_that_is_not_there_is_an_error_in_words() {
    let (service, token) = Service::with(&AGENT, "");
    let call = message("tools/list", &json!({})).to_string();
    let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
    let elsewhere = format!("{}/elsewhere", of(&service));
    let (answers, said) = relay(&service.site, &elsewhere, &token, std::slice::from_ref(&call));
    said.says(0, "");
    let error = json!({
        "code": 502,
        "message": "no answer of the Model Context Protocol, but HTTP 404; does --url lead to the service?",
    });
    assert_eq!(answers, [json!({ "jsonrpc": "2.0", "id": 1, "error": error })]);
    let gone = of(&service);
    let site = service.stop();
    let (answers, said) = relay(&site, &gone, &token, &[call, told]);
    said.mentions(0, "contactd: a notification was not taken: cannot reach ");
    assert_eq!(answers.len(), 1);
    let words = answers[0]["error"]["message"].as_str().expect("words");
    assert!(words.starts_with(&format!("cannot reach {gone}/mcp; is the service running there?")), "{words}");
    site.run(&["mcp"]).mentions(2, "--token <TOKEN>");
}
