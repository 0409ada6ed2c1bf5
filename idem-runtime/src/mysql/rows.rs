use std::sync::atomic::{AtomicU64, Ordering};

use sqlx::mysql::MySqlQueryResult;
use sqlx::{MySql, MySqlConnection, QueryBuilder, Row as _};

use crate::backend::BoxFuture;
use crate::rows::{Call, Row, Rows, Stored};
use crate::version::ClaimedVersion;

/// A statement takes 65,535 parameters, whose number has 16 bits in the protocol.
const ROWS_OF_A_STATEMENT: usize = 10_000;

/// Both ways the answer carries a number of this delivery's as its "last insert id": the first if the claim is new, the second if it was
/// there. The count of rows would not tell, since sqlx asks the server to count rows that are found. A number that is neither says
/// that this is the answer to another statement: sqlx 0.9 loses step when a statement is cancelled while it is prepared, and a
/// connection that went back to its pool so must not decide whether a message is new.
///
/// When a transaction with the claim rolls back, all but one of its waiters deadlock, as they do with a plain INSERT; that is transient.
const INSERT: &str = "INSERT INTO processed_messages (consumer, message_id) SELECT ?, ? FROM DUAL WHERE LAST_INSERT_ID(?) > 0 \
    ON DUPLICATE KEY UPDATE consumer = IF(LAST_INSERT_ID(?) > 0, processed_messages.consumer, processed_messages.consumer)";

/// Whether the version may follow the one that is stored, of which the first parameter but one says what a missing one counts as, and
/// the last the lowest.
macro_rules! may_follow {
    () => {
        "(processed_messages.version IS NULL OR processed_messages.version < ?) \
         AND COALESCE(processed_messages.version, ?) >= ?"
    };
}

/// Assignments are done from left to right, so that both conditions see the stored version.
const INSERT_VERSION: &str = concat!(
    "INSERT INTO processed_messages (consumer, message_id, version) SELECT ?, ?, ? FROM DUAL WHERE LAST_INSERT_ID(?) > 0 \
     ON DUPLICATE KEY UPDATE processed_at = IF(LAST_INSERT_ID(IF(",
    may_follow!(),
    ", ?, ?)) = ?, CURRENT_TIMESTAMP(6), processed_messages.processed_at), version = IF(",
    may_follow!(),
    ", ?, processed_messages.version)"
);

const UPDATE_VERSION: &str = concat!(
    "UPDATE processed_messages SET processed_at = CURRENT_TIMESTAMP(6), version = ? \
     WHERE consumer = ? AND message_id = ? AND ",
    may_follow!(),
    " AND LAST_INSERT_ID(?) > 0"
);

