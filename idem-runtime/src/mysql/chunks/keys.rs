use sqlx::mysql::MySqlRow;
use sqlx::{MySql, MySqlConnection, QueryBuilder, Row as _};

use crate::prune::chunks::{Removed, Taken, Takes};

/// Each key is a SELECT of its own to the server's parser.
pub(super) const KEYS_OF_A_STATEMENT: usize = 500;

/// For people; the time is counted in UTC whatever the session's zone is.
macro_rules! utc {
    ($time:literal) => {
        concat!(
            "CAST(DATE_FORMAT(TIMESTAMPADD(MICROSECOND, ROUND(UNIX_TIMESTAMP(",
            $time,
            ") * 1000000), '1970-01-01 00:00:00'), '%Y-%m-%dT%H:%i:%s.%fZ') AS CHAR)"
        )
    };
}

pub(super) use utc;

/// Locks those of the claims that are still past the window and that nobody else has locked, and removes them.
pub(super) async fn take_keys(
    conn: &mut MySqlConnection,
    (consumer, cutoff): (&str, &str),
    keys: &[Vec<u8>],
    archive: Takes,
    taken: &mut Taken,
) -> Result<(), sqlx::Error> {
    const LOCK: &str = "SELECT claim.message_id FROM ";
    const LOCK_ROWS: &str = concat!(
        "SELECT claim.message_id, ",
        utc!("claim.processed_at"),
        ", claim.fingerprint, claim.result FROM "
    );
    const COPY: &str = "INSERT INTO processed_messages_archive (consumer, message_id, processed_at, fingerprint, result) \
        SELECT claim.consumer, claim.message_id, claim.processed_at, claim.fingerprint, claim.result FROM ";
    let lock = if archive == Takes::Rows {
        LOCK_ROWS
    } else {
        LOCK
    };
    let mut lock = by_keys(lock, consumer, keys);
    lock.push(" WHERE claim.version IS NULL AND UNIX_TIMESTAMP(claim.processed_at) < ")
        .push_bind(cutoff)
        .push(" FOR UPDATE SKIP LOCKED");
    let rows = lock.build().persistent(false).fetch_all(&mut *conn).await?;
    let keys: Vec<Vec<u8>> = rows
        .iter()
        .map(|row| row.try_get(0))
        .collect::<Result<_, _>>()?;
    if keys.is_empty() {
        return Ok(());
    }
    let copy = (archive == Takes::Copies).then_some(COPY);
    for statement in copy.into_iter().chain(["DELETE claim FROM "]) {
        let mut statement = by_keys(statement, consumer, &keys);
        let is_full = keys.len() == KEYS_OF_A_STATEMENT;
        let statement = statement.build().persistent(is_full);
        statement.execute(&mut *conn).await?;
    }
    taken.claims += keys.len() as u64;
    if archive == Takes::Rows {
        for row in &rows {
            taken.rows.push(removed(consumer, row)?);
        }
    }
    Ok(())
}

/// One by one in the primary key, as claims are looked up elsewhere: any other search walks through a small table, and locks every claim that
/// it passes or waits there.
fn by_keys(statement: &'static str, consumer: &str, keys: &[Vec<u8>]) -> QueryBuilder<MySql> {
    let mut query = QueryBuilder::new(statement);
    query.push("(");
    let mut list = query.separated(" UNION ALL ");
    for key in keys {
        list.push("SELECT ")
            .push_bind_unseparated(key.clone())
            .push_unseparated(" AS message_id");
    }
    query
        .push(") AS past STRAIGHT_JOIN processed_messages AS claim FORCE INDEX (PRIMARY) ON claim.consumer = ")
        .push_bind(consumer.as_bytes().to_vec())
        .push(" AND claim.message_id = past.message_id");
    query
}

/// Other programs may have stored what is no text.
fn removed(consumer: &str, row: &MySqlRow) -> Result<Removed, sqlx::Error> {
    let lossy = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Removed {
        consumer: consumer.to_owned(),
        message_id: lossy(row.try_get(0)?),
        day: None,
        processed_at: row.try_get(1)?,
        fingerprint: row.try_get(2)?,
        result: row.try_get::<Option<_>, _>(3)?.map(lossy),
    })
}
