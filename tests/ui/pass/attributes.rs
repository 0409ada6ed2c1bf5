#![deny(missing_docs)]
//! Attributes of the handler stay where they are.

use idem::idempotent;
use sqlx::PgConnection;
use tracing::instrument;

/// A message.
pub struct Event {
    /// Its id.
    pub id: String,
}

/// Documented, and instrumented from above.
#[instrument(skip_all)]
#[idempotent(key = "event.id", consumer = "above")]
pub async fn above(tx: &mut PgConnection, event: &Event) -> Result<(), sqlx::Error> {
    let _ = (tx, event);
    Ok(())
}

/// Documented, and instrumented from below.
#[idempotent(key = "event.id", consumer = "below")]
#[instrument(skip_all, fields(id = event.id))]
pub(crate) async fn below(tx: &mut PgConnection, event: &Event) -> Result<(), sqlx::Error> {
    let _ = (tx, event);
    Ok(())
}

#[cfg(false)]
#[idempotent(key = "event.id", consumer = "absent")]
async fn absent(tx: &mut PgConnection, event: &Missing) -> Result<(), sqlx::Error> {}

fn main() {}
