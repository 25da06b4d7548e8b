//! `contactd mcp`: the Model Context Protocol over standard input and output, for agents that start their servers as programs.
//!
//! Each line is a message. It goes to `/mcp` of a running service, and what comes back is a line of the output. The service decides
//! everything; this program adds the headers that the protocol has over HTTP.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use serde_json::{Map, Value, json};

use crate::cli::ServiceArgs;
use crate::client::Client;
use crate::output;

const VERSION_IN_META: &str = "io.modelcontextprotocol/protocolVersion";

/// The code of errors that are not the service's: it could not be reached, or something before it has answered.
const BAD_GATEWAY: u16 = 502;

pub(crate) fn run(args: &ServiceArgs) -> anyhow::Result<ExitCode> {
    let mut relay = Relay { client: Client::new(args)?, agreed: None };
    let mut line = Vec::new();
    let mut input = io::stdin().lock();
    while input.read_until(b'\n', &mut line)? > 0 {
        if let Some(answer) = relay.pass_on(&String::from_utf8_lossy(&line)) {
            let mut out = io::stdout().lock();
            writeln!(out, "{answer}")?;
            out.flush()?;
        }
        line.clear();
    }
    Ok(ExitCode::SUCCESS)
}

struct Relay {
    client: Client,
    /// The version that the service has named in answer to `initialize`: clients name it there and not again.
    agreed: Option<String>,
}

impl Relay {
    /// The answer to a message, if it has one.
    fn pass_on(&mut self, line: &str) -> Option<Value> {
        let line = line.trim();
        if line.is_empty() {
            return None;
        }
        // What is no message is passed on as well: the service says what is wrong.
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        let is_notification = message.is_object() && message.get("id").is_none();
        let answer = match self.client.send_message(line, &self.headers(&message)) {
            Ok((_, body)) if is_notification && body.is_empty() => return None,
            Ok((status, body)) => read(status, &body),
            Err(error) => Err(format!("{error:#}")),
        };
        if is_notification {
            let why =
                answer.map_or_else(|why| why, |answer| Value::from(answer)["error"]["message"].to_string());
            output::words(format_args!("contactd: a notification was not taken: {why}"));
            return None;
        }
        let answer = answer.unwrap_or_else(|why| {
            let error = json!({ "code": BAD_GATEWAY, "message": why });
            Map::from_iter([("error".to_owned(), error)])
        });
        Some(self.finished(&message, answer))
    }

    fn headers(&self, message: &Value) -> Vec<(&'static str, String)> {
        let text = |value: &Value| value.as_str().filter(|text| is_plain(text)).map(str::to_owned);
        let in_message = text(&message["params"]["_meta"][VERSION_IN_META]);
        let version = in_message.or_else(|| self.agreed.clone()).map(|it| ("MCP-Protocol-Version", it));
        let method = text(&message["method"]).map(|it| ("Mcp-Method", it));
        let name = text(&message["params"]["name"]).map(|it| ("Mcp-Name", it));
        [version, method, name].into_iter().flatten().collect()
    }

    /// An answer as it is written. One that was given before the message was read has no id.
    fn finished(&mut self, message: &Value, mut answer: Map<String, Value>) -> Value {
        if message["method"] == "initialize"
            && let Some(version) = answer.get("result").and_then(|result| result["protocolVersion"].as_str())
        {
            self.agreed = Some(version.to_owned());
        }
        answer.insert("jsonrpc".to_owned(), "2.0".into());
        if let Some(id) = message.get("id").filter(|id| id.is_string() || id.is_number()) {
            answer.entry("id").or_insert_with(|| id.clone());
        }
        Value::Object(answer)
    }
}

/// Whether a header can have this value. Another one would not be the name of anything.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b' '..=b'~'))
}

/// The answer of the service; or what is said if it is not one.
fn read(status: u16, body: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(body) {
        Ok(Value::Object(answer)) if answer.contains_key("jsonrpc") => Ok(answer),
        _ => Err(format!(
            "no answer of the Model Context Protocol, but HTTP {status}; does --url lead to the service?"
        )),
    }
}
