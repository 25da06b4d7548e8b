//! Sends hostile requests and checks every answer: `hostile PORT PID SEED COUNT THREADS TOKENS-FILE [ONLY]`
//!
//! An exchange is one connection: one to eight requests, then the sending side is closed and everything is read. Each exchange
//! depends only on the seed and its number, so ONLY, the number of an exchange, sends that one alone and prints it whole. An
//! answer must have a documented status, the headers and the body that are documented for it, and the right length.
//! Prints lines of `KIND=value`; the memory of the process PID is read twenty times, evenly spread.

#![expect(clippy::expect_used, reason = "a wrong argument or an unknown failure ends it")]
#![expect(clippy::print_stdout, reason = "its result")]
#![expect(clippy::cast_possible_truncation, reason = "random numbers are cut to the size that is needed")]

mod answers;
mod bodies;
mod random;
mod requests;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use answers::judge;
use requests::{Exchange, exchange};

const SAMPLES: u64 = 20;
const MOST_PRINTED: usize = 20;
const PRINTED_BYTES: usize = 1_000;
const PATHS: [&str; 2] = ["/api/fetchPhoneNumber", "/api/fetchPersonalEmail"];

/// Sends an exchange and reads everything. The second value says whether the connection was reset.
fn send(port: u16, exchange: &Exchange) -> std::io::Result<(Vec<u8>, bool)> {
    let mut connection = TcpStream::connect(("127.0.0.1", port))?;
    connection.set_read_timeout(Some(Duration::from_secs(30)))?;
    connection.set_write_timeout(Some(Duration::from_secs(30)))?;
    let is_sent = connection.write_all(&exchange.bytes).is_ok();
    let mut received = Vec::new();
    if exchange.is_dropped {
        return Ok((received, false));
    }
    let is_shut = connection.shutdown(Shutdown::Write).is_ok();
    match connection.read_to_end(&mut received) {
        Ok(_) => Ok((received, !is_sent || !is_shut)),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Ok((received, true)),
        Err(error) => Err(error),
    }
}

fn memory(pid: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or("0");
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, port, pid, seed, count, threads, file, only @ ..] = &arguments[..] else {
        panic!("hostile PORT PID SEED COUNT THREADS TOKENS-FILE [ONLY]")
    };
    let [seed, count, threads] = [seed, count, threads].map(|text| text.parse::<u64>().expect("a number"));
    let port: u16 = port.parse().expect("a port");
    let tokens: Vec<String> =
        std::fs::read_to_string(file).expect("tokens").lines().map(str::to_owned).collect();
    if let Some(only) = only.first() {
        let exchange = exchange(seed, only.parse().expect("a number"), &tokens);
        println!("SENT=b\"{}\"", exchange.bytes.escape_ascii());
        let (received, is_reset) = send(port, &exchange).expect("an answer");
        println!("RECEIVED=b\"{}\"", received.escape_ascii());
        println!("JUDGED={:?}", judge(&exchange, &received, is_reset));
        return;
    }
    let (next, sent, problems) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let (statuses, memories, printed) =
        (Mutex::new(BTreeMap::<u16, u64>::new()), Mutex::new(vec![memory(pid)]), Mutex::new(0));
    let every = (count / SAMPLES).max(1);
    let work = || {
        while sent.load(Ordering::Relaxed) < count && problems.load(Ordering::Relaxed) < 1_000 {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let exchange = exchange(seed, number, &tokens);
            let (judged, received) = match send(port, &exchange) {
                Ok((received, is_reset)) => (judge(&exchange, &received, is_reset), received),
                Err(error) => (Err(format!("no end of the connection: {error}")), Vec::new()),
            };
            match judged {
                Ok(found) => {
                    let mut statuses = statuses.lock().expect("statuses");
                    found.into_iter().for_each(|status| *statuses.entry(status).or_default() += 1);
                }
                Err(why) => {
                    problems.fetch_add(1, Ordering::Relaxed);
                    let mut printed = printed.lock().expect("printed");
                    *printed += 1;
                    if *printed <= MOST_PRINTED {
                        let [sent, answer] = [&exchange.bytes, &received]
                            .map(|bytes| bytes[..bytes.len().min(PRINTED_BYTES)].escape_ascii().to_string());
                        println!(
                            "PROBLEM=exchange {number} of seed {seed}: {why}; sent {} bytes b\"{sent}\"; received {} bytes b\"{answer}\"",
                            exchange.bytes.len(),
                            received.len()
                        );
                    }
                }
            }
            let before = sent.fetch_add(exchange.requests, Ordering::Relaxed);
            if before / every != (before + exchange.requests) / every {
                memories.lock().expect("memories").push(memory(pid));
            }
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    println!("REQUESTS={}", sent.into_inner());
    println!("EXCHANGES={}", next.into_inner());
    println!("PROBLEMS={}", problems.into_inner());
    statuses
        .into_inner()
        .expect("statuses")
        .iter()
        .for_each(|(status, count)| println!("STATUS={status} {count}"));
    memories.into_inner().expect("memories").iter().for_each(|kib| println!("MEMORY={kib}"));
}
