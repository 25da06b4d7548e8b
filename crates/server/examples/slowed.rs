//! The public listener with a store that takes a given time for every lookup: `slowed MICROSECONDS [WORKERS]`
//!
//! `bench/overload.py` uses it to see what overload does. Prints the port, the URL of the one profile and two tokens. Ends
//! when its standard input does.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use contactd_core::store::{LocalRead, StoreError, Verdict};
use contactd_core::{
    Callers, Clock, ContactValue, DigestKey, DigestKeys, Kind, Networks, NoAudit, Profile, SuppressionList,
    SystemClock, Timestamp, Token, TokenSecret,
};
use contactd_server::{App, AtStop, Settings};

const URL: &str = "https://linkedin.com/in/ada-quell";

/// A store with a phone number of one person, whose lookups take at least this long.
struct Slowed(Duration);

impl LocalRead for Slowed {
    fn best_personal(
        &self,
        profile: &Profile,
        kind: Kind,
        _: Timestamp,
        judge: impl Fn(&str) -> Verdict,
    ) -> Result<Option<ContactValue>, StoreError> {
        if !self.0.is_zero() {
            std::thread::sleep(self.0);
        }
        let value = "+14155550123";
        let is_taken = judge(value) == Verdict::Take && kind == Kind::Phone && URL.ends_with(profile.key());
        Ok(is_taken.then(|| ContactValue::from_store(value.to_owned())))
    }

    fn renew(&self) {}

    fn renew_all(&self) {}
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let time = Duration::from_micros(arguments.next().ok_or("slowed MICROSECONDS [WORKERS]")?.parse()?);
    let workers = arguments.next().map_or(Ok(1), |workers| workers.parse())?;
    let clock = Arc::new(SystemClock);
    let now = clock.now();
    let secrets = [TokenSecret::generate()?, TokenSecret::generate()?];
    let tokens = secrets.iter().map(|secret| Ok((secret.hash(), Token::new("bench", now)?, 0)));
    let callers = Arc::new(Callers::default());
    callers.replace(tokens.collect::<Result<_, Box<dyn std::error::Error>>>()?, now);
    let keys = DigestKeys::new(vec![DigestKey::new(&[1; 32])]).ok_or("no key")?;
    let app = App::new(
        Arc::new(Slowed(time)),
        Arc::new(NoAudit),
        callers,
        Arc::new(SuppressionList::new(keys)),
        Networks::built_in(),
        clock,
        Settings { workers, ..Settings::default() },
    );
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    writeln!(std::io::stdout(), "{port} {URL} {} {}", secrets[0].expose(), secrets[1].expose())?;
    let stop = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    contactd_server::serve(listener, Arc::new(app), async move { drop(stop.await) }, AtStop::AcceptWaiting)
        .await?;
    Ok(())
}
