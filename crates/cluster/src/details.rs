//! Loading and following details.

use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use contactd_core::store::copying::{ChangePoint, DetailsChunk};
use contactd_core::store::{LocalRead, Stored};
use contactd_store_sqlite::ApplyingDetails;

use crate::background::in_background;
use crate::settings::NodeSettings;
use crate::state::{Following, Shared};

/// Details that are loaded in one transaction.
const LOADED_TOGETHER: i64 = 100_000;

/// The pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// The longest wait for work. The other thread wakes this one.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// From this many changed details on, they are applied in the background.
const APPLY_IN_BACKGROUND_FROM: i64 = 5_000;

/// How much longer a thread in the background rests after a part than it worked on it. Even a thread that gives way to all others
/// delays them a little: it fills caches and disk queues, and a virtual machine that is never idle gets its turn later.
const REST_FACTOR: u32 = 4;
const LONGEST_REST: Duration = Duration::from_millis(50);

pub(crate) fn run(shared: &Shared) {
    while !shared.is_stopping() {
        shared.wait(LONGEST_WAIT, |state| state.access_is_in_force && state.details_are_due());
        if shared.is_stopping() {
            break;
        }
        if let Err(error) = step(shared) {
            shared.note_trouble(Following::Details, &error);
            shared.wait(RETRY_PAUSE, |_| false);
        } else {
            shared.note_no_trouble(Following::Details);
        }
    }
}

/// Does what is due.
fn step(shared: &Shared) -> Stored<()> {
    let details = shared.state().details.clone();
    let from = match details {
        Some(details) if is_known(shared, &details)? => details,
        Some(_) => {
            tell_unknown();
            shared.forget_copy();
            return Ok(());
        }
        None => begin(shared)?,
    };
    let loaded_through = shared.state().loaded_through;
    if let Some(loaded_through) = loaded_through {
        load(shared, &from, loaded_through)?;
        if shared.is_stopping() || shared.state().details.as_ref() != Some(&from) {
            return Ok(());
        }
    }
    let changed = shared.settings.database.has_changed_details(from.number, APPLY_IN_BACKGROUND_FROM);
    let seen = shared.state().seen.clone();
    let followed = if shared.wait_for(changed)? {
        in_background(|| follow(shared, &from, seen.as_ref(), REST_FACTOR))
    } else {
        follow(shared, &from, seen.as_ref(), 0)
    };
    match followed? {
        Some(followed) => note_followed(shared, &from, followed),
        None => shared.forget_copy(),
    }
    Ok(())
}

/// Says that the copy continues nothing that the database has.
pub(crate) fn tell_unknown() {
    tracing::warn!(
        "the database does not know the details of this node, because it was set back or this node was away for long: this node answers 503 \
         until it has copied everything"
    );
}

/// Whether the database knows this change.
fn is_known(shared: &Shared, point: &ChangePoint) -> Stored<bool> {
    shared.wait_for(shared.settings.database.knows_details(point))
}

/// Begins a snapshot.
fn begin(shared: &Shared) -> Stored<ChangePoint> {
    let NodeSettings { database, local, .. } = &shared.settings;
    let from = shared.wait_for(database.numbers())?.details;
    // From now on the database keeps for this node which places were emptied.
    shared.wait_for(shared.register(from.number, -1))?;
    let wiping = shared.wiping();
    local.begin_snapshot(&from)?;
    // Whatever was held before is wiped after loading.
    let wiped = local.copy_state()?.map_or(-1, |copied| copied.wiped_number);
    drop(wiping);
    tracing::info!("copying all details from the database");
    let mut state = shared.state();
    state.details = Some(from.clone());
    state.loaded_through = Some(-1);
    state.wiped = wiped;
    Ok(from)
}

/// Loads the snapshot from a position on. The next part is fetched while one is stored.
fn load(shared: &Shared, from: &ChangePoint, loaded_through: i64) -> Stored<()> {
    let NodeSettings { database, local, .. } = &shared.settings;
    let (sender, parts) = sync_channel::<Stored<(i64, Option<DetailsChunk>)>>(1);
    let mut seen = shared.state().seen.clone().unwrap_or_else(|| from.clone());
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut after = loaded_through;
            loop {
                let part = database.read_details_chunk(after, LOADED_TOGETHER, &seen);
                let part = shared.wait_for(part);
                let read = part.as_ref().ok().and_then(Option::as_ref);
                let next = read.and_then(|part| part.through);
                seen = read.map_or_else(ChangePoint::default, |part| part.at.clone());
                let is_taken = sender.send(part.map(|part| (after, part))).is_ok();
                match next {
                    Some(next) if is_taken => after = next,
                    _ => return,
                }
            }
        });
        for part in parts {
            let (after, part) = part?;
            let Some(part) = part else {
                tracing::warn!("the database was restored while this node loaded it: it begins again");
                shared.forget_copy();
                return Ok(());
            };
            if shared.is_stopping() {
                return Ok(());
            }
            local.load_chunk(after, &part)?;
            let mut state = shared.state();
            if state.details.is_none() {
                // The other thread found another history.
                return Ok(());
            }
            (state.loaded_through, state.seen) = (part.through, Some(part.at));
        }
        Ok(())
    })
}

/// What was applied: up to which change, and whether values were removed.
struct Followed {
    at: ChangePoint,
    has_removed: bool,
}

/// Applies everything that is newer than the copy, and rests after each part. `None` if the copy has to be loaded anew.
fn follow(
    shared: &Shared,
    from: &ChangePoint,
    seen: Option<&ChangePoint>,
    rest: u32,
) -> Stored<Option<Followed>> {
    let NodeSettings { database, local, .. } = &shared.settings;
    let mut applying: Option<ApplyingDetails> = None;
    let read = database.read_details_since(from.number, |part| {
        let began = Instant::now();
        let applying = match &mut applying {
            Some(applying) => applying,
            none => none.insert(local.apply_details()?),
        };
        applying.put(&part)?;
        thread::sleep((began.elapsed() * rest).min(LONGEST_REST));
        Ok(())
    });
    let at = shared.wait_for(read)?;
    // What was needed may have been removed before it was read, so this is checked afterwards.
    for point in std::iter::once(from).chain(seen) {
        if !is_known(shared, point)? {
            tell_unknown();
            return Ok(None);
        }
    }
    let has_removed = applying.map_or(Ok(false), |applying| applying.commit(&at))?;
    Ok(Some(Followed { at, has_removed }))
}

/// Notes what was applied, unless the other thread found another history meanwhile.
fn note_followed(shared: &Shared, from: &ChangePoint, followed: Followed) {
    // Lookups see it before anybody hears of it.
    shared.settings.local.renew_all();
    let Followed { at, has_removed } = followed;
    let mut state = shared.state();
    if state.details.as_ref() != Some(from) {
        return;
    }
    if !has_removed && state.wiped == from.number {
        // What was clean before is clean now.
        state.wiped = at.number;
    }
    state.details = Some(at);
    if !state.is_loaded {
        tracing::info!("all details are copied");
    }
    state.is_loaded = true;
    (state.loaded_through, state.seen) = (None, None);
    state.note_whether_behind();
    drop(state);
    shared.wake();
    shared.heartbeat_due.notify_one();
}
