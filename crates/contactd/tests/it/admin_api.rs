//! A client of the admin API, for tests.

use serde_json::Value;

use crate::http::{Connection, Reply, Request};
use crate::service::{Service, eventually};

/// Where the API is.
pub(crate) const BASE: &str = "/admin/api/v1";

/// A caller with an admin token.
pub(crate) struct AdminApi<'a> {
    service: &'a Service,
    token: String,
}

impl<'a> AdminApi<'a> {
    /// A caller with a new admin token of this role; the first one has the name of the role.
    pub(crate) fn with_role(service: &'a Service, role: &str) -> Self {
        let token = service.site.issue("admin-token", role, &["--role", role]);
        Self { service, token }
    }

    /// The caller with this token, on a service that was started again.
    pub(crate) fn with_token_of(service: &'a Service, token: &str) -> Self {
        Self { service, token: token.to_owned() }
    }

    pub(crate) fn secret(&self) -> &str {
        &self.token
    }

    /// A request with the token.
    pub(crate) fn with_token(&self, request: Request) -> Request {
        request.token(&self.token)
    }

    /// Downloads a file that is sent in parts.
    pub(crate) fn get_file(&self, path: &str) -> String {
        let reply = self.download(path);
        assert_eq!(reply.status, 200, "{}", reply.shown());
        reply.body
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send(Request::new("GET", &format!("{BASE}{path}")))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        let request = Request::new("POST", &format!("{BASE}{path}"));
        self.send(request.header("Content-Type", "application/json").body(body.to_string()))
    }

    /// Posts a text.
    pub(crate) fn post_text(&self, path: &str, text: &str) -> Reply {
        let request = Request::new("POST", &format!("{BASE}{path}"));
        self.send(request.header("Content-Type", "text/plain; charset=utf-8").body(text))
    }

    /// Sends a request of any kind with the token.
    pub(crate) fn send(&self, request: Request) -> Reply {
        self.service.ask_admin(&request.token(&self.token))
    }

    /// A whole file, however it is sent.
    pub(crate) fn download(&self, path: &str) -> Reply {
        let request = Request::new("GET", &format!("{BASE}{path}")).header("Connection", "close");
        let mut connection = Connection::open(self.service.admin);
        connection.send(request.token(&self.token).bytes());
        let mut reply = connection.reply_to_head();
        let mut rest = connection.rest();
        if reply.header("transfer-encoding") == Some("chunked") {
            rest = unchunked(&rest);
        }
        reply.body = String::from_utf8(rest).expect("UTF-8");
        reply
    }

    /// Starts a job, and gives it when it has ended.
    pub(crate) fn job(&self, path: &str, body: &Value) -> Value {
        self.ended(&self.post(path, body))
    }

    /// What a call leads to that is answered at once, or with a job if the machine is slow.
    pub(crate) fn done(&self, path: &str, body: &Value) -> Value {
        let reply = self.post(path, body);
        if reply.status == 202 {
            return self.ended(&reply)["result"].clone();
        }
        assert_eq!(reply.status, 200, "{}", reply.shown());
        reply.json()
    }

    /// Waits until the job that was started by this reply has ended, and gives it.
    pub(crate) fn ended(&self, started: &Reply) -> Value {
        assert_eq!(started.status, 202, "{}", started.shown());
        let id = started.json()["id"].as_str().expect("an id").to_owned();
        let mut job = Value::Null;
        eventually("the job has ended", || {
            job = self.get(&format!("/jobs/{id}")).json();
            job["state"] != "running"
        });
        job
    }
}

/// The content of a chunked body, which has to be complete.
fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        let end = body.windows(2).position(|bytes| bytes == b"\r\n").expect("the length of a chunk");
        let length = std::str::from_utf8(&body[..end]).expect("a number");
        let length = usize::from_str_radix(length, 16).expect("a number");
        if length == 0 {
            return content;
        }
        content.extend_from_slice(&body[end + 2..end + 2 + length]);
        body = &body[end + 2 + length + 2..];
    }
}
