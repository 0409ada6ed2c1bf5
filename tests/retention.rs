//! P12: retention never reopens the door early, on each database.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]
#![allow(clippy::similar_names, reason = "what a pruner has pruned")]
#![allow(
    clippy::duplicate_mod,
    reason = "written once, and run on each database"
)]

#[path = "retention/clock.rs"]
mod clock;

#[path = "retention"]
mod postgres {
    pub(crate) mod db {
        pub(crate) use sqlx::{PgConnection as Conn, Postgres as Db};

        /// Consumer, key, and its age in seconds.
        pub(crate) const CLAIM: &str = "INSERT INTO processed_messages (consumer, message_id, processed_at) \
            VALUES ($1, $2, now() - make_interval(secs => $3))";
        pub(crate) const MANY: &str = "INSERT INTO processed_messages (consumer, message_id, processed_at) \
            SELECT $1, $2 || n, now() - make_interval(secs => $3) FROM generate_series(1, $4) AS n";
        pub(crate) const VERSION: &str =
            "UPDATE processed_messages SET version = 7 WHERE message_id = $1";
        pub(crate) const KEYS: &str =
            "SELECT message_id FROM processed_messages ORDER BY message_id";
        /// Locks a claim as a delivery may.
        pub(crate) const LOCK: &str =
            "SELECT message_id FROM processed_messages WHERE message_id = $1 FOR UPDATE";
        pub(crate) const EFFECTS: &str = "CREATE TABLE effects (message text NOT NULL)";
        pub(crate) const EFFECT: &str = "INSERT INTO effects (message) VALUES ($1)";
        /// Whether a claim can be locked on its own.
        /// What a pruner holds during a chunk.
        pub(crate) const PRUNERS_LOCK: Option<&str> = Some(
            "SELECT pg_advisory_xact_lock((7236837::bigint << 32) | 'processed_messages'::regclass::oid::bigint)",
        );
        /// Each key, and the age of its claim in seconds.
        pub(crate) const AGES: &str = "SELECT message_id, extract(epoch FROM clock_timestamp() - processed_at)::float8 FROM processed_messages";
        /// What makes another type of the time of claims, or a claim with a time in another form.
        pub(crate) const OTHER_TIME: Result<&str, &str> =
            Ok("ALTER TABLE processed_messages ALTER processed_at TYPE timestamp");
        pub(crate) const HAS_WAITS: bool = true;
    }
    #[path = "archive.rs"]
    mod archive;
    #[path = "days.rs"]
    mod days;
    #[path = "doctor_postgres.rs"]
    mod doctor;
    #[path = "index.rs"]
    mod index;
    #[path = "parts.rs"]
    mod parts;
    #[path = "pruner.rs"]
    pub(crate) mod pruner;
    #[path = "races.rs"]
    mod races;
}

#[path = "retention"]
mod mysql {
    pub(crate) mod db {
        pub(crate) use sqlx::{MySql as Db, MySqlConnection as Conn};

        pub(crate) const CLAIM: &str = "INSERT INTO processed_messages (consumer, message_id, processed_at) \
            VALUES (?, ?, FROM_UNIXTIME(UNIX_TIMESTAMP(NOW(6)) - ?))";
        pub(crate) const MANY: &str = "INSERT INTO processed_messages (consumer, message_id, processed_at) \
            SELECT ?, CONCAT(?, seq), FROM_UNIXTIME(UNIX_TIMESTAMP(NOW(6)) - ?) FROM seq_1_to_1000000 WHERE seq <= ?";
        pub(crate) const VERSION: &str =
            "UPDATE processed_messages SET version = 7 WHERE message_id = ?";
        pub(crate) const KEYS: &str =
            "SELECT CAST(message_id AS CHAR) FROM processed_messages ORDER BY message_id";
        pub(crate) const LOCK: &str = "SELECT CAST(message_id AS CHAR) FROM processed_messages WHERE consumer = 'billing' AND message_id = ? FOR UPDATE";
        pub(crate) const EFFECTS: &str =
            "CREATE TABLE effects (message varbinary(2000) NOT NULL) ENGINE = InnoDB";
        pub(crate) const EFFECT: &str = "INSERT INTO effects (message) VALUES (?)";
        pub(crate) const PRUNERS_LOCK: Option<&str> =
            Some("SELECT GET_LOCK(CONCAT('idem.prune.', MD5(DATABASE())), 0)");
        pub(crate) const AGES: &str = "SELECT CAST(message_id AS CHAR), CAST(UNIX_TIMESTAMP(NOW(6)) - UNIX_TIMESTAMP(processed_at) AS DOUBLE) FROM processed_messages";
        pub(crate) const OTHER_TIME: Result<&str, &str> =
            Ok("ALTER TABLE processed_messages MODIFY processed_at datetime(6)");
        pub(crate) const HAS_WAITS: bool = true;
    }
    #[path = "archive.rs"]
    mod archive;
    #[path = "doctor_mysql.rs"]
    mod doctor;
    #[path = "locks.rs"]
    mod locks;
    #[path = "pruner.rs"]
    pub(crate) mod pruner;
    #[path = "races.rs"]
    mod races;
}

#[path = "retention"]
mod sqlite {
    pub(crate) mod db {
        pub(crate) use sqlx::{Sqlite as Db, SqliteConnection as Conn};

        pub(crate) const CLAIM: &str = "INSERT INTO processed_messages (consumer, message_id, processed_at) \
            VALUES (?, ?, strftime('%Y-%m-%d %H:%M:%f', 'now', '-' || ? || ' seconds'))";
        pub(crate) const MANY: &str = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?4) \
            INSERT INTO processed_messages (consumer, message_id, processed_at) \
            SELECT ?1, ?2 || i, strftime('%Y-%m-%d %H:%M:%f', 'now', '-' || ?3 || ' seconds') FROM n";
        pub(crate) const VERSION: &str =
            "UPDATE processed_messages SET version = 7 WHERE message_id = ?";
        pub(crate) const KEYS: &str =
            "SELECT message_id FROM processed_messages ORDER BY message_id";
        pub(crate) const LOCK: &str =
            "SELECT message_id FROM processed_messages WHERE message_id = ?";
        pub(crate) const EFFECTS: &str = "CREATE TABLE effects (message text NOT NULL)";
        pub(crate) const EFFECT: &str = "INSERT INTO effects (message) VALUES (?)";
        pub(crate) const PRUNERS_LOCK: Option<&str> = None;
        pub(crate) const AGES: &str = "SELECT message_id, (julianday('now') - julianday(processed_at)) * 86400.0 FROM processed_messages";
        pub(crate) const OTHER_TIME: Result<&str, &str> = Err(
            "INSERT INTO processed_messages (consumer, message_id, processed_at) VALUES ('billing', 'other', unixepoch())",
        );
        pub(crate) const HAS_WAITS: bool = false;
    }
    #[path = "archive.rs"]
    mod archive;
    mod automatic_rollback;
    #[path = "doctor_sqlite.rs"]
    mod doctor;
    #[path = "pruner.rs"]
    pub(crate) mod pruner;
    #[path = "races.rs"]
    mod races;
}
