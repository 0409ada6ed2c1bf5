//! What a chunk has locked on MariaDB while it is under way.

use std::time::Duration;

use idem::{Delivery, InFlight, Outcome, Pruner};

use super::db::{self, Conn};
use super::pruner::{WEEK, claim, keys, table};

const DAY: f64 = 24.0 * 60.0 * 60.0;

/// A trigger makes each removal take a while. Claims that stay, however old, are free meanwhile.
#[tokio::test]
async fn p12_a_chunk_locks_nothing_that_stays() {
    let (_fixture, pool) = table(3).await;
    for key in ["aggregate", "|order", "old 1", "old 2", "old 3"] {
        claim(&pool, "billing", key, 30.0 * DAY).await;
    }
    claim(&pool, "billing", "young", DAY).await;
    sqlx::query(db::VERSION)
        .bind("aggregate")
        .execute(&pool)
        .await
        .unwrap();
    let slow = "CREATE TRIGGER slow BEFORE DELETE ON processed_messages FOR EACH ROW DO SLEEP(1)";
    sqlx::raw_sql(slow).execute(&pool).await.unwrap();
    let pruner = Pruner::new(&pool).window("billing", WEEK);
    let running = tokio::spawn(async move { pruner.run_once().await });
    tokio::time::sleep(Duration::from_millis(700)).await;
    let nothing = async |_: &mut Conn| Ok::<_, idem::Error>(());
    let deliver =
        |delivery: Delivery<'static>| delivery.in_flight(InFlight::Fail).once(&pool, nothing);
    let next = deliver(Delivery::of("billing", "aggregate").version(8)).await;
    assert_eq!(next.unwrap(), Outcome::Processed(()));
    let action = deliver(Delivery::with_business_key("billing", "new", "order")).await;
    assert_eq!(action.unwrap(), Outcome::Duplicate);
    assert_eq!(
        deliver(Delivery::of("billing", "young")).await.unwrap(),
        Outcome::Duplicate
    );
    assert_eq!(
        deliver(Delivery::of("billing", "fresh")).await.unwrap(),
        Outcome::Processed(())
    );
    assert!(
        !running.is_finished(),
        "the chunk was under way all the time"
    );
    assert_eq!(running.await.unwrap().unwrap().claims, 3);
    assert_eq!(
        keys(&pool).await,
        ["aggregate", "fresh", "new", "young", "|order"]
    );
}
