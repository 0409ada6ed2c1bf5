use std::collections::{HashMap, HashSet};

use super::{compare, dated_row, insert_by_day, row};
use crate::backend::Backend;
use crate::error::Error;
use crate::rows::{Call, DatedRow, Row, Stored};
use crate::terms::{BatchTerms, Message};
use crate::time::Day;

/// Whether each message is fresh. All are claimed in the order of their keys, so that two batches never wait for each other.
pub(super) async fn fresh<DB: Backend>(
    conn: &mut DB::Connection,
    call: Call<'_>,
    terms: &BatchTerms<'_>,
) -> Result<Vec<bool>, Error> {
    let mut firsts: HashMap<&str, usize> = HashMap::with_capacity(terms.messages.len());
    for (index, message) in terms.messages.iter().enumerate() {
        let first = *firsts.entry(message.key.as_str()).or_insert(index);
        if terms.messages[first].fingerprint != message.fingerprint {
            return Err(Error::Mismatch);
        }
    }
    let mut messages: Vec<(&str, usize)> = firsts.into_iter().collect();
    messages.sort_unstable();
    let distinct: Vec<&Message> = messages
        .iter()
        .map(|(_, index)| &terms.messages[*index])
        .collect();
    let met = claim::<DB>(conn, call, terms, &distinct).await?;
    let mut fresh = vec![false; terms.messages.len()];
    for (key, index) in messages {
        fresh[index] = !met.contains(key);
    }
    Ok(fresh)
}

/// The keys that were claimed before, in either table.
async fn claim<'m, DB: Backend>(
    conn: &mut DB::Connection,
    call: Call<'_>,
    terms: &BatchTerms<'_>,
    messages: &[&'m Message],
) -> Result<HashSet<&'m str>, Error> {
    let (mut plain, mut dated): (Vec<Row<'_>>, Vec<DatedRow<'_>>) = (Vec::new(), Vec::new());
    let mut fingerprints = HashMap::new();
    for message in messages {
        let (key, fingerprint) = (message.key.as_str(), message.fingerprint.as_ref());
        if let Some(fingerprint) = fingerprint {
            fingerprints.insert(key, fingerprint);
        }
        if message.day.is_none() || terms.from_plain {
            plain.push(row(key, fingerprint));
        }
        if let Some(day) = message.day {
            dated.push(dated_row(key, day, fingerprint));
        }
    }
    let mut met = HashSet::new();
    if !plain.is_empty() {
        let new = DB::insert_many(conn, call, &plain).await;
        let new = new.map_err(Error::at_claim)?;
        let old: Vec<&str> = old(plain.iter().map(|row| row.key), &new).collect();
        let asked: Vec<&str> = old
            .iter()
            .copied()
            .filter(|key| fingerprints.contains_key(key))
            .collect();
        if !asked.is_empty() {
            let stored = DB::read(conn, call, &asked).await;
            check(&stored.map_err(Error::at_claim)?, &fingerprints)?;
        }
        met.extend(old);
    }
    // What the plain table knows is a duplicate, also when its day is no longer kept.
    dated.retain(|row| !met.contains(row.key));
    if !dated.is_empty() {
        let new = insert_by_day::<DB>(conn, call, &dated).await?;
        let old: Vec<(&str, Day)> = old(dated.iter().map(|row| (row.key, row.day)), &new).collect();
        let asked: Vec<(&str, Day)> = old
            .iter()
            .copied()
            .filter(|(key, _)| fingerprints.contains_key(key))
            .collect();
        if !asked.is_empty() {
            let stored = DB::read_by_day(conn, call, &asked).await;
            check(&stored.map_err(Error::at_claim)?, &fingerprints)?;
        }
        met.extend(old.into_iter().map(|(key, _)| key));
    }
    Ok(met)
}

fn old<T>(claims: impl Iterator<Item = T>, new: &[bool]) -> impl Iterator<Item = T> {
    claims
        .zip(new)
        .filter_map(|(claim, is_new)| (!is_new).then_some(claim))
}

fn check(
    stored: &[Stored],
    fingerprints: &HashMap<&str, &crate::fingerprint::Digest>,
) -> Result<(), Error> {
    for claim in stored {
        compare([claim], fingerprints.get(claim.key.as_str()).copied())?;
    }
    Ok(())
}
