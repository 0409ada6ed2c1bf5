pub(crate) mod db {
    pub(crate) use sqlx::{PgConnection as Connection, PgPool as Pool, Postgres as Db};

    pub(crate) const KILLS: bool = true;
}

#[path = "fixture.rs"]
mod fixture;
#[path = "memory.rs"]
mod memory;
#[path = "outside.rs"]
mod outside;
#[path = "right.rs"]
mod right;
#[path = "tables.rs"]
mod tables;
#[path = "unfinished.rs"]
mod unfinished;
#[path = "use.rs"]
mod use_of_it;
