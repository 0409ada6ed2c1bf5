use idem::idempotent;
use sqlx::PgConnection;

struct OrderPaid {
    id: String,
    account: i64,
}

async fn owner(tx: &mut PgConnection, account: i64) -> Result<String, sqlx::Error> {
    let query = sqlx::query_scalar("SELECT owner FROM accounts WHERE id = $1");
    query.bind(account).fetch_one(tx).await
}

#[idempotent(key = "event.id", consumer = "billing")]
async fn add_credits(tx: &mut PgConnection, event: &OrderPaid) -> Result<i64, sqlx::Error> {
    owner(tx, event.account).await
}

fn main() {}
