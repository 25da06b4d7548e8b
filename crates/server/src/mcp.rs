//! `POST /mcp`: the Model Context Protocol, for agents. Each request is one message, and nothing is kept between two.
//!
//! A tool that looks somebody up does what the operation does, through the same [`Asker`]: scope, rate, quota, turn, line. What it
//! refuses is a result that a model can read.

mod fault;
mod message;
mod result;
mod tools;
mod version;

use std::time::{Duration, Instant};

use contactd_contract::{InvalidReason, Operation};
use contactd_core::store::LocalRead;
use contactd_core::{Asked, Caller, Networks, Profile, Request};
use http::StatusCode;
use message::Message;
use result::Reply;
use serde_json::{Value, json};
use tools::Tool;
use version::Version;

pub(crate) use fault::{Fault, refused};

use crate::answer::{self, Answer};
use crate::app::Reloadable;
use crate::body::Body;
use crate::fetch::{Recorder, check_declared_length, check_type, profile};
use crate::head::{Field, Head};
use crate::lookup::{Asker, identify, kind};
use crate::metrics::Outcome;
use crate::refusal::{Refusal, Unauthorized};
use crate::stream::Stream;
use crate::submission::{self, BodyFault};
use crate::{App, Settings, invalid_reason, router};

/// How long a refusal waits for the body, which has the id that the answer is to have. Many clients send it a moment after the head.
const ID_TIMEOUT: Duration = Duration::from_secs(1);

/// `POST /mcp`
pub(crate) async fn mcp<D: LocalRead>(
    app: &App<D>,
    head: &Head<'_>,
    body: &mut Body<'_, impl Stream>,
    request: Request<'_>,
    recorder: &mut Recorder<'_>,
) -> Result<Answer, Refusal> {
    let limit = recorder.configured.settings.max_body;
    let answered = answer(app, head, body, request, recorder).await;
    if answered.is_err() {
        body.wait(limit, ID_TIMEOUT).await;
    }
    answered
}

/// The checks have the order of the operations. A call of a tool takes one of the rate, and so does what is no message; what else the
/// protocol has is free, because a client sends several requests before its first call.
async fn answer<D: LocalRead>(
    app: &App<D>,
    head: &Head<'_>,
    body: &mut Body<'_, impl Stream>,
    request: Request<'_>,
    recorder: &mut Recorder<'_>,
) -> Result<Answer, Refusal> {
    let Reloadable { settings, cors, .. } = recorder.configured;
    // A page that a browser shows may have got the address of this service by DNS rebinding.
    if head.origin != Field::Absent && cors.find(head.origin).is_none() {
        return Err(Refusal::ForeignOrigin);
    }
    check_declared_length(body, settings.max_body)?;
    let caller = identify(app, head.authorization, request.at)?;
    let caller = &recorder.caller.insert(caller).clone();
    if !caller.may_use_mcp() {
        return Err(Refusal::Unauthorized(Unauthorized::InsufficientScope));
    }
    let has_arrived = body.has_arrived();
    let message = match read(settings, head, body).await {
        Ok(message) => message,
        Err(refusal) => {
            caller.take_rate(request.at).map_err(Refusal::Limit)?;
            return Err(refusal);
        }
    };
    let Some(id) = message.id else { return Ok(answer::without_body(StatusCode::ACCEPTED)) };
    let fail = |fault: Fault| Refusal::from(fault.of(Some(id)));
    let version = version::of(head, &message).map_err(fail)?;
    let fail = |fault: Fault| fail(if version == Version::Legacy { fault.in_an_ok() } else { fault });
    let reply = Reply { id, version };
    if message.method != "tools/call" {
        return said(&message, version, caller).map(|result| reply.with(result)).map_err(fail);
    }
    match Call::of(&message, has_arrived) {
        Ok(call) => Ok(call.answer(app, head, reply, caller, request, recorder).await),
        Err(fault) => {
            caller.take_rate(request.at).map_err(Refusal::Limit)?;
            Err(fail(fault))
        }
    }
}

/// The result of a method that is no call of a tool.
fn said(message: &Message<'_>, version: Version, caller: &Caller) -> Result<Value, Fault> {
    let params = &message.params;
    match (version, &*message.method) {
        (Version::Modern, "server/discover") => Ok(result::discovered()),
        (Version::Legacy, "initialize") if params.protocol_version.and_then(message::text).is_none() => {
            Err(Fault::invalid_params("There is no protocolVersion."))
        }
        (Version::Legacy, "initialize") => Ok(result::initialized()),
        (Version::Legacy, "ping") => Ok(json!({})),
        (_, "tools/list") if params.cursor.is_some() => {
            Err(Fault::invalid_params("There is no such cursor: all tools are on one page."))
        }
        (_, "tools/list") => Ok(result::tools(caller)),
        _ => Err(Fault::unknown_method()),
    }
}

