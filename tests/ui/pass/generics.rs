use std::fmt::Display;

use idem::{Key, idempotent};
use sqlx::PgConnection;

trait Identified {
    type Id: Key;
    fn id(&self) -> Self::Id;
}

#[idempotent(key = "event.id()", consumer = "generic")]
async fn add<'e, E, const N: usize>(
    tx: &mut PgConnection,
    event: &'e E,
    extra: [u8; N],
    label: impl Display + Send,
) -> Result<&'e E, sqlx::Error>
where
    E: Identified + Sync + ?Sized,
    E::Id: Send,
{
    let _ = (tx, extra, label.to_string());
    Ok(event)
}

fn main() {}
