//! Which tables the kit refuses writes to on PostgreSQL, and what it needs for that.

use idem::idempotent;
use sqlx::{PgConnection, PgPool};

use super::fixture::{NOTE, PAY, database, lines, proof};

#[idempotent(key = "id", consumer = "billing")]
async fn pays(tx: &mut PgConnection, id: &str) -> Result<(), sqlx::Error> {
    let _ = id;
    sqlx::query(PAY).execute(&mut *tx).await?;
    sqlx::query(NOTE).execute(&mut *tx).await?;
    Ok(())
}

/// Finds its table by a path that it sets itself.
#[idempotent(key = "id", consumer = "billing")]
async fn drops_an_error_elsewhere(
    tx: &mut PgConnection,
    id: &str,
    path: &str,
) -> Result<(), sqlx::Error> {
    let _ = id;
    sqlx::query(PAY).execute(&mut *tx).await?;
    sqlx::query("SELECT set_config('search_path', $1, true)")
        .bind(path)
        .execute(&mut *tx)
        .await?;
    let _ = sqlx::query("INSERT INTO hidden VALUES (1)")
        .execute(&mut *tx)
        .await;
    Ok(())
}

#[tokio::test]
async fn tables_of_other_schemas_too() {
    let (fixture, pool) = database().await;
    let (_other, elsewhere) = database().await;
    sqlx::raw_sql("CREATE TABLE hidden (id bigint)")
        .execute(&elsewhere)
        .await
        .unwrap();
    let path: String = sqlx::query_scalar("SELECT current_schema()::text")
        .fetch_one(&elsewhere)
        .await
        .unwrap();
    let path = format!("{path}, {}", fixture.name());
    let report = proof(&pool)
        .deliver(async |pool| drops_an_error_elsewhere(pool, "evt-1", &path).await)
        .await;
    let found = lines(&report);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(
        found[0].starts_with("write 2 refused by the database: "),
        "{found:#?}"
    );
}

/// A table that the handler does not write to is nobody's business.
#[tokio::test]
async fn tables_that_others_write_to_are_left_alone() {
    let (_fixture, pool) = database().await;
    sqlx::raw_sql("CREATE TABLE unrelated (id bigint)")
        .execute(&pool)
        .await
        .unwrap();
    let mut other = pool.begin().await.unwrap();
    sqlx::raw_sql("INSERT INTO unrelated VALUES (1)")
        .execute(&mut *other)
        .await
        .unwrap();
    proof(&pool)
        .deliver(async |pool| pays(pool, "evt-1").await)
        .await
        .assert();
    other.rollback().await.unwrap();
}

/// As applications mostly are: their migrations have another user.
#[tokio::test]
async fn without_the_right_to_create_triggers_it_says_so() {
    let (fixture, owner) = database().await;
    // A role that every server has and that may do nothing here but what it is granted.
    let grant = format!(
        "GRANT USAGE ON SCHEMA {0} TO pg_signal_backend; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {0} TO pg_signal_backend",
        fixture.name()
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(grant))
        .execute(&owner)
        .await
        .unwrap();
    let options = fixture.options(5).after_connect(|conn, _| {
        Box::pin(async move {
            sqlx::raw_sql("SET ROLE pg_signal_backend")
                .execute(conn)
                .await
                .map(drop)
        })
    });
    let pool: PgPool = options.connect(&fixture.url).await.unwrap();
    let report = proof(&pool)
        .deliver(async |pool| pays(pool, "evt-1").await)
        .await;
    let found = lines(&report);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].contains("permission denied"), "{found:#?}");
    let advice = report.findings()[0].advice();
    assert!(advice.contains("`without_refused_writes()`"), "{advice}");

    proof(&pool)
        .without_refused_writes()
        .deliver(async |pool| pays(pool, "evt-1").await)
        .await
        .assert();
}

/// Another tenant's rights, for the rest of the transaction.
#[idempotent(key = "id", consumer = "billing")]
async fn takes_a_role(tx: &mut PgConnection, id: &str) -> Result<(), sqlx::Error> {
    let _ = id;
    sqlx::raw_sql("SET LOCAL ROLE pg_signal_backend")
        .execute(&mut *tx)
        .await?;
    sqlx::query(PAY).execute(&mut *tx).await?;
    sqlx::query(NOTE).execute(&mut *tx).await?;
    Ok(())
}

#[tokio::test]
async fn a_handler_may_take_another_role() {
    let (fixture, pool) = database().await;
    let grant = format!(
        "GRANT USAGE ON SCHEMA {0} TO pg_signal_backend; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {0} TO pg_signal_backend",
        fixture.name()
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(grant))
        .execute(&pool)
        .await
        .unwrap();
    let report = proof(&pool)
        .deliver(async |pool| takes_a_role(pool, "evt-1").await)
        .await;
    report.assert();
    assert!(
        report
            .steps()
            .contains(&"write 2 refused by the database".to_owned())
    );
}
