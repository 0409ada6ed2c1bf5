//! The handlers under test, as a user would write them, for each database.

mod fault;

use idem::Outcome;

use crate::harm::Conduct;
use crate::message::{Kind, Message};
use crate::store::{Store, with_pool};
pub(crate) use fault::Fault;

/// How long claims are kept, and how long the broker redelivers, is the same for all of them: the pruners have old claims to take, and must
/// leave these alone.
macro_rules! handlers {
    ($module:ident, $connection:ident, $statements:expr) => {
        mod $module {
            use std::collections::BTreeMap;

            use idem::{Outcome, idempotent};
            use sqlx::{QueryBuilder, $connection};

            use super::{Delivered, Fault, Statements};
            use crate::harm::{Conduct, Point, reach};
            use crate::message::{Kind, Message};

            const SQL: Statements = $statements;

            type Pool = sqlx::Pool<<$connection as sqlx::Connection>::Database>;

            #[idempotent(
                key = "message.key()",
                consumer = "book",
                retain = "7d",
                redelivery = "1d"
            )]
            async fn book(
                tx: &mut $connection,
                message: &Message,
                conduct: Conduct,
            ) -> Result<(), Fault> {
                reach(Point::AfterClaim);
                enter(tx, message).await?;
                reach(Point::InTheBody);
                add(tx, message.account, message.amount).await?;
                end(tx, message, conduct).await
            }

            #[idempotent(
                key = "message.key()",
                consumer = "transfer",
                retain = "7d",
                redelivery = "1d",
                retries = 2
            )]
            async fn transfer(
                tx: &mut $connection,
                message: &Message,
                conduct: Conduct,
            ) -> Result<(), Fault> {
                reach(Point::AfterClaim);
                enter(tx, message).await?;
                add(tx, message.account, -message.amount).await?;
                reach(Point::InTheBody);
                let added = add(tx, message.other, message.amount).await;
                // A deadlock whose error is dropped.
                if conduct != Conduct::DropError {
                    added?;
                }
                end(tx, message, conduct).await
            }

            #[idempotent(
                key = "message.key()",
                business_key = "message.order()",
                consumer = "charge",
                in_flight = "fail",
                retain = "7d",
                redelivery = "1d"
            )]
            async fn charge(
                tx: &mut $connection,
                message: &Message,
                conduct: Conduct,
            ) -> Result<(), Fault> {
                reach(Point::AfterClaim);
                sqlx::query(SQL.charge)
                    .bind(message.order())
                    .bind(message.number)
                    .execute(&mut *tx)
                    .await?;
                reach(Point::InTheBody);
                end(tx, message, conduct).await
            }

            #[idempotent(
                key = "message.aggregate()",
                consumer = "project",
                version = "message.number"
            )]
            async fn project(
                tx: &mut $connection,
                message: &Message,
                conduct: Conduct,
            ) -> Result<(), Fault> {
                reach(Point::AfterClaim);
                sqlx::query(SQL.version)
                    .bind(message.aggregate())
                    .bind(message.number)
                    .execute(&mut *tx)
                    .await?;
                reach(Point::InTheBody);
                sqlx::query(SQL.project)
                    .bind(message.number)
                    .bind(message.aggregate())
                    .execute(&mut *tx)
                    .await?;
                end(tx, message, conduct).await
            }

            #[idempotent(
                key = "message.key()",
                consumer = "receipt",
                replay,
                in_flight = "2s",
                retain = "7d",
                redelivery = "1d"
            )]
            async fn receipt(
                tx: &mut $connection,
                message: &Message,
                conduct: Conduct,
            ) -> Result<i64, Fault> {
                reach(Point::AfterClaim);
                enter(tx, message).await?;
                reach(Point::InTheBody);
                add(tx, message.account, message.amount).await?;
                end(tx, message, conduct).await?;
                Ok(message.receipt())
            }

            #[idempotent(
                key = "message.0.key()",
                consumer = "batch",
                each = "message in messages",
                retain = "7d",
                redelivery = "1d"
            )]
            async fn batch(
                tx: &mut $connection,
                messages: Vec<(Message, Conduct)>,
            ) -> Result<(), Fault> {
                reach(Point::AfterClaim);
                enter_all(tx, &messages).await?;
                reach(Point::InTheBody);
                add_all(tx, &messages).await?;
                for (message, conduct) in &messages {
                    end(tx, message, *conduct).await?;
                    // What is written after that would stay.
                    if *conduct == Conduct::RollBack {
                        break;
                    }
                }
                Ok(())
            }

            async fn enter(tx: &mut $connection, message: &Message) -> sqlx::Result<()> {
                sqlx::query(SQL.enter)
                    .bind(message.number)
                    .execute(tx)
                    .await
                    .map(drop)
            }

            async fn enter_all(
                tx: &mut $connection,
                messages: &[(Message, Conduct)],
            ) -> sqlx::Result<()> {
                let mut insert = QueryBuilder::new("INSERT INTO ledger (message) ");
                insert.push_values(messages, |mut row, (message, _)| {
                    row.push_bind(message.number);
                });
                insert.build().execute(tx).await.map(drop)
            }

            /// An account is changed once, however many of the messages are for it.
            async fn add_all(
                tx: &mut $connection,
                messages: &[(Message, Conduct)],
            ) -> sqlx::Result<()> {
                let mut sums = BTreeMap::<i64, i64>::new();
                for (message, _) in messages {
                    *sums.entry(message.account).or_default() += message.amount;
                }
                let mut update =
                    QueryBuilder::new("UPDATE accounts SET balance = balance + CASE id");
                for (account, amount) in &sums {
                    update.push(" WHEN ").push_bind(*account);
                    update.push(" THEN ").push_bind(*amount);
                }
                update.push(" END WHERE id IN (");
                let mut accounts = update.separated(", ");
                for account in sums.keys() {
                    accounts.push_bind(*account);
                }
                update.push(")");
                update.build().execute(tx).await.map(drop)
            }

            async fn add(tx: &mut $connection, account: i64, amount: i64) -> sqlx::Result<()> {
                sqlx::query(SQL.add)
                    .bind(amount)
                    .bind(account)
                    .execute(tx)
                    .await
                    .map(drop)
            }

            /// The end of a body, as it behaves. What is written before it fails must never be seen.
            async fn end(
                tx: &mut $connection,
                message: &Message,
                conduct: Conduct,
            ) -> Result<(), Fault> {
                match conduct {
                    Conduct::Well => {}
                    Conduct::Slowly => {
                        tokio::time::sleep(std::time::Duration::from_millis(150)).await
                    }
                    Conduct::Fail | Conduct::Panic => {
                        sqlx::query(SQL.roll_back)
                            .bind(message.number)
                            .execute(&mut *tx)
                            .await?;
                        assert!(conduct != Conduct::Panic, "{}", conduct.name());
                        return Err(Fault::OnPurpose);
                    }
                    Conduct::DropError => {
                        sqlx::query("SELECT no_such_column FROM accounts")
                            .execute(&mut *tx)
                            .await
                            .ok();
                    }
                    Conduct::RollBack => {
                        sqlx::raw_sql("ROLLBACK").execute(&mut *tx).await?;
                    }
                }
                reach(Point::BeforeCommit);
                Ok(())
            }

            pub(super) async fn deliver(
                pool: &Pool,
                message: &Message,
                conduct: Conduct,
            ) -> Delivered {
                match message.kind {
                    Kind::Book => book(pool, message, conduct).await,
                    Kind::Transfer => transfer(pool, message, conduct).await,
                    Kind::Charge => charge(pool, message, conduct).await,
                    Kind::Project => project(pool, message, conduct).await,
                    Kind::Receipt => match receipt(pool, message, conduct).await? {
                        Outcome::Replayed(value) if value != message.receipt() => {
                            Err(Fault::WrongReplay(value))
                        }
                        Outcome::Duplicate => Err(Fault::NoReplay),
                        outcome => Ok(outcome.map(drop)),
                    },
                    Kind::Batch => deliver_batch(pool, vec![(message.clone(), conduct)])
                        .await
                        .remove(0),
                }
            }

            pub(super) async fn deliver_batch(
                pool: &Pool,
                messages: Vec<(Message, Conduct)>,
            ) -> Vec<Delivered> {
                idem::batch(messages, |messages| batch(pool, messages)).await
            }
        }
    };
}

