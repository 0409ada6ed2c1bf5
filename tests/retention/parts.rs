//! A plain table in parts, each of which has its own first page.

use idem::Pruner;

use super::pruner::{WEEK, keys, many, table};

const DAY: f64 = 24.0 * 60.0 * 60.0;

/// Rows of different parts have the same place, each in its own.
#[tokio::test]
async fn p12_claims_beside_old_ones_in_other_parts_stay() {
    let (_fixture, pool) = table(1).await;
    let partitioned = "DROP TABLE processed_messages; \
        CREATE TABLE processed_messages (consumer text COLLATE \"C\", message_id text COLLATE \"C\", processed_at timestamptz DEFAULT now(), \
          version bigint, fingerprint bytea, result text, PRIMARY KEY (consumer, message_id)) PARTITION BY HASH (message_id); \
        CREATE TABLE part_0 PARTITION OF processed_messages FOR VALUES WITH (MODULUS 2, REMAINDER 0); \
        CREATE TABLE part_1 PARTITION OF processed_messages FOR VALUES WITH (MODULUS 2, REMAINDER 1)";
    sqlx::raw_sql(partitioned).execute(&pool).await.unwrap();
    for round in 0..20 {
        many(&pool, "billing", &format!("old {round} "), 30.0 * DAY, 30).await;
        many(&pool, "mail", &format!("new {round} "), 0.0, 30).await;
    }
    let pruner = Pruner::new(&pool).window("billing", WEEK).chunk(100);
    assert_eq!(pruner.run_once().await.unwrap().claims, 600);
    let left = keys(&pool).await;
    assert_eq!(left.len(), 600);
    assert!(left.iter().all(|key| key.starts_with("new")));
}
