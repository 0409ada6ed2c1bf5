use idem::idempotent;
use sqlx::PgConnection;

struct Event {
    id: String,
    amount: i64,
}

#[idempotent(key = "format!(\"{id}-{part}\")", consumer = "patterns")]
async fn add(
    Event { id: _, mut amount }: Event,
    (id, part): (u64, u8),
    mut note: String,
    tx: &mut PgConnection,
) -> Result<String, sqlx::Error> {
    const STEP: i64 = 1;
    let _ = tx;
    amount += STEP;
    note.push_str(&amount.to_string());
    Ok(note)
}

fn main() {}
