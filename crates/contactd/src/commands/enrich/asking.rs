//! Sends lookups in batches, several at the same time, and repeats each lookup until it has an answer.

mod meaning;
mod pause;
mod size;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use anyhow::{anyhow, bail};
use contactd_core::Kind;
use meaning::{Meaning, meaning};
use parking_lot::Mutex;
use pause::Pause;
use size::Size;

use super::LookedUp;
use super::urls::Urls;
use crate::client::{BatchReply, Client, LookupAnswer};

/// How often lookups are tried when the service fails, and the first pause between two tries.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// How long lookups wait in total, without an answer to any of them, when the service asks for it.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// The most bytes of URLs in a batch: with all around them, it fits what the service takes.
const MOST_BYTES: usize = 128 * 1024;

/// A URL that is longer is sent by itself: the service may refuse the whole request.
const LONG_URL: usize = 8 * 1024;

#[derive(Clone, Copy)]
pub(crate) struct Question {
    /// The number of the URL.
    pub(crate) url: u32,
    pub(crate) kind: Kind,
}

pub(crate) type Answered = Vec<(Question, LookedUp)>;

/// Sends all lookups, at most `concurrency` requests at the same time, and passes the answers to `take` as they arrive. The first
/// permanent error stops it.
pub(crate) fn ask_all(
    client: &Client,
    urls: &Urls,
    questions: &[Question],
    concurrency: usize,
    mut take: impl FnMut(Answered) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let asking = Asking {
        client,
        urls,
        left: Mutex::new(questions),
        size: Size::new(),
        pause: Pause::default(),
        has_no_batch: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        // What is in the channel is asked again after a kill.
        let (answers, taken) = sync_channel(0);
        for _ in 0..concurrency.min(questions.len()) {
            let (answers, asking) = (answers.clone(), &asking);
            scope.spawn(move || {
                if let Err(error) = asking.work(&answers) {
                    // The receiver outlives all threads.
                    let _ = answers.send(Err(error));
                }
            });
        }
        drop(answers);
        let mut first_fault = Ok(());
        for answered in taken {
            // Answers that still arrive after the first error are passed on too.
            let done = answered.and_then(&mut take);
            if done.is_err() && first_fault.is_ok() {
                asking.pause.end();
                first_fault = done;
            }
        }
        first_fault
    })
}

struct Asking<'a> {
    client: &'a Client,
    urls: &'a Urls,
    /// The lookups that no thread has taken.
    left: Mutex<&'a [Question]>,
    size: Size,
    pause: Pause,
    /// Whether the service is an older one, without batches.
    has_no_batch: AtomicBool,
}

/// What became of the lookups of one request.
#[derive(Default)]
struct Round {
    answered: Answered,
    unanswered: Vec<Question>,
    /// How long the service asks to wait.
    wait: Option<Duration>,
    /// What failed and may pass.
    failure: Option<anyhow::Error>,
    stop: Option<anyhow::Error>,
}

