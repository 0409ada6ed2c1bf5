// The library under another name, as a crate of one's own re-exports it.
use sqlx::{PgConnection, PgPool};

mod prelude {
    pub mod messaging {
        pub use ::idem as once_only;
    }
}

/// Not the library.
mod idem {}

struct Event {
    id: String,
    amount: i64,
}

#[prelude::messaging::once_only::idempotent(
    key = "(event.id, event.amount)", consumer = "elsewhere", crate = "crate::prelude::messaging::once_only", retries = 3, replay,
    fingerprint = "event.amount"
)]
async fn quoted(tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
    let _ = tx;
    Ok(event.amount)
}

macro_rules! handler {
    ($name:ident, $answer:ty) => {
        #[prelude::messaging::once_only::idempotent(
            key = event.id, consumer = "elsewhere", crate = $crate::prelude::messaging::once_only, each = event in events
        )]
        async fn $name(tx: &mut PgConnection, events: Vec<Event>) -> $answer {
            let _ = (tx, events);
            Ok(1)
        }
    };
}

handler!(in_a_macro, Result<i64, sqlx::Error>);

async fn on_message(pool: &PgPool, event: Event) -> Result<(), sqlx::Error> {
    let _ = quoted(pool, &event).await?;
    let _ = in_a_macro(pool, vec![event]).await?;
    Ok(())
}

fn main() {
    let _ = on_message;
}
