pub(crate) mod db {
    pub(crate) use sqlx::{Sqlite as Db, SqliteConnection as Connection, SqlitePool as Pool};

    pub(crate) const KILLS: bool = false;
}

#[path = "fixture.rs"]
mod fixture;
#[path = "memory.rs"]
mod memory;
#[path = "outside.rs"]
mod outside;
#[path = "right.rs"]
mod right;
#[path = "unfinished.rs"]
mod unfinished;
#[path = "use.rs"]
mod use_of_it;
