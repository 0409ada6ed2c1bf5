use crate::backend::Backend;
use crate::error::Step;
use crate::{Error, Source};

/// Creates the table of claims, or upgrades it in place. Safe to run at every start and in many processes at once; it leaves sqlx's own
/// migrations table alone. For migrations of your own take the statements in [`sql`].
///
/// Give it a pool or a connection outside a transaction: on MySQL, DDL commits the transaction it runs in.
///
/// # Errors
///
/// [`Error::Database`] when the connection fails or the user may not create tables.
pub async fn migrate<'c, S, DB>(source: S) -> Result<(), Error>
where
    DB: Backend,
    S: Source<'c, Database = DB>,
{
    let mut lease = source.lease().await?;
    DB::migrate(lease.connection())
        .await
        .map_err(Error::database(Step::Migrate))
}

/// The statements that [`migrate`] runs, for people who keep their own migrations.
///
/// The consumer is part of the primary key, and both of its columns compare byte by byte: the collation `"C"` on PostgreSQL,
/// VARBINARY on MySQL and MariaDB (whose text collations fold case and ignore trailing blanks), BINARY on SQLite.
pub mod sql {
    /// For PostgreSQL.
    pub const POSTGRES: &str = include_str!("schema/postgres.sql");
    /// For MySQL and MariaDB.
    pub const MYSQL: &str = include_str!("schema/mysql.sql");
    /// For SQLite.
    pub const SQLITE: &str = include_str!("schema/sqlite.sql");
}
