//! What an index for the pruner costs those who claim.

use std::time::Instant;

use anyhow::ensure;
use sqlx::postgres::PgPool;
use tokio::task::JoinSet;

use crate::fill;
use crate::load::{Arrival, CONSUMERS, float, process_batch};
use crate::measure::wal;
use crate::report::real;

const ROUNDS: usize = 3;
const BATCH: usize = 100;

/// Of the table's own definition, that in the middle.
const INDEXES: [(&str, &str); 3] = [
    ("no index", ""),
    (
        "BRIN (as idem::migrate makes it)",
        "CREATE INDEX processed_messages_processed_at ON processed_messages USING brin (processed_at)",
    ),
    (
        "B-tree",
        "CREATE INDEX processed_messages_processed_at ON processed_messages (processed_at)",
    ),
];

/// All of them in each round, so that whatever slows the machine down for a while meets each. The first round warms up.
pub(crate) async fn measure(
    operator: &PgPool,
    consumers: &PgPool,
    rows: i64,
) -> anyhow::Result<()> {
    let batches = usize::try_from(rows / 20_000)?.clamp(2, 500);
    let each = batches * BATCH;
    let claims = each * usize::try_from(CONSUMERS)?;
    println!(
        "\nIndexes on processed_at: {claims} claims in batches of {BATCH}, at full speed; the median of {ROUNDS} rounds.\n\
         {:<34}{:>12}{:>9}{:>16}{:>9}",
        "", "claims/s", "ratio", "WAL per claim", "ratio"
    );
    let mut rates = [const { Vec::new() }; INDEXES.len()];
    let mut bytes = [const { Vec::new() }; INDEXES.len()];
    for round in 0..=ROUNDS {
        for turn in 0..INDEXES.len() {
            let index = (round + turn) % INDEXES.len();
            sqlx::raw_sql("DROP INDEX IF EXISTS processed_messages_processed_at")
                .execute(operator)
                .await?;
            sqlx::raw_sql(INDEXES[index].1).execute(operator).await?;
            fill::plain(operator, rows / 50 + 2, 1).await?;
            sqlx::raw_sql("CHECKPOINT").execute(operator).await?;

            let before = wal(operator).await?;
            let start = Instant::now();
            let mut tasks = JoinSet::new();
            for _ in 0..CONSUMERS {
                let pool = consumers.clone();
                tasks.spawn(async move {
                    for _ in 0..batches {
                        let arrivals = (0..BATCH).map(|_| Arrival::new()).collect();
                        let _ = process_batch(&pool, arrivals).await?;
                    }
                    Ok::<_, idem::Error>(())
                });
            }
            while let Some(task) = tasks.join_next().await {
                task??;
            }
            let time = start.elapsed().as_secs_f64();
            let written = wal(operator).await? - before;
            if round > 0 {
                rates[index].push(float(claims) / time);
                bytes[index].push(real(written) / float(claims));
            }

            let made = "SELECT count(*) FROM processed_messages";
            let made: i64 = sqlx::query_scalar(made).fetch_one(operator).await?;
            let made = made - (rows / 50 + 2);
            ensure!(made == i64::try_from(claims)?, "{made} of {claims} claims");
        }
    }
    let [rates, bytes] = [rates, bytes].map(|all| all.map(median));
    for (index, (name, _)) in INDEXES.iter().enumerate() {
        println!(
            "   {name:<31}{:>12.0}{:>9.2}{:>14.0} B{:>9.2}",
            rates[index],
            rates[index] / rates[0],
            bytes[index],
            bytes[index] / bytes[0]
        );
    }
    println!("   OK: each of them is there.");
    Ok(())
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
