//! Sends many lookups at the same time, and repeats each until it has an answer.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use anyhow::bail;
use contactd_core::Kind;
use parking_lot::Mutex;

use super::LookedUp;
use crate::client::{Client, LookupAnswer};
use crate::output;

/// How often one lookup is tried when the service fails, and the first pause between two tries.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// How long one lookup waits in total when the service asks for it.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);
const WORTH_TELLING: Duration = Duration::from_secs(5);

#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) url: &'a str,
    pub(crate) kind: Kind,
}

/// Sends all lookups, at most `concurrency` at the same time, and passes each answer to `take` as it arrives. The first
/// permanent error stops it.
pub(crate) fn ask_all(
    client: &Client,
    questions: &[Question<'_>],
    concurrency: usize,
    mut take: impl FnMut(Question<'_>, &LookedUp) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let next = AtomicUsize::new(0);
    let pause = Pause::default();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (answers, taken) = sync_channel(concurrency);
        for _ in 0..concurrency.min(questions.len()) {
            let (answers, next, pause, is_over) = (answers.clone(), &next, &pause, &is_over);
            scope.spawn(move || {
                while let Some(question) = questions.get(next.fetch_add(1, Ordering::Relaxed))
                    && !is_over.load(Ordering::Relaxed)
                {
                    let answer = ask(client, *question, pause);
                    if answers.send((*question, answer)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(answers);
        let mut first_fault = Ok(());
        for (question, answer) in taken {
            // Answers that still arrive after the first error are passed on too.
            let done = answer.and_then(|finding| take(question, &finding));
            if done.is_err() && first_fault.is_ok() {
                is_over.store(true, Ordering::Relaxed);
                first_fault = done;
            }
        }
        first_fault
    })
}

fn ask(client: &Client, question: Question<'_>, pause: &Pause) -> anyhow::Result<LookedUp> {
    let mut failures = 0;
    let mut waited = Duration::ZERO;
    loop {
        pause.wait();
        match client.ask(question.kind, question.url) {
            Ok(answer) => match looked_up(&answer) {
                Some(found) => return Ok(found),
                None if answer.code == 401 => bail!(
                    "the service refuses the token for {} lookups{}: {} If the token is for the other kind only, use --only",
                    question.kind.name(),
                    answer.reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default(),
                    answer.message.as_deref().unwrap_or("it does not say why.")
                ),
                None if answer.code == 200 => {
                    bail!(
                        "the service at this URL is not contactd: its answer has no {}",
                        question.kind.name()
                    )
                }
                None if answer.status == "quota_exceeded" => bail!(
                    "the token's quota is used up; it is renewed in {}",
                    in_words(answer.retry_after.unwrap_or_default())
                ),
                // Busy, or over a limit: all threads wait for the time that the service names.
                None if matches!(answer.code, 429 | 503) => {
                    let wait = answer.retry_after.unwrap_or(Duration::from_secs(1));
                    waited += wait;
                    if waited > LONGEST_WAIT {
                        bail!(
                            "the service answers {} and asks to retry in {}; run this again later",
                            answer.code,
                            in_words(wait)
                        );
                    }
                    pause.until_after(wait);
                    continue;
                }
                None if failures + 1 >= TRIES => {
                    bail!("the service answers {} {}", answer.code, answer.status)
                }
                None => {}
            },
            Err(error) if failures + 1 >= TRIES => return Err(error),
            Err(_) => {}
        }
        std::thread::sleep(FIRST_PAUSE * 2_u32.pow(failures));
        failures += 1;
    }
}

/// What an answer means for a row; `None` if it must be asked again.
fn looked_up(answer: &LookupAnswer) -> Option<LookedUp> {
    let status = match (answer.code, &answer.reason) {
        (200, _) => {
            answer.value()?;
            "ok".to_owned()
        }
        // The URL was so long that the service did not read it.
        (413, _) => "invalid: too_long".to_owned(),
        (404, _) if answer.status == "contact_not_found" => "not_found".to_owned(),
        (400, Some(reason)) => format!("invalid: {reason}"),
        _ => return None,
    };
    Some(LookedUp { status, value: answer.value().cloned(), canonical: answer.profile_url.clone() })
}

fn in_words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} seconds"),
        seconds @ 120..7_200 => format!("{} minutes", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} hours", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// A time before which no thread sends a lookup.
#[derive(Default)]
struct Pause(Mutex<Option<Instant>>);

impl Pause {
    fn wait(&self) {
        loop {
            let until = *self.0.lock();
            match until.map(|until| until.saturating_duration_since(Instant::now())) {
                Some(left) if !left.is_zero() => std::thread::sleep(left),
                _ => return,
            }
        }
    }

    fn until_after(&self, time: Duration) {
        let mut until = self.0.lock();
        let wanted = Instant::now() + time;
        if time > WORTH_TELLING && until.is_none_or(|until| until < Instant::now()) {
            output::words(format_args!("the service asks to retry in {}; waiting", in_words(time)));
        }
        *until = Some(until.map_or(wanted, |until| until.max(wanted)));
    }
}
