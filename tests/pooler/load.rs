//! More clients than sessions.

use std::sync::Arc;

use idem::{Outcome, Unprepared};
use idem_tests::Broker;
use tokio::task::JoinSet;

use crate::handlers::{all, bill, bill_soon, order, receipt};
use crate::setup::Setup;

const CLIENTS: usize = 12;

/// Under `Unprepared`, all is as without a pooler.
#[tokio::test]
async fn p2_twelve_clients_over_four_sessions() {
    const MESSAGES: i64 = 600;
    let setup = Setup::start().await;
    let broker = Broker::new(1, 0..MESSAGES);
    let mut workers = JoinSet::new();
    for _ in 0..CLIENTS {
        let (pool, broker) = (setup.clients(1).await, Arc::clone(&broker));
        workers.spawn(async move {
            while let Some(message) = broker.next().await {
                let result = if message % 2 == 0 {
                    bill(Unprepared(&pool), message).await
                } else {
                    bill_soon(Unprepared(&pool), message).await
                };
                broker.settle(message, &result);
            }
        });
    }
    workers.join_all().await;
    let count = broker.count();
    println!("{count:?}");
    assert_eq!(count.failed, 0);
    assert!(count.duplicates > 100);
    setup.assert_once(MESSAGES).await;
    setup.assert_clean().await;
}

/// The same message by all clients at once, and the arguments.
#[tokio::test]
async fn p2_p9_the_arguments_behind_a_pooler() {
    let setup = Setup::start().await;
    let pool = setup.clients(u32::try_from(CLIENTS).unwrap()).await;
    for message in 0..20_i64 {
        let mut workers = JoinSet::new();
        for client in 0..CLIENTS {
            let pool = pool.clone();
            workers.spawn(async move {
                match message % 4 {
                    0 => bill_soon(Unprepared(&pool), message)
                        .await
                        .map(|it| it.is_processed()),
                    1 => receipt(Unprepared(&pool), message)
                        .await
                        .map(|outcome| match outcome {
                            Outcome::Processed(value) => value == message * 7,
                            other => {
                                assert_eq!(other, Outcome::Replayed(message * 7));
                                false
                            }
                        }),
                    2 => order(Unprepared(&pool), 1, message)
                        .await
                        .map(|it| it.is_processed()),
                    _ => {
                        let batch = idem_tests::shuffled(&[message, 1000 + message], client as u64);
                        let outcome = all(Unprepared(&pool), batch).await;
                        outcome.map(|it| it.value.is_some())
                    }
                }
            });
        }
        let results = workers.join_all().await.into_iter().map(Result::unwrap);
        assert_eq!(
            results.filter(|is_first| *is_first).count(),
            1,
            "message {message}"
        );
    }
    assert_eq!(
        order(Unprepared(&pool), 1, 2).await.unwrap(),
        Outcome::Stale
    );
    sqlx::query("DELETE FROM effects WHERE message >= 1000")
        .execute(&setup.direct)
        .await
        .unwrap();
    setup.assert_once(20).await;
    setup.assert_clean().await;
}
