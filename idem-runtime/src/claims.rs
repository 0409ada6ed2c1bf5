//! What a delivery's claim comes to: the statements in their order, and what their answers mean.

use std::collections::HashMap;

use crate::backend::Backend;
use crate::error::{Cause, Error};
use crate::fingerprint::Digest;
use crate::key::EncodedKey;
use crate::rows::{Call, Row, Stored};
use crate::terms::{BatchTerms, Terms};
use crate::version::ClaimedVersion;
use crate::{InFlight, Isolation};

/// What is claimed.
#[derive(Clone, Copy)]
pub(crate) enum Claims<'a> {
    Message {
        terms: &'a Terms<'a>,
        /// Whether a duplicate asks for the stored value.
        replays: bool,
    },
    Batch(&'a BatchTerms<'a>),
}

/// What the claim came to.
#[derive(Debug)]
pub(crate) enum Verdict {
    Fresh,
    /// Of a batch, whether each message is fresh.
    FreshOf(Vec<bool>),
    Duplicate(Earlier),
    Stale,
}

/// What a duplicate has found.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// The value that is stored, if it was asked for.
    pub(crate) value: Option<String>,
    /// Whether the action was claimed under another message's key, so that this message's own key is new. It is kept: the action is
    /// done for this message too, and its redeliveries are recognised also when the business key is no longer there.
    pub(crate) is_kept: bool,
}

impl Verdict {
    /// Whether there is something to run the body for.
    pub(crate) fn is_fresh(&self) -> bool {
        match self {
            Verdict::Fresh => true,
            Verdict::FreshOf(messages) => messages.contains(&true),
            Verdict::Duplicate(_) | Verdict::Stale => false,
        }
    }

    /// Whether the transaction holds something to commit although there is no body to run.
    pub(crate) fn is_kept(&self) -> bool {
        matches!(self, Verdict::Duplicate(Earlier { is_kept: true, .. }))
    }

    /// For the delivery's span, when that is over.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Verdict::Fresh => "processed",
            Verdict::Duplicate(Earlier { value: Some(_), .. }) => "replayed",
            Verdict::FreshOf(_) | Verdict::Duplicate(_) => "duplicate",
            Verdict::Stale => "stale",
        }
    }
}

impl<'a> Claims<'a> {
    pub(crate) fn in_flight(self) -> InFlight {
        match self {
            Claims::Message { terms, .. } => terms.in_flight,
            Claims::Batch(terms) => terms.in_flight,
        }
    }

    pub(crate) fn isolation(self) -> Option<Isolation> {
        match self {
            Claims::Message { terms, .. } => terms.isolation,
            Claims::Batch(terms) => terms.isolation,
        }
    }

    pub(crate) fn consumer(self) -> &'a str {
        match self {
            Claims::Message { terms, .. } => terms.consumer,
            Claims::Batch(terms) => terms.consumer,
        }
    }

    /// The keys of the message, or of the fresh ones of a batch, as people know them.
    pub(crate) fn names(self, fresh: &[bool]) -> Vec<&'a str> {
        match self {
            Claims::Message { terms, .. } => vec![terms.name()],
            Claims::Batch(terms) => terms
                .messages
                .iter()
                .zip(fresh)
                .filter_map(|((key, _), is_fresh)| is_fresh.then_some(key.as_str()))
                .collect(),
        }
    }

    /// As it is stored; it names the effect, whichever message asks for it.
    pub(crate) fn business_key(self) -> Option<&'a str> {
        match self {
            Claims::Message { terms, .. } => terms.business_key.as_ref().map(EncodedKey::as_str),
            Claims::Batch(_) => None,
        }
    }

    /// The keys of the message, as they are stored; a batch has values for none.
    pub(crate) fn stored_keys(self) -> Vec<&'a str> {
        match self {
            Claims::Message { terms, .. } => terms.stored_keys(),
            Claims::Batch(_) => Vec::new(),
        }
    }

    pub(crate) fn call(self, persistent: bool) -> Call<'a> {
        Call {
            consumer: self.consumer(),
            in_flight: self.in_flight(),
            persistent,
        }
    }
}

pub(crate) async fn decide<DB: Backend>(
    conn: &mut DB::Connection,
    claims: Claims<'_>,
    persistent: bool,
) -> Result<Verdict, Error> {
    let call = claims.call(persistent);
    match claims {
        Claims::Message { terms, replays } => match (terms.version, &terms.key) {
            (Some(version), Some(key)) => of_version::<DB>(conn, call, key.as_str(), version).await,
            _ => of_message::<DB>(conn, call, terms, replays).await,
        },
        Claims::Batch(terms) => of_batch::<DB>(conn, call, terms)
            .await
            .map(Verdict::FreshOf),
    }
}

