//! The same handler twice, by hand and under `#[idempotent]`, with an error that is dropped. By hand the message is acknowledged and lost.
//!
//! ```text
//! cargo run --example by_hand --features by_hand     # DATABASE_URL says where PostgreSQL is
//! ```

use anyhow::Context as _;
use idem::idempotent;
use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};

/// "The statistics are not important." Their table is missing, and the failed statement aborts the whole transaction.
async fn count(tx: &mut PgConnection) {
    let counted = sqlx::query("INSERT INTO statistics VALUES (1)")
        .execute(tx)
        .await;
    if let Err(error) = counted {
        println!("  ignored: {error}");
    }
}

async fn add_credits(tx: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::query("UPDATE accounts SET credits = credits + 100")
        .execute(&mut *tx)
        .await?;
    count(tx).await;
    Ok(())
}

async fn by_hand(pool: &PgPool, id: &str) -> sqlx::Result<()> {
    let mut tx = pool.begin().await?;
    sqlx::query("INSERT INTO processed_messages (consumer, message_id) VALUES ('by hand', $1)")
        .bind(id)
        .execute(&mut *tx)
        .await?;
    add_credits(&mut tx).await?;
    tx.commit().await
}

#[idempotent(key = "id", consumer = "billing")]
async fn with_idem(tx: &mut PgConnection, id: &str) -> anyhow::Result<()> {
    add_credits(tx)
        .await
        .with_context(|| format!("message {id}"))
}

async fn credits(pool: &PgPool) -> sqlx::Result<i32> {
    sqlx::query_scalar("SELECT credits FROM accounts")
        .fetch_one(pool)
        .await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL")
        .unwrap_or_else(|_| "postgres://postgres@127.0.0.1:5432/postgres".to_owned());
    // Temporary tables belong to a connection, so that there must be no second one.
    let pool = PgPoolOptions::new().max_connections(1).connect(&url).await;
    let pool = pool.context("cannot connect to PostgreSQL")?;
    let tables = format!(
        "SET search_path = pg_temp; {} CREATE TABLE accounts (credits int NOT NULL); INSERT INTO accounts VALUES (0)",
        idem::sql::POSTGRES
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(tables))
        .execute(&pool)
        .await?;

    println!("by hand:");
    let result = by_hand(&pool, "evt-1").await;
    println!("  the handler says {result:?}, so that the message is acknowledged");
    println!(
        "  credits: {}, of 100: the message is lost",
        credits(&pool).await?
    );

    println!("with idem:");
    match with_idem(&pool, "evt-1").await {
        Ok(outcome) => println!("  the handler says {outcome:?}"),
        Err(error) => println!("  the handler says: {error:#}"),
    }
    println!(
        "  credits: {}, and the message is not acknowledged",
        credits(&pool).await?
    );
    Ok(())
}
