//! Asking many questions at once, each until it has an answer.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use anyhow::bail;
use contactd_core::Kind;

use super::Finding;
use crate::client::{Answered, Client};

/// How often one question is asked when the service fails, and how long between.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(250);

#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) url: &'a str,
    pub(crate) kind: Kind,
}

/// Asks all questions, so many at once; gives each answer to `take` as it comes. The first fault that does not pass
/// ends it.
pub(crate) fn ask_all(
    client: &Client,
    questions: &[Question<'_>],
    concurrency: usize,
    mut take: impl FnMut(Question<'_>, &Finding) -> anyhow::Result<()>,
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
            // What was answered before the fault is taken all the same.
            let done = answer.and_then(|finding| take(question, &finding));
            if done.is_err() && first_fault.is_ok() {
                is_over.store(true, Ordering::Relaxed);
                first_fault = done;
            }
        }
        first_fault
    })
}

fn ask(client: &Client, question: Question<'_>, pause: &Pause) -> anyhow::Result<Finding> {
    let mut failures = 0;
    loop {
        pause.wait();
        match client.ask(question.kind, question.url) {
            Ok(answer) => match finding(&answer) {
                Some(finding) => return Ok(finding),
                None if answer.code == 401 => bail!(
                    "the service refuses the token for {} lookups: {}",
                    question.kind.name(),
                    answer.message.as_deref().unwrap_or("it does not say why")
                ),
                // Busy, or over a limit: nobody asks before the time it names.
                None if matches!(answer.code, 429 | 503) => {
                    pause.until_after(answer.retry_after.unwrap_or(Duration::from_secs(1)));
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

/// What an answer means for a row; none if it has to be asked again.
fn finding(answer: &Answered) -> Option<Finding> {
    let status = match (answer.code, &answer.reason) {
        (200, _) => "ok".to_owned(),
        (404, _) if answer.status == "contact_not_found" => "not_found".to_owned(),
        (400, Some(reason)) => format!("invalid: {reason}"),
        _ => return None,
    };
    Some(Finding { status, value: answer.value().cloned() })
}

/// A time before which nobody asks.
#[derive(Default)]
struct Pause(Mutex<Option<Instant>>);

impl Pause {
    fn wait(&self) {
        loop {
            let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match until.map(|until| until.saturating_duration_since(Instant::now())) {
                Some(left) if !left.is_zero() => std::thread::sleep(left),
                _ => return,
            }
        }
    }

    fn until_after(&self, time: Duration) {
        let mut until = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = Instant::now() + time;
        *until = Some(until.map_or(wanted, |until| until.max(wanted)));
    }
}
