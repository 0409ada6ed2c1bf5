use sqlx::{QueryBuilder, Row as _, Sqlite, SqliteConnection};

use crate::backend::BoxFuture;
use crate::rows::{Call, Row, Rows, Stored, Value};
use crate::version::ClaimedVersion;

/// A statement takes 32,766 parameters: <https://www.sqlite.org/limits.html#max_variable_number>
const ROWS_OF_A_STATEMENT: usize = 10_000;

/// Statements of more rows are not kept prepared.
const ROWS_KEPT: usize = 500;

/// `?4` is what a missing version counts as, and `?5` the lowest that may be followed.
macro_rules! may_follow {
    () => {
        "(processed_messages.version IS NULL OR processed_messages.version < ?3) \
         AND coalesce(processed_messages.version, ?4) >= ?5"
    };
}

const INSERT_VERSION: &str = concat!(
    "INSERT INTO processed_messages (consumer, message_id, version) VALUES (?1, ?2, ?3) \
     ON CONFLICT (consumer, message_id) \
     DO UPDATE SET version = excluded.version, processed_at = excluded.processed_at WHERE ",
    may_follow!()
);

const UPDATE_VERSION: &str = concat!(
    "UPDATE processed_messages SET version = ?3, processed_at = strftime('%Y-%m-%d %H:%M:%f', 'now') \
     WHERE consumer = ?1 AND message_id = ?2 AND ",
    may_follow!()
);

impl Rows for Sqlite {
    fn insert<'a>(
        conn: &'a mut SqliteConnection,
        call: Call<'a>,
        key: &'a str,
    ) -> BoxFuture<'a, Result<bool, sqlx::Error>> {
        Box::pin(async move {
            let done = sqlx::query(
                "INSERT INTO processed_messages (consumer, message_id) VALUES (?, ?) ON CONFLICT (consumer, message_id) DO NOTHING",
            )
            .persistent(call.persistent)
            .bind(call.consumer)
            .bind(key)
            .execute(conn)
            .await?;
            Ok(done.rows_affected() == 1)
        })
    }

    fn insert_many<'a>(
        conn: &'a mut SqliteConnection,
        call: Call<'a>,
        rows: &'a [Row<'a>],
    ) -> BoxFuture<'a, Result<Vec<bool>, sqlx::Error>> {
        Box::pin(async move {
            let mut fresh = std::collections::HashSet::new();
            for rows in rows.chunks(ROWS_OF_A_STATEMENT) {
                let mut insert = QueryBuilder::<Sqlite>::new(
                    "INSERT INTO processed_messages (consumer, message_id, fingerprint) ",
                );
                insert.push_values(rows, |mut values, row| {
                    values
                        .push_bind(call.consumer)
                        .push_bind(row.key)
                        .push_bind(row.fingerprint.map(<[u8; 32]>::as_slice));
                });
                insert.push(" ON CONFLICT (consumer, message_id) DO NOTHING RETURNING message_id");
                let claimed = insert
                    .build_query_scalar::<String>()
                    .persistent(call.persistent && rows.len() <= ROWS_KEPT)
                    .fetch_all(&mut *conn)
                    .await?;
                fresh.extend(claimed);
            }
            Ok(rows.iter().map(|row| fresh.contains(row.key)).collect())
        })
    }

    /// A version that may not be the first of its key can only update.
    fn advance<'a>(
        conn: &'a mut SqliteConnection,
        call: Call<'a>,
        key: &'a str,
        version: ClaimedVersion,
    ) -> BoxFuture<'a, Result<bool, sqlx::Error>> {
        Box::pin(async move {
            let statement = if version.may_be_first() {
                INSERT_VERSION
            } else {
                UPDATE_VERSION
            };
            let done = sqlx::query(statement)
                .persistent(call.persistent)
                .bind(call.consumer)
                .bind(key)
                .bind(version.number)
                .bind(version.floor())
                .bind(version.lowest())
                .execute(conn)
                .await?;
            Ok(done.rows_affected() == 1)
        })
    }

    fn read<'a>(
        conn: &'a mut SqliteConnection,
        call: Call<'a>,
        keys: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<Stored>, sqlx::Error>> {
        Box::pin(async move {
            let mut found = Vec::new();
            for keys in keys.chunks(ROWS_OF_A_STATEMENT) {
                let mut select = QueryBuilder::<Sqlite>::new(
                    "SELECT message_id, version, fingerprint, result FROM processed_messages WHERE consumer = ",
                );
                select.push_bind(call.consumer);
                push_keys(&mut select, keys);
                let rows = select
                    .build()
                    .persistent(call.persistent && keys.len() <= ROWS_KEPT)
                    .fetch_all(&mut *conn)
                    .await?;
                for row in rows {
                    found.push(Stored {
                        key: row.try_get(0)?,
                        version: row.try_get(1)?,
                        fingerprint: row.try_get(2)?,
                        result: row.try_get(3)?,
                    });
                }
            }
            Ok(found)
        })
    }

    fn store<'a>(
        conn: &'a mut SqliteConnection,
        call: Call<'a>,
        keys: &'a [&'a str],
        value: Value<'a>,
    ) -> BoxFuture<'a, Result<u64, sqlx::Error>> {
        Box::pin(async move {
            let mut update = QueryBuilder::<Sqlite>::new("UPDATE processed_messages SET result = ");
            update
                .push_bind(value.json)
                .push(" WHERE consumer = ")
                .push_bind(call.consumer);
            push_keys(&mut update, keys);
            update.push(" AND result IS NULL");
            let done = update
                .build()
                .persistent(call.persistent)
                .execute(conn)
                .await?;
            Ok(done.rows_affected())
        })
    }
}

fn push_keys<'a>(query: &mut QueryBuilder<Sqlite>, keys: &'a [&'a str]) {
    query.push(" AND message_id IN (");
    let mut list = query.separated(", ");
    for key in keys {
        list.push_bind(*key);
    }
    query.push(")");
}