impl Rows for MySql {
    fn insert<'a>(
        conn: &'a mut MySqlConnection,
        call: Call<'a>,
        key: &'a str,
    ) -> BoxFuture<'a, Result<bool, sqlx::Error>> {
        Box::pin(async move {
            let fresh = next_number();
            let duplicate = next_number();
            let done = sqlx::query(INSERT)
                .persistent(call.persistent)
                .bind(call.consumer.as_bytes())
                .bind(key.as_bytes())
                .bind(fresh)
                .bind(duplicate)
                .execute(conn)
                .await?;
            is_first(&done, fresh, duplicate)
        })
    }

    /// A claim that was there counts how often it was met, so that its number tells it from a new one, which has none.
    fn insert_many<'a>(
        conn: &'a mut MySqlConnection,
        call: Call<'a>,
        rows: &'a [Row<'a>],
    ) -> BoxFuture<'a, Result<Vec<bool>, sqlx::Error>> {
        Box::pin(async move {
            let mut fresh = Vec::with_capacity(rows.len());
            for rows in rows.chunks(ROWS_OF_A_STATEMENT) {
                fresh.extend(insert_chunk(conn, call, rows).await?);
            }
            Ok(fresh)
        })
    }

    /// A version that may not be the first of its key can only update.
    fn advance<'a>(
        conn: &'a mut MySqlConnection,
        call: Call<'a>,
        key: &'a str,
        version: ClaimedVersion,
    ) -> BoxFuture<'a, Result<bool, sqlx::Error>> {
        Box::pin(async move {
            let (number, floor, lowest) = (version.number, version.floor(), version.lowest());
            if !version.may_be_first() {
                let applied = next_number();
                let done = sqlx::query(UPDATE_VERSION)
                    .persistent(call.persistent)
                    .bind(number)
                    .bind(call.consumer.as_bytes())
                    .bind(key.as_bytes())
                    .bind(number)
                    .bind(floor)
                    .bind(lowest)
                    .bind(applied)
                    .execute(conn)
                    .await?;
                return Ok(affects_rows(&done, applied)? > 0);
            }
            let [inserted, updated, refused] = [next_number(), next_number(), next_number()];
            let done = sqlx::query(INSERT_VERSION)
                .persistent(call.persistent)
                .bind(call.consumer.as_bytes())
                .bind(key.as_bytes())
                .bind(number)
                .bind(inserted)
                .bind(number)
                .bind(floor)
                .bind(lowest)
                .bind(updated)
                .bind(refused)
                .bind(updated)
                .bind(number)
                .bind(floor)
                .bind(lowest)
                .bind(number)
                .execute(conn)
                .await?;
            Ok(done.last_insert_id() == inserted || is_first(&done, updated, refused)?)
        })
    }

    /// A locking read, which sees what is committed also where the transaction has an older snapshot.
    fn read<'a>(
        conn: &'a mut MySqlConnection,
        call: Call<'a>,
        keys: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<Stored>, sqlx::Error>> {
        Box::pin(async move {
            let mut found = Vec::new();
            for keys in keys.chunks(ROWS_OF_A_STATEMENT) {
                let number = next_number();
                let mut select = select(
                    "claim.version, claim.fingerprint, claim.result",
                    number,
                    call,
                    keys,
                );
                let rows = select
                    .push(" LOCK IN SHARE MODE")
                    .build()
                    .persistent(call.persistent && keys.len() <= 2)
                    .fetch_all(&mut *conn)
                    .await?;
                for row in answered(&rows, number)? {
                    let result: Option<Vec<u8>> = row.try_get("result")?;
                    found.push(Stored {
                        key: text(row.try_get("found")?)?,
                        version: row.try_get("version")?,
                        fingerprint: row.try_get("fingerprint")?,
                        result: result.map(text).transpose()?,
                    });
                }
            }
            Ok(found)
        })
    }

    fn store<'a>(
        conn: &'a mut MySqlConnection,
        call: Call<'a>,
        keys: &'a [&'a str],
        value: &'a str,
    ) -> BoxFuture<'a, Result<u64, sqlx::Error>> {
        Box::pin(async move {
            let number = next_number();
            let mut update = QueryBuilder::<MySql>::new("UPDATE processed_messages SET result = ");
            update
                .push_bind(value.as_bytes())
                .push(" WHERE LAST_INSERT_ID(")
                .push_bind(number)
                .push(") > 0 AND consumer = ")
                .push_bind(call.consumer.as_bytes());
            push_keys(&mut update, "message_id", keys);
            let done = update
                .build()
                .persistent(call.persistent)
                .execute(conn)
                .await?;
            affects_rows(&done, number)
        })
    }
}

