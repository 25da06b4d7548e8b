//! Opt-outs and revocations of another store, to be applied to one made from an older backup.

use std::collections::HashMap;

use contactd_core::store::{TakenOver, Withdrawals};
use contactd_core::{Timestamp, Token};

use crate::database::Work;
use crate::failure::Failure;
use crate::{suppressions, tokens};

pub(crate) async fn take_over(
    work: &Work,
    withdrawals: &Withdrawals,
    now: Timestamp,
) -> Result<TakenOver, Failure> {
    let suppressed = withdrawals.suppressions.iter().map(|(subject, at)| (subject, *at));
    let mut taken =
        TakenOver { suppressions: suppressions::add(work, suppressed).await?, ..TakenOver::default() };
    let known = tokens::list(work).await?.into_iter().map(|(_, token)| (token.id.clone(), token));
    let known: HashMap<String, Token> = known.collect();
    for (hash, token) in &withdrawals.tokens {
        match known.get(&token.id).filter(|known| known.revoked_at.is_none()) {
            Some(known) => restrict(work, &mut taken, known, token, now).await?,
            None => {
                let know = "INSERT INTO tokens (id, hash, name, phone, email, created_at, revoked_at, family, number)
                            VALUES ($1, $2, $3, FALSE, FALSE, $4, $5, $1, $6) ON CONFLICT DO NOTHING";
                let (created_at, revoked_at) = (token.created_at.millis(), now.millis());
                let hash = &hash.as_bytes()[..];
                work.execute(know, &[&token.id, &hash, &token.name, &created_at, &revoked_at, &work.number])
                    .await?;
            }
        }
    }
    let disable = "UPDATE users SET disabled_at = $2 WHERE name = $1 AND disabled_at IS NULL";
    let revoke = "UPDATE admin_tokens SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL";
    for (end, accounts) in
        [(disable, &withdrawals.disabled_users), (revoke, &withdrawals.revoked_admin_tokens)]
    {
        for (id, at) in accounts {
            taken.accounts += work.execute(end, &[id, &at.millis()]).await?;
        }
    }
    Ok(taken)
}

/// Applies what the other store says about a token that is not revoked here.
async fn restrict(
    work: &Work,
    taken: &mut TakenOver,
    known: &Token,
    there: &Token,
    now: Timestamp,
) -> Result<(), Failure> {
    if let Some(at) = there.revoked_at {
        let revoke = "UPDATE tokens SET revoked_at = $2, number = $3 WHERE id = $1 AND revoked_at IS NULL";
        taken.revocations += work.execute(revoke, &[&known.id, &at.millis(), &work.number]).await?;
        return Ok(());
    }
    let restricted = Token {
        expires_at: [known.expires_at, there.expires_at].into_iter().flatten().min(),
        scopes: known.scopes.and(there.scopes),
        ..known.clone()
    };
    if restricted != *known {
        tokens::store(work, &restricted).await?;
        *(if there.is_live(now) { &mut taken.restrictions } else { &mut taken.revocations }) += 1;
    }
    Ok(())
}
