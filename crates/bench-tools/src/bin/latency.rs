//! Measures latency at a given rate, from the time a request is due: `latency PORT RATE SECONDS REQUESTS-FILE [NAP [CONNECTIONS]]`
//!
//! wrk waits for an answer before it sends the next request, and its timers have a resolution of milliseconds. This
//! program sends at random times with the given mean rate, on any free connection of 64 (or as many as it is told), and never sleeps. So it counts
//! all waiting time caused by the server, including that of requests delayed by earlier ones. With a nap, in
//! microseconds, it sleeps at most this long between two polls, so that other programs can use its core.
//! Answers of 503 are counted apart; any other status but 200 ends it.

#![expect(clippy::expect_used, reason = "a wrong argument or an unknown failure ends it")]
#![expect(clippy::print_stdout, reason = "its result")]

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 64;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, port, rate, seconds, file, rest @ ..] = &arguments[..] else {
        panic!("latency PORT RATE SECONDS REQUESTS-FILE [NAP [CONNECTIONS]]")
    };
    let nap = rest.first().map(|nap| Duration::from_micros(nap.parse().expect("a nap")));
    let count: usize =
        rest.get(1).map_or(CONNECTIONS, |count| count.parse().expect("a number of connections"));
    let rate: f64 = rate.parse().expect("a rate");
    let seconds: f64 = seconds.parse().expect("seconds");
    let text = std::fs::read_to_string(file).expect("requests");
    let requests: Vec<&str> = text.split_terminator("\n----\n").collect();

    let mut connections: Vec<TcpStream> = (0..count)
        .map(|_| {
            let connection =
                TcpStream::connect(("127.0.0.1", port.parse().expect("a port"))).expect("connects");
            connection.set_nodelay(true).expect("sets");
            connection.set_nonblocking(true).expect("sets");
            connection
        })
        .collect();
    // Use the connection that has been free the longest, so that the server closes none as idle.
    let mut free: VecDeque<usize> = (0..count).collect();
    let mut waiting: VecDeque<Instant> = VecDeque::new();
    let mut asked: Vec<(usize, Instant)> = Vec::new();
    let (mut latencies, mut refused): (Vec<Duration>, Vec<Duration>) = (Vec::new(), Vec::new());
    let mut buffer = [0; 65536];
    let mut seed = 7_u64;
    let mut sent = 0;
    let began = Instant::now();
    let mut due = began;
    loop {
        let now = Instant::now();
        while due <= now {
            waiting.push_back(due);
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let uniform = ((seed >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
            due += Duration::from_secs_f64(-uniform.ln() / rate);
        }
        while let (Some(connection), Some(&since)) = (free.front().copied(), waiting.front()) {
            connections[connection].write_all(requests[sent % requests.len()].as_bytes()).expect("sends");
            sent += 1;
            free.pop_front();
            waiting.pop_front();
            asked.push((connection, since));
        }
        asked.retain(|&(connection, since)| match connections[connection].read(&mut buffer) {
            Ok(read) if matches!(&buffer[..read.min(12)], b"HTTP/1.1 200" | b"HTTP/1.1 503") => {
                let is_refused = &buffer[9..12] == b"503";
                // The first second is warm-up.
                if now - began > Duration::from_secs(1) {
                    if is_refused { &mut refused } else { &mut latencies }.push(since.elapsed());
                }
                free.push_back(connection);
                false
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => true,
            other => panic!("not an answer: {other:?}"),
        });
        if now - began > Duration::from_secs_f64(seconds) {
            break;
        }
        if let Some(nap) = nap {
            std::thread::sleep(due.saturating_duration_since(Instant::now()).min(nap));
        }
    }
    latencies.sort();
    refused.sort();
    // Of a thousand.
    let at = |times: &[Duration], share: usize| {
        times.get(times.len().saturating_sub(1) * share / 1_000).map_or(0, Duration::as_micros)
    };
    let (answered, refusals) =
        (latencies.len() as f64 / (seconds - 1.0), refused.len() as f64 / (seconds - 1.0));
    let [p50, p90, p99, p999] = [500, 900, 990, 999].map(|share| at(&latencies, share));
    let [refused_p99, refused_max] = [990, 1_000].map(|share| at(&refused, share));
    println!(
        "RESULT rate={answered:.0} p50={p50} p90={p90} p99={p99} p999={p999} refused={refusals:.0} refused_p99={refused_p99} refused_max={refused_max} unsent={}",
        waiting.len()
    );
}