async fn insert_chunk(
    conn: &mut MySqlConnection,
    call: Call<'_>,
    rows: &[Row<'_>],
) -> Result<Vec<bool>, sqlx::Error> {
    let persistent = call.persistent && rows.len() <= 2;
    let (inserted, met) = (next_number(), next_number());
    let mut insert = QueryBuilder::<MySql>::new(
        "INSERT INTO processed_messages (consumer, message_id, fingerprint) ",
    );
    insert.push_values(rows, |mut values, row| {
        values
            .push("IF(LAST_INSERT_ID(")
            .push_bind_unseparated(inserted)
            .push_unseparated(") > 0, ")
            .push_bind_unseparated(call.consumer.as_bytes())
            .push_unseparated(", '')")
            .push_bind(row.key.as_bytes())
            .push_bind(row.fingerprint.map(<[u8; 32]>::as_slice));
    });
    let done = insert
        .push(" ON DUPLICATE KEY UPDATE repeats = IF(LAST_INSERT_ID(")
        .push_bind(met)
        .push(") > 0, COALESCE(processed_messages.repeats, 0) + 1, 0)")
        .build()
        .persistent(persistent)
        .execute(&mut *conn)
        .await?;
    // The number is that of the last row.
    is_first(&done, inserted, met)?;
    // A row that is updated counts twice.
    if usize::try_from(done.rows_affected()).ok() == Some(rows.len()) {
        return Ok(vec![true; rows.len()]);
    }
    let keys: Vec<&str> = rows.iter().map(|row| row.key).collect();
    let number = next_number();
    let mut select = select("claim.message_id", number, call, &keys);
    let met = select
        .push(" AND claim.repeats IS NOT NULL LOCK IN SHARE MODE")
        .build()
        .persistent(persistent)
        .fetch_all(conn)
        .await?;
    let met = answered(&met, number)?
        .map(|row| row.try_get("message_id"))
        .collect::<Result<std::collections::HashSet<Vec<u8>>, _>>()?;
    Ok(keys
        .iter()
        .map(|key| !met.contains(key.as_bytes()))
        .collect())
}

/// Claims beside a number, which comes back also when there is none.
fn select(columns: &str, number: u64, call: Call<'_>, keys: &[&str]) -> QueryBuilder<MySql> {
    let mut select = QueryBuilder::new("SELECT question.number, claim.message_id AS found, ");
    select
        .push(columns)
        .push(" FROM (SELECT CAST(")
        .push_bind(number)
        .push(" AS UNSIGNED) AS number) AS question LEFT JOIN processed_messages AS claim ON claim.consumer = ")
        .push_bind(call.consumer.as_bytes().to_vec());
    push_keys(&mut select, "claim.message_id", keys);
    select
}

/// The claims that [`select`] has found, if this is its answer.
fn answered(
    rows: &[sqlx::mysql::MySqlRow],
    number: u64,
) -> Result<impl Iterator<Item = &sqlx::mysql::MySqlRow>, sqlx::Error> {
    let is_answer = rows
        .iter()
        .all(|row| row.try_get::<u64, _>("number").ok() == Some(number));
    if rows.is_empty() || !is_answer {
        return Err(out_of_step());
    }
    Ok(rows
        .iter()
        .filter(|row| matches!(row.try_get::<Option<Vec<u8>>, _>("found"), Ok(Some(_)))))
}

fn text(bytes: Vec<u8>) -> Result<String, sqlx::Error> {
    String::from_utf8(bytes).map_err(|error| sqlx::Error::Decode(error.into()))
}

fn push_keys(query: &mut QueryBuilder<MySql>, column: &str, keys: &[&str]) {
    query.push(" AND ").push(column).push(" IN (");
    let mut list = query.separated(", ");
    for key in keys {
        list.push_bind(key.as_bytes());
    }
    query.push(")");
}

/// Which of the two numbers the answer carries.
fn is_first(done: &MySqlQueryResult, first: u64, second: u64) -> Result<bool, sqlx::Error> {
    match done.last_insert_id() {
        id if id == first => Ok(true),
        id if id == second => Ok(false),
        _ => Err(out_of_step()),
    }
}

/// How many rows were affected; without any, there is no number either, and the caller asks a question next.
fn affects_rows(done: &MySqlQueryResult, number: u64) -> Result<u64, sqlx::Error> {
    match done.rows_affected() {
        0 => Ok(0),
        rows if done.last_insert_id() == number => Ok(rows),
        _ => Err(out_of_step()),
    }
}

/// A number that no earlier answer on any connection of this process holds.
pub(super) fn next_number() -> u64 {
    static NUMBER: AtomicU64 = AtomicU64::new(1 << 32);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

pub(super) fn out_of_step() -> sqlx::Error {
    sqlx::Error::Protocol(
        "the connection gave the answer to another statement: an earlier one was cancelled, and it cannot be used any more; or the table \
         `processed_messages` has an AUTO_INCREMENT column or a trigger that inserts into a table with one, which it must not"
            .to_owned(),
    )
}