struct Statements {
    enter: &'static str,
    add: &'static str,
    charge: &'static str,
    version: &'static str,
    project: &'static str,
    roll_back: &'static str,
}

const NUMBERED: Statements = Statements {
    enter: "INSERT INTO ledger (message) VALUES ($1)",
    add: "UPDATE accounts SET balance = balance + $1 WHERE id = $2",
    charge: "INSERT INTO charges (order_number, message) VALUES ($1, $2)",
    version: "INSERT INTO versions (aggregate, version) VALUES ($1, $2)",
    project: "UPDATE projections SET version = $1 WHERE aggregate = $2",
    roll_back: "INSERT INTO rolled_back (message) VALUES ($1)",
};

const QUESTIONED: Statements = Statements {
    enter: "INSERT INTO ledger (message) VALUES (?)",
    add: "UPDATE accounts SET balance = balance + ? WHERE id = ?",
    charge: "INSERT INTO charges (order_number, message) VALUES (?, ?)",
    version: "INSERT INTO versions (aggregate, version) VALUES (?, ?)",
    project: "UPDATE projections SET version = ? WHERE aggregate = ?",
    roll_back: "INSERT INTO rolled_back (message) VALUES (?)",
};

handlers!(postgres, PgConnection, super::NUMBERED);
handlers!(mysql, MySqlConnection, super::QUESTIONED);
handlers!(sqlite, SqliteConnection, super::NUMBERED);

