//! From the Authorization header to a caller.

use contactd_core::store::Details;
use contactd_core::{Caller, Timestamp};
use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::App;
use crate::refusal::{Refusal, Unauthorized};

/// Recognises the caller, whatever it may look up.
pub(crate) fn caller<D: Details>(
    app: &App<D>,
    headers: &HeaderMap,
    now: Timestamp,
) -> Result<Caller, Refusal> {
    let token = bearer_token(headers).ok_or(Refusal::Unauthorized(Unauthorized::NoToken))?;
    app.callers.find(token, now).map_err(|_| Refusal::Unauthorized(Unauthorized::InvalidToken))
}

/// What follows the scheme `Bearer`, in any case. None where it does not stand there just
/// once.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    // A token is ASCII: what is not is a token that nobody was given.
    let (scheme, token) = match value.to_str() {
        Ok(value) => value.split_once(' ')?,
        Err(_) if value.as_bytes().get(..7)?.eq_ignore_ascii_case(b"bearer ") => return Some(""),
        Err(_) => return None,
    };
    let token = token.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn token_in(values: &[&'static str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_static(value));
        }
        bearer_token(&headers).map(str::to_owned)
    }

    #[test]
    fn the_scheme_is_read_in_any_case() {
        for value in ["Bearer abc", "bearer abc", "BEARER abc", "Bearer   abc"] {
            assert_eq!(token_in(&[value]).as_deref(), Some("abc"), "{value}");
        }
    }

    #[test]
    fn anything_else_is_no_token() {
        for values in
            [&[][..], &[""], &["Bearer"], &["Bearer "], &["Basic abc"], &["abc"], &["Bearer a", "Bearer a"]]
        {
            assert_eq!(token_in(values), None, "{values:?}");
        }
    }
}
