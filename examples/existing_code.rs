//! How a team with sqlx code adopts idem: what there was stays as it was, and the attribute goes on top. Needs PostgreSQL:
//!
//! ```text
//! cargo run --example existing_code --features existing_code
//! ```
//!
//! `DATABASE_URL` says where. The tables live in a schema of this run's own, and are gone at the end.
//!
//! The `query!` macros are compiled from `.sqlx`, so that a build needs no database. Whoever changes a query loads `existing_code.sql`
//! into an empty database and runs, in this directory, `cargo sqlx prepare -- --example existing_code --features existing_code` with
//! `DATABASE_URL` set to it.

use std::process::ExitCode;
use std::str::FromStr as _;

use anyhow::{Context as _, anyhow, ensure};
use idem::{Claimed, Outcome, idempotent};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool};
use sqlx::{AssertSqlSafe, Connection as _, Postgres, Transaction};

/// The team's code before idem. Nothing here changes.
mod before {
    use super::{PgConnection, Postgres, Transaction};

    pub(crate) struct Order {
        pub(crate) id: String,
        pub(crate) account: String,
        pub(crate) amount: i64,
    }

    pub(crate) struct Account {
        pub(crate) id: String,
        pub(crate) credits: i64,
    }

    /// A repository, called within the transactions of others.
    pub(crate) struct Accounts;

    impl Accounts {
        pub(crate) async fn add(
            &self,
            conn: &mut PgConnection,
            id: &str,
            amount: i64,
        ) -> sqlx::Result<Account> {
            sqlx::query_as!(
                Account,
                "UPDATE accounts SET credits = credits + $2 WHERE id = $1 RETURNING id, credits",
                id,
                amount
            )
            .fetch_one(conn)
            .await
        }

        pub(crate) async fn credits(&self, conn: &mut PgConnection) -> sqlx::Result<Vec<Account>> {
            sqlx::query_as!(Account, "SELECT id, credits FROM accounts ORDER BY id")
                .fetch_all(conn)
                .await
        }
    }

    /// An old function that wants sqlx's own transaction.
    pub(crate) async fn book(
        tx: &mut Transaction<'_, Postgres>,
        account: &str,
        amount: i64,
    ) -> sqlx::Result<()> {
        sqlx::query!(
            "INSERT INTO ledger (account, amount) VALUES ($1, $2)",
            account,
            amount
        )
        .execute(&mut **tx)
        .await?;
        Ok(())
    }
}

use before::{Accounts, Order};

struct Billing {
    accounts: Accounts,
}

impl Billing {
    /// A method whose callers passed a connection within a transaction: with the attribute they pass a pool, and the body is the old one.
    #[idempotent(key = "order.id", consumer = "billing")]
    async fn add_credits(&self, tx: &mut PgConnection, order: &Order) -> sqlx::Result<i64> {
        let account = self.accounts.add(tx, &order.account, order.amount).await?;
        Ok(account.credits)
    }
}

/// A handler gets its transaction as the type that it declares.
#[idempotent(key = "order.id", consumer = "ledger")]
async fn book(tx: &mut Transaction<'_, Postgres>, order: &Order) -> anyhow::Result<()> {
    before::book(tx, &order.account, order.amount).await?;
    Ok(())
}

/// The team's import of many orders in one transaction. Each delivery joins it through a savepoint, so that an order that fails leaves
/// nothing behind and the others count.
async fn import(billing: &Billing, pool: &PgPool, orders: &[Order]) -> anyhow::Result<()> {
    let mut tx = pool.begin().await?;
    let mut processed = 0;
    for order in orders {
        let outcome = billing.add_credits(&mut tx, order).await;
        if let Ok(Outcome::Processed(_)) = outcome {
            processed += 1;
        }
        show(&order.id, &outcome);
    }
    sqlx::query!(
        "INSERT INTO imports (file, orders) VALUES ($1, $2)",
        "monday.csv",
        processed
    )
    .execute(&mut *tx)
    .await?;
    // After this the deliveries that came to Ok may be acknowledged. `tx.commit()` returns Ok also for a transaction that the database
    // has aborted, and this does not.
    idem::commit(tx).await?;
    Ok(())
}

/// One handler in three forms. They share their claims, since they name the same consumer.
mod three_ways {
    use super::{Accounts, Claimed, Order, Outcome, PgConnection, PgPool, idempotent};

    #[idempotent(key = "order.id", consumer = "bonus")]
    pub(crate) async fn attribute(tx: &mut PgConnection, order: &Order) -> sqlx::Result<i64> {
        let account = Accounts.add(tx, &order.account, 1).await?;
        Ok(account.credits)
    }

