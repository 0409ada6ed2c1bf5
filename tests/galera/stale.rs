//! A node that lags behind, and a node that another one takes a transaction from.

use std::time::Duration;

use idem::{Delivery, Error, Outcome};
use sqlx::mysql::MySqlExecutor;
use sqlx::{MySqlConnection, MySqlPool};

use crate::cluster::{same_everywhere, turn};
use crate::race::{deliver, kind};
use crate::{Failed, bill};

/// Keeps a node busy with applying for a while.
const BALLAST: &str = "CREATE TABLE ballast (id bigint PRIMARY KEY, filler char(100) NOT NULL)";
const MORE_BALLAST: &str = "INSERT INTO ballast SELECT (SELECT COALESCE(MAX(id), 0) FROM ballast) + seq, '' FROM seq_1_to_15000";

async fn knows(source: impl MySqlExecutor<'_>, message: i64) -> bool {
    let sql = "SELECT COUNT(*) FROM processed_messages WHERE message_id = CAST(? AS CHAR)";
    sqlx::query_scalar::<_, i64>(sql)
        .bind(message)
        .fetch_one(source)
        .await
        .unwrap()
        == 1
}

/// A redelivery to a node that has not heard of the claim yet is refused by certification, at its COMMIT; `Duplicate` is said only once
/// the claim is there, and nowhere before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_p3_a_node_that_lags_behind_doubles_nothing() {
    let cluster = turn().await;
    let pools = cluster.tables(2).await;
    sqlx::raw_sql(BALLAST).execute(&pools[0]).await.unwrap();
    let (mut stale, mut refused) = (0, 0);
    for message in 0..5 {
        sqlx::raw_sql(MORE_BALLAST)
            .execute(&pools[0])
            .await
            .unwrap();
        assert_eq!(
            bill(&pools[0], message).await.unwrap(),
            Outcome::Processed(())
        );
        stale += i32::from(!knows(&pools[1], message).await);
        let (outcome, errors) = deliver(&pools[1], message).await;
        assert_eq!(outcome, Outcome::Duplicate, "message {message}: {errors:?}");
        assert!(knows(&pools[1], message).await);
        refused += i32::from(!errors.is_empty());
        assert!(errors.iter().all(|it| it.ends_with("1213")), "{errors:?}");
    }
    println!("{stale} of 5 were not known to the other node yet, {refused} were refused there");
    assert!(
        stale > 0 && refused > 0,
        "the other node never lagged behind"
    );
    // A read that is to see it has to wait for it.
    sqlx::raw_sql(MORE_BALLAST)
        .execute(&pools[0])
        .await
        .unwrap();
    assert!(bill(&pools[0], 5).await.unwrap().is_processed());
    let mut conn = pools[2].acquire().await.unwrap();
    sqlx::raw_sql("SET SESSION wsrep_sync_wait = 1")
        .execute(&mut *conn)
        .await
        .unwrap();
    assert!(knows(&mut *conn, 5).await);
    conn.close().await.unwrap();
    let rows = same_everywhere(&pools, "SELECT message FROM effects ORDER BY message").await;
    assert_eq!(rows, (0..6).collect::<Vec<_>>());
}

/// What the body does once another node has taken its row.
#[derive(Clone, Copy, Debug)]
enum Then {
    Returns,
    WritesMore,
    DropsTheError,
}

/// Changes an account, which another node changes and commits meanwhile: the transaction here has lost.
async fn overtaken(pools: &[MySqlPool], message: i64, then: Then) -> Failed {
    let body = async |tx: &mut MySqlConnection| {
        let change = "UPDATE accounts SET credits = credits + 1 WHERE id = 1";
        sqlx::query(change).execute(&mut *tx).await?;
        let before = credits(&pools[0]).await;
        sqlx::query("UPDATE accounts SET credits = credits + 100 WHERE id = 1")
            .execute(&pools[1])
            .await?;
        while credits(&pools[0]).await == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let more = sqlx::query("INSERT INTO effects (message) VALUES (?)").bind(message);
        match then {
            Then::Returns => {}
            Then::WritesMore => {
                more.execute(tx).await?;
            }
            Then::DropsTheError => {
                more.execute(tx).await.unwrap_err();
            }
        }
        Ok::<_, Failed>(())
    };
    let delivery = Delivery::of("billing", message).once(&pools[0], body);
    let result = tokio::time::timeout(Duration::from_mins(3), delivery).await;
    result.unwrap().unwrap_err()
}

async fn credits(pool: &MySqlPool) -> i64 {
    let sql = "SELECT credits FROM accounts WHERE id = 1";
    sqlx::query_scalar(sql).fetch_one(pool).await.unwrap()
}

/// Whatever the body does after its transaction was taken from it, its delivery fails and asks for redelivery.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p1_p4_a_transaction_that_another_node_has_aborted_is_no_success() {
    let cluster = turn().await;
    let pools = cluster.tables(3).await;
    let error = overtaken(&pools, 1, Then::Returns).await;
    assert_eq!(
        (kind(&error), idem::is_transient(&error)),
        ("Commit 1213".to_owned(), true)
    );
    let error = overtaken(&pools, 1, Then::WritesMore).await;
    assert_eq!(
        (kind(&error), idem::is_transient(&error)),
        ("Body 1213".to_owned(), true)
    );
    let error = overtaken(&pools, 1, Then::DropsTheError).await;
    let is_lost = matches!(error, Failed::Delivery(Error::TransactionLost(_)));
    assert!(is_lost && idem::is_transient(&error), "{error:?}");

    assert_eq!(
        same_everywhere(&pools, "SELECT COUNT(*) FROM effects").await,
        [0]
    );
    assert_eq!(
        same_everywhere(&pools, "SELECT COUNT(*) FROM processed_messages").await,
        [0]
    );
    assert_eq!(bill(&pools[0], 1).await.unwrap(), Outcome::Processed(()));
    let credits = same_everywhere(&pools, "SELECT credits FROM accounts WHERE id = 1").await;
    assert_eq!(credits, [301]);
}
