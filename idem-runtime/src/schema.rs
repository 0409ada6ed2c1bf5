use crate::backend::Backend;
use crate::error::Step;
use crate::{Error, Source};

/// Creates the table of claims, or upgrades it in place. Safe to run at every start and in many processes at once; it leaves sqlx's own
/// migrations table alone. For migrations of your own take the statements in [`sql`].
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
    if DB::probe(lease.connection()).await.is_ok() {
        return Ok(());
    }
    DB::migrate(lease.connection())
        .await
        .map_err(Error::database(Step::Migrate))
}

/// The statements that [`migrate`] runs, for people who keep their own migrations.
///
/// The consumer is part of the primary key, and both of its columns compare byte by byte: the collation `"C"` on PostgreSQL,
/// VARBINARY on MySQL and MariaDB (whose text collations fold case and ignore trailing blanks), BINARY on SQLite.
pub mod sql {
    /// For PostgreSQL:
    ///
    #[doc = concat!("```sql\n", include_str!("schema/postgres.sql"), "```")]
    pub const POSTGRES: &str = include_str!("schema/postgres.sql");
    /// For MySQL and MariaDB:
    ///
    #[doc = concat!("```sql\n", include_str!("schema/mysql.sql"), "```")]
    pub const MYSQL: &str = include_str!("schema/mysql.sql");
    /// For SQLite:
    ///
    #[doc = concat!("```sql\n", include_str!("schema/sqlite.sql"), "```")]
    pub const SQLITE: &str = include_str!("schema/sqlite.sql");
}