    pub(crate) async fn once(pool: &PgPool, order: &Order) -> sqlx::Result<Outcome<i64>> {
        idem::once(pool, "bonus", &order.id, async |tx: &mut PgConnection| {
            let account = Accounts.add(tx, &order.account, 1).await?;
            Ok(account.credits)
        })
        .await
    }

    pub(crate) async fn claim(pool: &PgPool, order: &Order) -> sqlx::Result<Outcome<i64>> {
        match idem::claim(pool, "bonus", &order.id).await? {
            Claimed::Fresh(mut claim) => {
                // An error drops the claim, which rolls it back.
                let account = Accounts.add(&mut claim, &order.account, 1).await?;
                claim.commit().await?;
                Ok(Outcome::Processed(account.credits))
            }
            _ => Ok(Outcome::Duplicate),
        }
    }
}

async fn tour(pool: &PgPool) -> anyhow::Result<()> {
    let order = |id: &str, account: &str, amount| Order {
        id: id.to_owned(),
        account: account.to_owned(),
        amount,
    };
    let billing = Billing { accounts: Accounts };
    let first = order("order-1", "alice", 100);

    println!("1. A method over a repository that is as it was");
    for _ in 0..2 {
        show(&first.id, &billing.add_credits(pool, &first).await);
    }

    println!(
        "\n2. An old function that wants a Transaction; another consumer, to which the order is new"
    );
    for _ in 0..2 {
        show(&first.id, &book(pool, &first).await);
    }

    println!("\n3. An import in one transaction of the team's, which each delivery joins");
    let orders = [
        first,
        order("order-2", "nobody", 5),
        order("order-3", "bob", 40),
    ];
    import(&billing, pool, &orders).await?;

    println!("\n4. The attribute, idem::once and idem::claim are three forms of the same");
    let [first, _, third] = &orders;
    show("attribute", &three_ways::attribute(pool, first).await);
    show("once", &three_ways::once(pool, first).await);
    show("claim", &three_ways::claim(pool, first).await);
    show("claim", &three_ways::claim(pool, third).await);
    show("once", &three_ways::once(pool, third).await);
    show("attribute", &three_ways::attribute(pool, third).await);

    println!("\nBalances");
    let mut conn = pool.acquire().await?;
    let accounts = Accounts.credits(&mut conn).await?;
    for account in &accounts {
        println!("   {:<11} {}", account.id, account.credits);
    }
    let booked = sqlx::query_scalar!("SELECT count(*) FROM ledger")
        .fetch_one(&mut *conn)
        .await?;
    let imported = sqlx::query_scalar!("SELECT orders FROM imports")
        .fetch_one(&mut *conn)
        .await?;
    let credits: Vec<i64> = accounts.iter().map(|account| account.credits).collect();
    ensure!(credits == [101, 41], "alice should have 101 and bob 41");
    ensure!(booked == Some(1), "the ledger should hold one entry");
    ensure!(imported == 1, "the import should count one order");
    println!("\nOK: every order counts once for each consumer.");
    Ok(())
}

fn show<T: std::fmt::Debug, E: std::fmt::Display>(name: &str, result: &Result<Outcome<T>, E>) {
    match result {
        Ok(outcome) => println!("   {name:<11} {outcome:?}"),
        Err(error) => println!("   {name:<11} failed and rolled back: {error}"),
    }
}

async fn run() -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL");
    let url = url
        .as_deref()
        .unwrap_or("postgres://postgres@127.0.0.1:5432/postgres");
    let options =
        PgConnectOptions::from_str(url).context("DATABASE_URL is no URL of PostgreSQL")?;
    let server = format!("{}:{}", options.get_host(), options.get_port());
    let mut conn = PgConnection::connect_with(&options)
        .await
        .map_err(|error| anyhow!("no PostgreSQL at {server} ({error}); set DATABASE_URL"))?;

    // Two runs at once do not meet in a schema of their own.
    let schema = format!("idem_existing_code_{}", std::process::id());
    let create = AssertSqlSafe(format!("CREATE SCHEMA {schema}"));
    sqlx::raw_sql(create).execute(&mut conn).await?;
    let result = in_schema(options.options([("search_path", &schema)])).await;
    let drop = AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE"));
    sqlx::raw_sql(drop).execute(&mut conn).await?;
    conn.close().await?;
    result
}

async fn in_schema(options: PgConnectOptions) -> anyhow::Result<()> {
    let pool = PgPool::connect_with(options).await?;
    let tables = include_str!("existing_code.sql");
    sqlx::raw_sql(tables).execute(&pool).await?;
    idem::migrate(&pool).await?;
    let result = tour(&pool).await;
    pool.close().await;
    result
}

#[tokio::main]
async fn main() -> ExitCode {
    let Err(error) = run().await else {
        return ExitCode::SUCCESS;
    };
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}