async fn read<'b>(
    settings: &Settings,
    head: &Head<'_>,
    body: &'b mut Body<'_, impl Stream>,
) -> Result<Message<'b>, Refusal> {
    check_type(head)?;
    let body = body.read(settings.max_body, settings.body_timeout).await?;
    Ok(message::read(body)?)
}

/// A call of a tool.
struct Call<'b> {
    tool: Tool,
    /// The object of its arguments.
    arguments: &'b [u8],
    /// Whether its body arrived with its head.
    has_arrived: bool,
}

impl<'b> Call<'b> {
    fn of(message: &Message<'b>, has_arrived: bool) -> Result<Self, Fault> {
        let name = message.params.name.and_then(message::text);
        let name = name.ok_or_else(|| Fault::invalid_params("The tool has no name."))?;
        let tool = Tool::named(&name).ok_or_else(|| Fault::invalid_params("There is no such tool."))?;
        let arguments = match message.params.arguments {
            None => b"{}",
            Some(arguments) if message::is_object(arguments) => arguments.get().as_bytes(),
            Some(_) => return Err(Fault::invalid_params("arguments is not an object.")),
        };
        Ok(Self { tool, arguments, has_arrived })
    }

    /// What is refused is counted and recorded as if it had come alone.
    async fn answer<D: LocalRead>(
        self,
        app: &App<D>,
        head: &Head<'_>,
        reply: Reply<'_>,
        caller: &Caller,
        request: Request<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Answer {
        let (asked, done) = match self.tool {
            Tool::LookUp(operation) => {
                let done = self.look_up(app, head, operation, caller, request, recorder).await;
                app.metrics.record_inside(operation, Outcome::of(Some(caller), done.as_ref().err()));
                (Asked::Detail(kind(operation)), done)
            }
            Tool::CheckUrl => (Asked::Mcp, self.check_url(caller, request, recorder.configured)),
        };
        let refusal = match done {
            Ok(structured) => return reply.with(result::of_tool(structured)),
            Err(refusal) => refusal,
        };
        recorder.refused(app, asked, request, &refusal).await;
        if let Refusal::NotOnFile { profile, .. } = &refusal {
            return reply.with(result::of_tool(result::not_found(profile)));
        }
        if Outcome::of(Some(caller), Some(&refusal)).is_refusal() {
            caller.count_refused();
        }
        router::log_fault(app, request.id, &refusal, recorder.started);
        let mut answer = reply.with(result::refused(&refusal));
        if let Some(seconds) = refusal.retry_after() {
            answer.add_header("retry-after", seconds.to_string());
        }
        answer
    }

    async fn look_up<D: LocalRead>(
        &self,
        app: &App<D>,
        head: &Head<'_>,
        operation: Operation,
        caller: &Caller,
        request: Request<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<Value, Refusal> {
        let kind = kind(operation);
        if !caller.may_look_up(kind) {
            return Err(Refusal::Unauthorized(Unauthorized::InsufficientScope));
        }
        let Reloadable { settings, networks, .. } = recorder.configured;
        let (turn, client) = (recorder.turn, recorder.client.as_ref());
        let mut asker = Asker::new(app, turn, settings, client, caller, head.authorization, request)?;
        asker.charge().await?;
        let profile = profile(networks, operation, submission::profile_url(self.arguments))?;
        let arrived = if self.has_arrived {
            recorder.started
        } else {
            asker.note_late();
            Instant::now()
        };
        asker.admit(arrived, 1, false).await?;
        asker.go_on()?;
        let profile = &*recorder.profile.insert(profile);
        let sealed = asker.find(profile, kind, None).await?;
        recorder.is_recorded = true;
        turn.recorded(sealed.ticket()).await;
        asker.open(sealed, profile, kind).map(|value| result::found(operation, &value, profile))
    }

    /// Reads no store, so the quota does not matter.
    fn check_url(
        &self,
        caller: &Caller,
        request: Request<'_>,
        configured: &Reloadable,
    ) -> Result<Value, Refusal> {
        caller.take_rate(request.at).map_err(Refusal::Limit)?;
        let networks = &configured.networks;
        Ok(result::checked(networks, canonical(networks, self.arguments)))
    }
}

fn canonical(networks: &Networks, arguments: &[u8]) -> Result<Profile, InvalidReason> {
    let url = submission::profile_url(arguments).map_err(|BodyFault { reason, .. }| reason)?;
    networks.canonicalize(&url).map_err(invalid_reason)
}
