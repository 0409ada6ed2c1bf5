use idem::testing::{Proof, State};
use idem_tests::Fixture;

use super::db::{Db, Pool};

pub(crate) const PAY: &str = "UPDATE accounts SET credits = credits + 10 WHERE id = 1";
pub(crate) const NOTE: &str = "INSERT INTO notes VALUES (1)";

/// What the handlers of these tests change in the database.
#[derive(Debug, PartialEq)]
pub(crate) struct Effect {
    credits: i64,
    notes: i64,
}

pub(crate) async fn database() -> (Fixture<Db>, Pool) {
    let fixture = Fixture::<Db>::new().await;
    let pool = fixture.pool(5).await;
    idem::migrate(&pool).await.unwrap();
    for sql in [
        "CREATE TABLE accounts (id BIGINT PRIMARY KEY, credits BIGINT NOT NULL)",
        "CREATE TABLE notes (id BIGINT)",
        "INSERT INTO accounts VALUES (1, 0), (2, 0)",
    ] {
        sqlx::raw_sql(sql).execute(&pool).await.unwrap();
    }
    (fixture, pool)
}

/// Everything but the delivery.
pub(crate) fn proof(pool: &Pool) -> Proof<'_, Db, State<'_, Effect>> {
    Proof::new(pool).fresh(fresh).state(effect)
}

pub(crate) async fn fresh(pool: &Pool) -> Result<(), sqlx::Error> {
    sqlx::raw_sql("UPDATE accounts SET credits = 0")
        .execute(pool)
        .await?;
    sqlx::raw_sql("DELETE FROM notes").execute(pool).await?;
    Ok(())
}

pub(crate) async fn effect(pool: &Pool) -> Result<Effect, sqlx::Error> {
    let (credits, notes) =
        sqlx::query_as("SELECT credits, (SELECT count(*) FROM notes) FROM accounts WHERE id = 1")
            .fetch_one(pool)
            .await?;
    Ok(Effect { credits, notes })
}

/// The findings, a line each.
pub(crate) fn lines(report: &idem::testing::Report) -> Vec<String> {
    report.findings().iter().map(ToString::to_string).collect()
}
