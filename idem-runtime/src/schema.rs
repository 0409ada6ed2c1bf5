use crate::backend::{self, Backend, Closes};
use crate::error::Step;
use crate::source::Guard;
use crate::transaction;
use crate::{Error, Source};

/// Creates the table of claims, or upgrades it in place. Safe to run at every start and in many processes at once; it leaves sqlx's own
/// migrations table alone. For migrations of your own take the statements in [`sql`].
///
/// On PostgreSQL, where a handler of the program has a `time`, the table by days is created too: see [`Days`](crate::Days).
///
/// Where the table is there and up to date it changes nothing, and needs no right to create tables.
///
/// Give it a pool or a connection outside a transaction: on MySQL, DDL commits the transaction it runs in, and on PostgreSQL a missing
/// table aborts it. The table's name is not qualified: it lands in, and is looked for in, the schema that `search_path` or the
/// connection's database says.
///
/// # Errors
///
/// [`Error::Database`] when the connection fails, or when the table is missing and the user may not create it. If your own migrations
/// create it (see [`sql`]), there is no need to call this.
pub async fn migrate<'c, S, DB>(source: S) -> Result<(), Error>
where
    DB: Backend,
    S: Source<'c, Database = DB>,
{
    let mut lease = source.lease().await?;
    let (conn, guard) = lease.split();
    let outer = backend::depth::<DB>(conn);
    // Days are made in a transaction, which a pool must not get back when this is dropped in it.
    guard.close = DB::CLOSES != Closes::Never;
    let migrated = migrate_on::<DB>(conn).await;
    *guard = Guard::default();
    if migrated.is_err() {
        transaction::give_up(&mut lease, outer).await;
    }
    migrated
}

async fn migrate_on<DB: Backend>(conn: &mut DB::Connection) -> Result<(), Error> {
    let failed = Error::database(Step::Migrate);
    if DB::probe(conn).await.is_err() {
        DB::migrate(conn).await.map_err(failed)?;
    }
    let failed = Error::database(Step::Days);
    DB::migrate_days(conn).await.map_err(failed)
}

/// The statements that [`migrate`] runs, for people who keep their own migrations.
///
/// The consumer is part of the primary key, and both of its columns compare byte by byte: the collation `"C"` on PostgreSQL,
/// VARBINARY on MySQL and MariaDB (whose text collations fold case and ignore trailing blanks), BINARY on SQLite.
///
/// The columns that may be null belong to arguments that not every handler has: `version`, `fingerprint`, and `result` to `replay`. On MySQL
/// `repeats` counts how often a batch, or a delivery with a business key or a fingerprint, met the claim again. A table that was created without them
/// keeps serving handlers without these arguments.
///
/// The index on `processed_at` is the pruner's. The statements that upgrade a table change no row; those that add the index read the whole table,
/// while PostgreSQL lets nobody write to it: for a table of many millions of rows, run `CREATE INDEX CONCURRENTLY` under the same name before.
pub mod sql {
    macro_rules! statements {
        ($($name:ident: $title:literal, $file:literal)*) => {$(
            #[doc = concat!($title, ":\n\n```sql\n", include_str!(concat!("schema/", $file, ".sql")), "```")]
            pub const $name: &str = include_str!(concat!("schema/", $file, ".sql"));
        )*};
    }

    statements! {
        POSTGRES: "For PostgreSQL", "postgres"
        POSTGRES_UPGRADE: "For PostgreSQL, where an older version has created the table", "postgres_upgrade"
        POSTGRES_BY_DAY: "For PostgreSQL, the table of handlers with `time`, which [`Days`](crate::Days) creates with its partitions", "postgres_by_day"
        POSTGRES_ARCHIVE: "For PostgreSQL, the table of [`Archive::table`](crate::Archive::table)", "postgres_archive"
        MYSQL: "For MySQL and MariaDB", "mysql"
        MYSQL_UPGRADE: "For MySQL and MariaDB, where an older version has created the table; skip what is there", "mysql_upgrade"
        MYSQL_ARCHIVE: "For MySQL and MariaDB, the table of [`Archive::table`](crate::Archive::table)", "mysql_archive"
        SQLITE: "For SQLite", "sqlite"
        SQLITE_UPGRADE: "For SQLite, where an older version has created the table; skip the columns that are there", "sqlite_upgrade"
        SQLITE_ARCHIVE: "For SQLite, the table of [`Archive::table`](crate::Archive::table)", "sqlite_archive"
    }
}