/// What a delivery came to.
pub(crate) type Delivered = Result<Outcome<()>, Fault>;

impl Store {
    pub(crate) async fn deliver(&self, message: &Message, conduct: Conduct) -> Delivered {
        match self {
            Self::Postgres(pool) => postgres::deliver(pool, message, conduct).await,
            Self::MySql(pool) => mysql::deliver(pool, message, conduct).await,
            Self::Sqlite(pool) => sqlite::deliver(pool, message, conduct).await,
        }
    }

    /// In one transaction, or one by one if that fails.
    pub(crate) async fn deliver_batch(&self, messages: Vec<(Message, Conduct)>) -> Vec<Delivered> {
        debug_assert!(
            messages
                .iter()
                .all(|(message, _)| message.kind == Kind::Batch)
        );
        match self {
            Self::Postgres(pool) => postgres::deliver_batch(pool, messages).await,
            Self::MySql(pool) => mysql::deliver_batch(pool, messages).await,
            Self::Sqlite(pool) => sqlite::deliver_batch(pool, messages).await,
        }
    }

    /// Removes old claims, again and again, and tells how many.
    pub(crate) async fn prune(&self) {
        with_pool!(self, pool => {
            let pruner = idem::Pruner::new(pool)
                .window(crate::schema::OLD_CONSUMER, crate::schema::RETAIN)
                .chunk(100)
                .pause(std::time::Duration::from_millis(200))
                .every(std::time::Duration::from_secs(1))
                .on_progress(|_| crate::event::tell(format_args!("pruned")))
                .on_error(|_| crate::event::tell(format_args!("not-pruned")));
            let error = pruner.run().await;
            crate::event::tell(format_args!("unexpected pruner ended: {error}"));
        });
    }
}
