//! What is particular to the plain table on PostgreSQL.

use idem::Error;

use crate::contract::*;

/// The usual role of an application in production: it may use the table, and create none.
#[tokio::test]
async fn migrate_needs_no_rights_where_the_table_is_there() {
    let test = Test::new(1).await;
    let role = test.fixture.name();
    let sql = format!(
        "CREATE ROLE {role}; GRANT USAGE ON SCHEMA {role} TO {role}; \
         GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA {role} TO {role}; SET ROLE {role}"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql))
        .execute(&test.pool)
        .await
        .unwrap();
    let migrated = idem::migrate(&test.pool).await;
    let outcome = on_connection(&test.pool, "evt-1", Body::Succeeds).await;
    sqlx::raw_sql("RESET ROLE; DROP TABLE processed_messages")
        .execute(&test.pool)
        .await
        .unwrap();
    let sql = format!("SET ROLE {role}");
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql))
        .execute(&test.pool)
        .await
        .unwrap();
    let refused = idem::migrate(&test.pool).await;
    let sql = format!("RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}");
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql))
        .execute(&test.pool)
        .await
        .unwrap();
    assert!(migrated.is_ok(), "{migrated:?}");
    assert!(outcome.unwrap().is_processed());
    assert!(
        matches!(refused, Err(Error::Database { .. })),
        "{refused:?}"
    );
}

/// A table that would merge or repeat messages is refused, whatever its age: also one that is partitioned by arrival, whose key has to
/// hold the arrival.
#[tokio::test]
async fn p8_a_table_with_another_key_is_refused() {
    let test = Test::new(1).await;
    for end in [
        ", PRIMARY KEY (message_id))",
        ")",
        ", PRIMARY KEY (consumer, message_id, processed_at)) PARTITION BY RANGE (processed_at)",
    ] {
        let table = format!(
            "DROP TABLE processed_messages; CREATE TABLE processed_messages \
             (consumer text NOT NULL, message_id text NOT NULL, processed_at timestamptz NOT NULL DEFAULT now(){end}"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(table))
            .execute(&test.pool)
            .await
            .unwrap();
        let error = on_connection(&test.pool, "evt-1", Body::Succeeds)
            .await
            .unwrap_err();
        assert!(
            matches!(error, Fail::Delivery(Error::Schema(_))),
            "{end}: {error:?}"
        );
    }
}
