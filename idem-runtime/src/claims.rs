//! What a delivery's claim comes to: the statements in their order, and what their answers mean.

mod batch;

use crate::backend::{self, Backend, Fault};
use crate::error::{Cause, Error};
use crate::fingerprint::Digest;
use crate::key::EncodedKey;
use crate::rows::{Call, Dated, DatedRow, Row, Stored};
use crate::terms::{BatchTerms, Places, Terms};
use crate::time::Day;
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
                .filter_map(|(message, is_fresh)| is_fresh.then_some(message.key.as_str()))
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

    /// Where the claims of the message are; a batch has values for none.
    pub(crate) fn places(self) -> Places<'a> {
        match self {
            Claims::Message { terms, .. } => terms.places(),
            Claims::Batch(_) => Places::default(),
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
        Claims::Batch(terms) => batch::fresh::<DB>(conn, call, terms)
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
    let places = terms.places();
    let fingerprint = terms.fingerprint.as_ref();
    let mut new: Vec<(&str, bool)> = Vec::with_capacity(places.count());
    match (places.plain.as_slice(), fingerprint) {
        ([], _) => {}
        ([key], None) => {
            let is_new = DB::insert(conn, call, key).await.map_err(Error::at_claim)?;
            new.push((key, is_new));
        }
        (keys, _) => {
            let rows: Vec<Row<'_>> = keys.iter().map(|key| row(key, fingerprint)).collect();
            let are_new = DB::insert_many(conn, call, &rows).await;
            new.extend(keys.iter().copied().zip(are_new.map_err(Error::at_claim)?));
        }
    }
    if let Some((key, day)) = places.by_day {
        let rows = [dated_row(key, day, fingerprint)];
        match insert_by_day::<DB>(conn, call, &rows).await {
            Ok(are_new) => new.extend([key].into_iter().zip(are_new)),
            // What the plain table knows is a duplicate, also when its day is no longer kept.
            Err(Error::Expired { .. } | Error::TooFarAhead { .. } | Error::NoPartition { .. })
                if new.contains(&(key, false)) => {}
            Err(error) => return Err(error),
        }
    }
    if new.iter().all(|(_, is_new)| *is_new) {
        return Ok(Verdict::Fresh);
    }
    let mut earlier = Earlier {
        value: None,
        is_kept: terms.key.as_ref().is_some_and(|own| {
            new.iter()
                .any(|(key, is_new)| *is_new && own.as_str() == *key)
        }),
    };
    if fingerprint.is_some() || replays {
        // Claims of this delivery's own may be among them, which are equal and have no value yet.
        let stored = read::<DB>(conn, call, &places).await?;
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
    let stored = DB::read(conn, call, &[key]).await;
    let stored = stored.map_err(Error::at_claim)?;
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

fn row<'a>(key: &'a str, fingerprint: Option<&'a Digest>) -> Row<'a> {
    Row {
        key,
        fingerprint: fingerprint.map(|Digest(bytes)| bytes),
    }
}

fn dated_row<'a>(key: &'a str, day: Day, fingerprint: Option<&'a Digest>) -> DatedRow<'a> {
    DatedRow {
        key,
        day,
        fingerprint: fingerprint.map(|Digest(bytes)| bytes),
    }
}

/// Whether each is new. A day without a partition is an error, of which the database's clock says the kind: a clock of ours may be wrong.
async fn insert_by_day<DB: Backend>(
    conn: &mut DB::Connection,
    call: Call<'_>,
    rows: &[DatedRow<'_>],
) -> Result<Vec<bool>, Error> {
    let no_partition = |day| Error::NoPartition {
        day,
        cause: Cause::no_partition(),
    };
    let dated = DB::insert_by_day(conn, call, rows).await;
    let dated = dated.map_err(|error| match (backend::fault(&error), rows) {
        // It was dropped at this moment.
        (Fault::NoPartition, [row, ..]) => no_partition(row.day),
        _ => Error::at_claim(error),
    });
    match dated? {
        Dated::New(new) => Ok(new),
        Dated::NoPartition {
            day,
            kept: Some((oldest, newest)),
            today,
        } if day < newest.min(today) && oldest <= today => Err(Error::Expired { day, oldest }),
        // Clocks may differ by some hours, and days begin earlier in the east.
        Dated::NoPartition { day, today, .. } if day.number() > today.number() + 1 => {
            Err(Error::TooFarAhead { day, today })
        }
        Dated::NoPartition { day, .. } => Err(no_partition(day)),
    }
}

async fn read<DB: Backend>(
    conn: &mut DB::Connection,
    call: Call<'_>,
    places: &Places<'_>,
) -> Result<Vec<Stored>, Error> {
    let mut stored = Vec::new();
    if !places.plain.is_empty() {
        let read = DB::read(conn, call, &places.plain).await;
        stored.extend(read.map_err(Error::at_claim)?);
    }
    if let Some(claim) = places.by_day {
        let read = DB::read_by_day(conn, call, &[claim]).await;
        stored.extend(read.map_err(Error::at_claim)?);
    }
    Ok(stored)
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
