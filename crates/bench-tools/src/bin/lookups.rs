//! Sends this many lookups as fast as they are answered: `lookups PORT COUNT REQUESTS-FILE`
//!
//! 64 connections cycle through the requests of a file. Any status but 200 ends it. Prints how long it took.

#![expect(clippy::expect_used, reason = "a wrong argument or an unknown failure ends it")]
#![expect(clippy::print_stdout, reason = "its result")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

const CONNECTIONS: usize = 64;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, port, count, file] = &arguments[..] else { panic!("lookups PORT COUNT REQUESTS-FILE") };
    let port: u16 = port.parse().expect("a port");
    let count: usize = count.parse().expect("a number of lookups");
    let text = std::fs::read_to_string(file).expect("requests");
    let requests: Vec<&str> = text.split_terminator("\n----\n").collect();
    let connect = |_| {
        let connection = TcpStream::connect(("127.0.0.1", port)).expect("connects");
        connection.set_nodelay(true).expect("sets");
        connection
    };
    let mut connections: Vec<TcpStream> = (0..CONNECTIONS).map(connect).collect();
    let began = Instant::now();
    let mut buffer = [0; 65536];
    // Each round sends one request on each connection, then reads the answers.
    for first in (0..count).step_by(CONNECTIONS) {
        let round = &mut connections[..CONNECTIONS.min(count - first)];
        for (at, connection) in round.iter_mut().enumerate() {
            connection.write_all(requests[(first + at) % requests.len()].as_bytes()).expect("sends");
        }
        for connection in round {
            let read = connection.read(&mut buffer).expect("an answer");
            assert!(buffer[..read].starts_with(b"HTTP/1.1 200"), "not an answer");
        }
    }
    println!("RESULT lookups={count} seconds={:.1}", began.elapsed().as_secs_f64());
}
