//! Whose answer it is: sqlx 0.9 loses step when a statement is cancelled while it is prepared, so that every question carries a number.

use std::sync::atomic::{AtomicU64, Ordering};

use sqlx::Row as _;
use sqlx::mysql::{MySqlQueryResult, MySqlRow};

/// Which of the two numbers the answer carries.
pub(super) fn is_first(
    done: &MySqlQueryResult,
    first: u64,
    second: u64,
) -> Result<bool, sqlx::Error> {
    match done.last_insert_id() {
        id if id == first => Ok(true),
        id if id == second => Ok(false),
        _ => Err(out_of_step()),
    }
}

/// How many rows were affected; without any, there is no number either, and the caller asks a question next.
pub(super) fn affects_rows(done: &MySqlQueryResult, number: u64) -> Result<u64, sqlx::Error> {
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

/// The claims among rows that each carry the number, if this is the answer to that question.
pub(super) fn answered(
    rows: &[MySqlRow],
    number: u64,
) -> Result<impl Iterator<Item = &MySqlRow>, sqlx::Error> {
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
