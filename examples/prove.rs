//! Proves a right handler with `idem::testing`, and shows what is wrong with two others. In your project these are tests:
//! `#[tokio::test]`, and `.assert()` in place of `println!`.
//!
//! ```sh
//! cargo run --example prove --features prove
//! ```

use std::sync::atomic::{AtomicU32, Ordering};

use idem::idempotent;
use idem::testing::{Proof, State};
use sqlx::sqlite::{Sqlite, SqliteConnection, SqlitePool, SqlitePoolOptions};

struct OrderPaid {
    id: &'static str,
    account: i64,
    amount: i64,
}

const ADD: &str = "UPDATE accounts SET credits = credits + ? WHERE id = ?";
const NOTE: &str = "INSERT INTO statements (account, amount) VALUES (?, ?)";

/// Right: all of it on the transaction, and each error returned.
#[idempotent(key = "event.id", consumer = "right")]
async fn right(tx: &mut SqliteConnection, event: &OrderPaid) -> Result<(), sqlx::Error> {
    sqlx::query(ADD)
        .bind(event.amount)
        .bind(event.account)
        .execute(&mut *tx)
        .await?;
    sqlx::query(NOTE)
        .bind(event.account)
        .bind(event.amount)
        .execute(&mut *tx)
        .await?;
    Ok(())
}

/// "The statement is not that important": when its row cannot be written, the message is acknowledged without it.
#[idempotent(key = "event.id", consumer = "drops_an_error")]
async fn drops_an_error(tx: &mut SqliteConnection, event: &OrderPaid) -> Result<(), sqlx::Error> {
    sqlx::query(ADD)
        .bind(event.amount)
        .bind(event.account)
        .execute(&mut *tx)
        .await?;
    let note = sqlx::query(NOTE).bind(event.account).bind(event.amount);
    if let Err(error) = note.execute(&mut *tx).await {
        eprintln!("ignored: {error}");
    }
    Ok(())
}

/// Sends a mail from within the transaction: when that rolls back, the mail is out, and the redelivery sends another.
#[idempotent(key = "event.id", consumer = "mails")]
async fn mails(
    tx: &mut SqliteConnection,
    event: &OrderPaid,
    mailer: &Mailer,
) -> Result<(), sqlx::Error> {
    sqlx::query(ADD)
        .bind(event.amount)
        .bind(event.account)
        .execute(&mut *tx)
        .await?;
    mailer.send("your credits have arrived");
    Ok(())
}

/// Stands in for the real one, and counts.
#[derive(Default)]
struct Mailer {
    sent: AtomicU32,
}

impl Mailer {
    fn send(&self, _: &str) {
        self.sent.fetch_add(1, Ordering::SeqCst);
    }
}

/// All that the handlers change.
#[derive(Debug, PartialEq)]
struct Effect {
    credits: i64,
    statements: i64,
    mails: u32,
}

/// What the proofs have in common: everything but the handler.
fn proof<'p>(pool: &'p SqlitePool, mailer: &'p Mailer) -> Proof<'p, Sqlite, State<'p, Effect>> {
    Proof::new(pool)
        .fresh(async |pool| {
            mailer.sent.store(0, Ordering::SeqCst);
            sqlx::raw_sql("UPDATE accounts SET credits = 0; DELETE FROM statements")
                .execute(pool)
                .await
        })
        .state(async |pool| {
            let (credits, statements) = sqlx::query_as(
                "SELECT credits, (SELECT count(*) FROM statements) FROM accounts WHERE id = 1",
            )
            .fetch_one(pool)
            .await?;
            Ok::<_, sqlx::Error>(Effect {
                credits,
                statements,
                mails: mailer.sent.load(Ordering::SeqCst),
            })
        })
}

#[tokio::main]
async fn main() -> Result<(), sqlx::Error> {
    let pool = SqlitePoolOptions::new()
        .max_connections(1)
        .connect("sqlite::memory:")
        .await?;
    idem::migrate(&pool).await?;
    sqlx::raw_sql(
        "CREATE TABLE accounts (id INTEGER PRIMARY KEY, credits INTEGER NOT NULL);
         CREATE TABLE statements (account INTEGER NOT NULL, amount INTEGER NOT NULL);
         INSERT INTO accounts VALUES (1, 0)",
    )
    .execute(&pool)
    .await?;
    let mailer = Mailer::default();
    let event = OrderPaid {
        id: "evt-1",
        account: 1,
        amount: 10,
    };

    let report = proof(&pool, &mailer)
        .deliver(async |pool| right(pool, &event).await)
        .await;
    println!("right: {report}\n");
    let report = proof(&pool, &mailer)
        .deliver(async |pool| drops_an_error(pool, &event).await)
        .await;
    println!("drops_an_error: {report}");
    let report = proof(&pool, &mailer)
        .deliver(async |pool| mails(pool, &event, &mailer).await)
        .await;
    println!("mails: {report}");
    Ok(())
}