impl Asking<'_> {
    fn work(&self, answers: &SyncSender<anyhow::Result<Answered>>) -> anyhow::Result<()> {
        while let Some(part) = self.take_part() {
            self.finish(part.to_vec(), answers)?;
        }
        Ok(())
    }

    /// Takes as many lookups as fit a batch. None when nothing is left.
    fn take_part(&self) -> Option<&[Question]> {
        let mut left = self.left.lock();
        let (part, rest) = left.split_at(self.fitting(&left));
        *left = rest;
        (!part.is_empty()).then_some(part)
    }

    /// How many of these to send next.
    fn fitting(&self, questions: &[Question]) -> usize {
        if self.has_no_batch.load(Ordering::Relaxed) {
            return questions.len().min(1);
        }
        let mut bytes = 0;
        let fits = |question: &&Question| {
            let length = self.urls.url(question.url).len();
            bytes += length;
            bytes <= MOST_BYTES && length <= LONG_URL
        };
        let count = questions.iter().take(self.size.now()).take_while(fits).count();
        count.max(1).min(questions.len())
    }

    /// Repeats these lookups until all are answered, or the run is over.
    fn finish(
        &self,
        mut open: Vec<Question>,
        answers: &SyncSender<anyhow::Result<Answered>>,
    ) -> anyhow::Result<()> {
        let (mut failures, mut waited) = (0, Duration::ZERO);
        while !open.is_empty() && self.pause.wait() {
            let rest = open.split_off(self.fitting(&open));
            let Round { answered, unanswered, wait, failure, stop } = self.ask(open);
            open = unanswered;
            open.extend(rest);
            if !answered.is_empty() {
                (failures, waited) = (0, Duration::ZERO);
                if answers.send(Ok(answered)).is_err() {
                    return Ok(());
                }
            }
            if let Some(error) = stop {
                return Err(error);
            }
            if let Some(wait) = wait {
                waited += wait;
                if waited > LONGEST_WAIT {
                    bail!("the service asks to retry in {}; run this again later", in_words(wait));
                }
                self.pause.until_after(wait);
            } else if let Some(error) = failure {
                failures += 1;
                if failures >= TRIES {
                    return Err(error);
                }
                std::thread::sleep(FIRST_PAUSE * 2_u32.pow(failures - 1));
            }
        }
        Ok(())
    }

    /// Sends lookups once. One alone needs no batch.
    fn ask(&self, questions: Vec<Question>) -> Round {
        if let &[Question { url, kind }] = &*questions {
            return match self.client.ask(kind, self.urls.url(url)) {
                Ok(answer) => self.sorted(questions, vec![answer]),
                Err(error) => Round::failed(questions, error),
            };
        }
        let sent: Vec<_> =
            questions.iter().map(|question| (question.kind, self.urls.url(question.url))).collect();
        match self.client.ask_many(&sent) {
            Ok(BatchReply::Answers(answers)) => self.sorted(questions, answers),
            Ok(BatchReply::Refused(answer)) => self.refused(questions, &answer),
            Err(error) => Round::failed(questions, error),
        }
    }

    /// What became of lookups, each of which has an answer.
    fn sorted(&self, questions: Vec<Question>, answers: Vec<LookupAnswer>) -> Round {
        let sent = questions.len();
        let mut round = Round::default();
        for (question, answer) in questions.into_iter().zip(answers) {
            round.add(question, &answer);
        }
        if round.wait.is_some() {
            self.size.limited_to(round.answered.len());
        } else if round.unanswered.is_empty() {
            self.size.all_answered(sent);
        }
        round
    }

    /// What became of a batch that was refused as a whole.
    fn refused(&self, questions: Vec<Question>, answer: &LookupAnswer) -> Round {
        match (answer.code, answer.status.as_str()) {
            (404, "not_found") => self.has_no_batch.store(true, Ordering::Relaxed),
            (413, _) | (400, "invalid_batch") => self.size.is_too_large(questions.len()),
            _ => {
                let mut round = Round::default();
                questions.into_iter().for_each(|question| round.add(question, answer));
                return round;
            }
        }
        Round { unanswered: questions, ..Round::default() }
    }
}

impl Round {
    fn failed(unanswered: Vec<Question>, error: anyhow::Error) -> Self {
        Self { unanswered, failure: Some(error), ..Self::default() }
    }

    fn add(&mut self, question: Question, answer: &LookupAnswer) {
        match meaning(answer, question.kind) {
            Meaning::Answer(looked_up) => return self.answered.push((question, looked_up)),
            Meaning::Wait(wait) => self.wait = self.wait.max(Some(wait)),
            Meaning::Failure => {
                let failure = || anyhow!("the service answers {} {}", answer.code, answer.status);
                self.failure.get_or_insert_with(failure);
            }
            Meaning::Stop(error) => self.stop = self.stop.take().or(Some(error)),
        }
        self.unanswered.push(question);
    }
}

fn in_words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} seconds"),
        seconds @ 120..7_200 => format!("{} minutes", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} hours", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}
