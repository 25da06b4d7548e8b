//! Tokens as they are printed.

use contactd_core::{Rate, Timestamp, Token, UpdatedToken};
use contactd_services::views::ListedToken;

pub(super) const HEADER: [&str; 10] =
    ["ID", "NAME", "SCOPES", "CREATED", "EXPIRES", "LAST USED", "HITS", "RATE", "QUOTA", "STATE"];

pub(super) fn cells(token: &ListedToken) -> Vec<String> {
    let or = |text: Option<String>, otherwise: &str| text.unwrap_or_else(|| otherwise.to_owned());
    let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
    let ListedToken { name, used, limits, state, .. } = token;
    vec![
        name.id.clone(),
        name.name.clone(),
        name.scopes.join("+") + if name.sandbox { " (sandbox)" } else { "" },
        name.created_at.to_string(),
        or(time(name.expires_at), "never"),
        or(time(used.last_used_at), "-"),
        used.hits.to_string(),
        or(limits.rate.clone(), "-"),
        or(limits.quota.clone(), "-"),
        (*state).to_owned(),
    ]
}

/// What an update changed: each from what to what.
pub(super) fn changes(UpdatedToken { before, after, .. }: &UpdatedToken) -> String {
    let scopes = |token: &Token| token.scopes.names().collect::<Vec<_>>().join("+");
    let expiry = |token: &Token| token.expires_at.map_or("never".to_owned(), |end| end.to_string());
    let quota = |token: &Token| token.quota.map_or("none".to_owned(), |quota| quota.to_string());
    let told = [
        ("scope", scopes(before), scopes(after)),
        ("expires", expiry(before), expiry(after)),
        ("rate", rate(before.rate), rate(after.rate)),
        ("quota", quota(before), quota(after)),
    ];
    let changed = told.iter().filter(|(_, before, after)| before != after);
    let changes: Vec<String> =
        changed.map(|(what, before, after)| format!("{what} {before} -> {after}")).collect();
    if changes.is_empty() { "nothing changed".to_owned() } else { changes.join(", ") }
}

fn rate(rate: Option<Rate>) -> String {
    match rate {
        None => "none".to_owned(),
        Some(rate) if rate.burst == rate.count => rate.to_string(),
        Some(rate) => format!("{rate} with burst {}", rate.burst),
    }
}