async fn of_message<DB: Backend>(
    conn: &mut DB::Connection,
    call: Call<'_>,
    terms: &Terms<'_>,
    replays: bool,
) -> Result<Verdict, Error> {
    let keys = terms.stored_keys();
    let fingerprint = terms.fingerprint.as_ref();
    let new = if let ([key], None) = (keys.as_slice(), fingerprint) {
        DB::insert(conn, call, key).await.map(|new| vec![new])
    } else {
        let rows: Vec<Row<'_>> = keys.iter().map(|key| row(key, fingerprint)).collect();
        DB::insert_many(conn, call, &rows).await
    };
    let new = new.map_err(Error::at_claim)?;
    if new.iter().all(|new| *new) {
        return Ok(Verdict::Fresh);
    }
    let mut earlier = Earlier {
        value: None,
        is_kept: keys
            .iter()
            .zip(new)
            .any(|(key, new)| new && terms.key.as_ref().is_some_and(|own| own.as_str() == *key)),
    };
    if fingerprint.is_some() || replays {
        // Claims of this delivery's own may be among them, which are equal and have no value yet.
        let stored = read::<DB>(conn, call, &keys).await?;
        compare(&stored, fingerprint)?;
        if replays {
            earlier.value = stored.into_iter().find_map(|claim| claim.result);
        }
    }
    Ok(Verdict::Duplicate(earlier))
}

async fn of_version<DB: Backend>(
    conn: &mut DB::Connection,
    call: Call<'_>,
    key: &str,
    version: ClaimedVersion,
) -> Result<Verdict, Error> {
    let applied = DB::advance(conn, call, key, version).await;
    if applied.map_err(Error::at_claim)? {
        return Ok(Verdict::Fresh);
    }
    let stored = read::<DB>(conn, call, &[key]).await?;
    let stored = stored.first().and_then(|claim| claim.version);
    match stored {
        Some(stored) if stored == version.number => Ok(Verdict::Duplicate(Earlier::default())),
        // Without gaps, every version before has been applied itself.
        Some(stored) if stored > version.number && version.gapless_from.is_some() => {
            Ok(Verdict::Duplicate(Earlier::default()))
        }
        Some(stored) if stored > version.number => Ok(Verdict::Stale),
        applied => Err(Error::OutOfTurn {
            version: version.number,
            applied,
            cause: Cause::of_order(),
        }),
    }
}

/// Whether each message is fresh. All are claimed in the order of their keys, so that two batches never wait for each other.
async fn of_batch<DB: Backend>(
    conn: &mut DB::Connection,
    call: Call<'_>,
    terms: &BatchTerms<'_>,
) -> Result<Vec<bool>, Error> {
    let mut firsts: HashMap<&str, usize> = HashMap::with_capacity(terms.messages.len());
    for (index, (key, fingerprint)) in terms.messages.iter().enumerate() {
        let first = *firsts.entry(key.as_str()).or_insert(index);
        if terms.messages[first].1 != *fingerprint {
            return Err(Error::Mismatch);
        }
    }
    let mut messages: Vec<(&str, usize)> = firsts.into_iter().collect();
    messages.sort_unstable();
    let rows: Vec<Row<'_>> = messages
        .iter()
        .map(|(key, index)| row(key, terms.messages[*index].1.as_ref()))
        .collect();
    let new = DB::insert_many(conn, call, &rows)
        .await
        .map_err(Error::at_claim)?;
    let mut fresh = vec![false; terms.messages.len()];
    let mut earlier = Vec::new();
    for ((key, index), new) in messages.into_iter().zip(new) {
        fresh[index] = new;
        if let (false, Some(fingerprint)) = (new, &terms.messages[index].1) {
            earlier.push((key, fingerprint));
        }
    }
    if !earlier.is_empty() {
        let keys: Vec<&str> = earlier.iter().map(|(key, _)| *key).collect();
        let stored = read::<DB>(conn, call, &keys).await?;
        let stored: HashMap<&str, &Stored> = stored
            .iter()
            .map(|claim| (claim.key.as_str(), claim))
            .collect();
        for (key, fingerprint) in earlier {
            compare(stored.get(key).copied(), Some(fingerprint))?;
        }
    }
    Ok(fresh)
}

fn row<'a>(key: &'a str, fingerprint: Option<&'a Digest>) -> Row<'a> {
    Row {
        key,
        fingerprint: fingerprint.map(|Digest(bytes)| bytes),
    }
}

async fn read<DB: Backend>(
    conn: &mut DB::Connection,
    call: Call<'_>,
    keys: &[&str],
) -> Result<Vec<Stored>, Error> {
    DB::read(conn, call, keys).await.map_err(Error::at_claim)
}

/// A claim without a fingerprint, made before the handler had one, matches any.
fn compare<'s>(
    earlier: impl IntoIterator<Item = &'s Stored>,
    fingerprint: Option<&Digest>,
) -> Result<(), Error> {
    let is_other = |claim: &Stored| match (&claim.fingerprint, fingerprint) {
        (Some(stored), Some(Digest(bytes))) => stored != bytes,
        _ => false,
    };
    if earlier.into_iter().any(is_other) {
        return Err(Error::Mismatch);
    }
    Ok(())
}
