use std::collections::HashSet;

use sqlx::{MySql, MySqlConnection, QueryBuilder, Row as _};

use super::answer::{affects_rows, answered, is_first, next_number};
use crate::backend::BoxFuture;
use crate::rows::{Call, Row, Rows, Stored, Value};
use crate::version::ClaimedVersion;

/// A statement takes 65,535 parameters, whose number has 16 bits in the protocol.
const ROWS_OF_A_STATEMENT: usize = 10_000;

/// Each key of a question is a SELECT of its own to the server's parser. Up to here, statements are kept prepared: closing one is a command
/// without an answer, after which the next one waits some 40 ms for a delayed acknowledgement.
const KEYS_OF_A_QUESTION: usize = 500;

/// Both ways the answer carries a number of this delivery's as its "last insert id": the first if the claim is new, the second if it was
/// there. The count of rows would not tell, since sqlx asks the server to count rows that are found. A number that is neither says
/// that this is the answer to another statement: sqlx 0.9 loses step when a statement is cancelled while it is prepared, and a
/// connection that went back to its pool so must not decide whether a message is new.
///
/// When a transaction with the claim rolls back, all but one of its waiters deadlock, as they do with a plain INSERT, and ask again.
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

const STORE: &str = "UPDATE processed_messages SET result = ? WHERE consumer = ? AND message_id = ? AND result IS NULL AND LAST_INSERT_ID(?) > 0";

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

    /// A locking read, which sees what is committed also where the transaction has an older snapshot. It locks nothing but the claims it
    /// asks for.
    fn read<'a>(
        conn: &'a mut MySqlConnection,
        call: Call<'a>,
        keys: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<Stored>, sqlx::Error>> {
        Box::pin(async move {
            let mut found = Vec::new();
            for keys in keys.chunks(KEYS_OF_A_QUESTION) {
                let number = next_number();
                let columns = "claim.version, claim.fingerprint, claim.result";
                let rows = select(columns, number, call, keys)
                    .build()
                    .persistent(call.persistent && keys.len() <= KEYS_OF_A_QUESTION)
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
        value: Value<'a>,
    ) -> BoxFuture<'a, Result<u64, sqlx::Error>> {
        Box::pin(async move {
            let mut rows = 0;
            // One by one, since the search for several may lock what it passes.
            for key in keys {
                let number = next_number();
                let done = sqlx::query(STORE)
                    .persistent(call.persistent)
                    .bind(value.json.as_bytes())
                    .bind(call.consumer.as_bytes())
                    .bind(key.as_bytes())
                    .bind(number)
                    .execute(&mut *conn)
                    .await?;
                rows += affects_rows(&done, number)?;
            }
            Ok(rows)
        })
    }
}

async fn insert_chunk(
    conn: &mut MySqlConnection,
    call: Call<'_>,
    rows: &[Row<'_>],
) -> Result<Vec<bool>, sqlx::Error> {
    let persistent = call.persistent && rows.len() <= KEYS_OF_A_QUESTION;
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
    let mut fresh = HashSet::with_capacity(rows.len());
    for keys in keys.chunks(KEYS_OF_A_QUESTION) {
        let number = next_number();
        let found = select("claim.repeats", number, call, keys)
            .build()
            .persistent(persistent)
            .fetch_all(&mut *conn)
            .await?;
        for row in answered(&found, number)? {
            if row.try_get::<Option<u32>, _>("repeats")?.is_none() {
                fresh.insert(row.try_get::<Vec<u8>, _>("found")?);
            }
        }
    }
    Ok(keys
        .iter()
        .map(|key| fresh.contains(key.as_bytes()))
        .collect())
}

/// Claims beside a number, which comes back also when there is none. The keys are looked up one by one: a search for a list of them may
/// walk through a small table and lock every claim that it passes, which deadlocks with other batches.
fn select(columns: &str, number: u64, call: Call<'_>, keys: &[&str]) -> QueryBuilder<MySql> {
    let mut select = QueryBuilder::new("SELECT CAST(");
    select
        .push_bind(number)
        .push(" AS UNSIGNED) AS number, claim.message_id AS found, ")
        .push(columns)
        .push(" FROM (");
    let mut list = select.separated(" UNION ALL ");
    for key in keys {
        list.push("SELECT ")
            .push_bind_unseparated(key.as_bytes())
            .push_unseparated(" AS message_id");
    }
    select
        .push(") AS question LEFT JOIN processed_messages AS claim FORCE INDEX (PRIMARY) ON claim.consumer = ")
        .push_bind(call.consumer.as_bytes())
        .push(" AND claim.message_id = question.message_id LOCK IN SHARE MODE");
    select
}

pub(super) fn text(bytes: Vec<u8>) -> Result<String, sqlx::Error> {
    String::from_utf8(bytes).map_err(|error| sqlx::Error::Decode(error.into()))
}
