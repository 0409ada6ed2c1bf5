//! What is particular to MariaDB and MySQL.

use std::sync::Arc;
use std::time::Duration;

use idem::Error;
use tokio::sync::Barrier;
use tokio::task::JoinHandle;

use crate::contract::*;

#[idempotent(key = "message", consumer = "billing")]
async fn runs(#[tx] tx: &mut Conn, message: &str, sql: &'static str) -> Result<u64, Fail> {
    effect(tx, message).await?;
    sqlx::raw_sql(sql).execute(tx).await?;
    Ok(7)
}

/// DDL commits, and takes the savepoint that is the seal along; so does a transaction that takes the first one's place.
#[tokio::test]
async fn p3_ddl_and_another_transaction_are_noticed() {
    let test = Test::new(1).await;
    for (sql, redelivered) in [
        ("CREATE TABLE other (id int)", Outcome::Duplicate),
        ("ROLLBACK; BEGIN", Outcome::Processed(7)),
        ("COMMIT; BEGIN", Outcome::Duplicate),
    ] {
        let error = runs(&test.pool, sql, sql).await.unwrap_err();
        assert!(
            matches!(error, Fail::Delivery(Error::TransactionLost(_))),
            "{sql}: {error:?}"
        );
        test.assert_pool_is_clean(sql).await;
        let again = runs(&test.pool, sql, "SELECT 1").await.unwrap();
        assert_eq!(again, redelivered, "{sql}");
        assert_eq!(test.effects_of(sql).await, 1, "{sql}");
    }
}

async fn create_locks(pool: &Pool<Db>) {
    let tables = "CREATE TABLE locks (id int PRIMARY KEY, n bigint NOT NULL) ENGINE = InnoDB; \
        INSERT INTO locks VALUES (1, 0), (2, 0)";
    sqlx::raw_sql(tables).execute(pool).await.unwrap();
}

/// The other side of the deadlock: locks row 1, meets the handler at the barrier, and then wants row 2.
fn opponent(pool: &Pool<Db>, barrier: &Arc<Barrier>) -> JoinHandle<Result<(), sqlx::Error>> {
    let (pool, met) = (pool.clone(), Arc::clone(barrier));
    tokio::spawn(async move {
        let mut tx = pool.begin().await?;
        // The server rolls back who has changed less.
        sqlx::query("INSERT INTO effects (message) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50) SELECT 'weight' FROM n")
            .execute(&mut *tx)
            .await?;
        sqlx::query("UPDATE locks SET n = n + 1 WHERE id = 1")
            .execute(&mut *tx)
            .await?;
        met.wait().await;
        sqlx::query("UPDATE locks SET n = n + 1 WHERE id = 2")
            .execute(&mut *tx)
            .await?;
        tx.rollback().await
    })
}

/// Locks row 2, meets the other at the barrier, and then wants row 1, which the other has locked.
async fn deadlock(tx: &mut Conn, barrier: &Barrier) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE locks SET n = n + 1 WHERE id = 2")
        .execute(&mut *tx)
        .await?;
    barrier.wait().await;
    sqlx::query("UPDATE locks SET n = n + 1 WHERE id = 1")
        .execute(tx)
        .await
        .map(drop)
}

#[idempotent(key = "message", consumer = "billing")]
async fn swallows_a_deadlock(
    #[tx] tx: &mut Conn,
    message: &str,
    barrier: &Barrier,
    victim: &mut bool,
) -> Result<u64, Fail> {
    effect(tx, message).await?;
    *victim = deadlock(tx, barrier).await.is_err();
    Ok(7)
}

/// The server has rolled the transaction back, and COMMIT would succeed for nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p3_a_swallowed_deadlock_is_no_success() {
    let test = Test::new(3).await;
    create_locks(&test.pool).await;
    let mut times = 0;
    for round in 0..20 {
        let message = format!("round {round}");
        let barrier = Arc::new(Barrier::new(2));
        let other = opponent(&test.pool, &barrier);
        let mut victim = false;
        let result = swallows_a_deadlock(&test.pool, &message, &barrier, &mut victim).await;
        other.await.unwrap().ok();
        if !victim {
            continue;
        }
        times += 1;
        let error = result.unwrap_err();
        assert!(
            matches!(error, Fail::Delivery(Error::TransactionLost(_))),
            "{error:?}"
        );
        assert!(error.is_transient());
        assert_eq!(test.effects_of(&message).await, 0);
        let again = on_connection(&test.pool, &message, Body::Succeeds)
            .await
            .unwrap();
        assert_eq!(again, Outcome::Processed(7));
        assert_eq!(test.effects_of(&message).await, 1);
    }
    assert!(times > 0, "a deadlock was made");
    test.assert_pool_is_clean("deadlocks").await;
}

#[idempotent(key = "message", consumer = "billing")]
async fn deadlocks(#[tx] tx: &mut Conn, message: &str, barrier: &Barrier) -> Result<u64, Fail> {
    effect(tx, message).await?;
    deadlock(tx, barrier).await?;
    Ok(7)
}

/// The deadlock of one delivery has rolled back the whole transaction that it joined. What is delivered into that transaction afterwards
/// must not have its claim without its effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p1_after_a_deadlock_the_outer_transaction_takes_no_more_deliveries() {
    for form in FORMS {
        let test = Test::new(3).await;
        create_locks(&test.pool).await;
        let mut outer = test.pool.begin().await.unwrap();
        assert!(
            deliver(form, &mut outer, "before", Body::Succeeds)
                .await
                .unwrap()
                .is_processed()
        );
        let barrier = Arc::new(Barrier::new(2));
        let other = opponent(&test.pool, &barrier);
        let error = deadlocks(&mut outer, "deadlock", &barrier)
            .await
            .unwrap_err();
        assert!(error.is_transient(), "{error:?}");
        other.await.unwrap().unwrap();
        for (message, body) in [("fails", Body::Fails), ("succeeds", Body::Succeeds)] {
            let result = deliver(form, &mut outer, message, body).await;
            assert!(result.is_err(), "{form:?} {message}: {result:?}");
        }
        // A statement whose error is dropped takes sqlx's queued ROLLBACK TO with it.
        sqlx::raw_sql("SELECT 1").execute(&mut *outer).await.ok();
        let committed = idem::commit(outer).await;
        assert!(
            matches!(
                committed,
                Err(Error::OuterTransaction(_) | Error::Database { .. })
            ),
            "{form:?}: {committed:?}"
        );
        test.assert_pool_is_clean("deadlock").await;
        for message in ["before", "deadlock", "fails", "succeeds"] {
            let again = deliver(form, &test.pool, message, Body::Succeeds).await;
            assert!(again.is_ok(), "{form:?} {message}: {again:?}");
            assert_eq!(test.effects_of(message).await, 1, "{form:?} {message}");
        }
    }
}

#[tokio::test]
async fn p9_waiting_is_bounded() {
    let test = Test::new(2).await;
    let Claimed::Fresh(first) = idem::claim(&test.pool, "billing", "evt-1").await.unwrap() else {
        panic!("it is new");
    };
    let mut conn = test.pool.acquire().await.unwrap();
    sqlx::raw_sql("SET innodb_lock_wait_timeout = 1")
        .execute(&mut *conn)
        .await
        .unwrap();
    let error = on_connection(&mut conn, "evt-1", Body::Panics)
        .await
        .unwrap_err();
    assert!(
        matches!(error, Fail::Delivery(Error::InFlight(_))),
        "{error:?}"
    );
    assert!(error.is_transient());
    drop(conn);
    first.rollback().await;
    let outcome = on_connection(&test.pool, "evt-1", Body::Succeeds)
        .await
        .unwrap();
    assert!(outcome.is_processed());
}

/// sqlx loses step when a statement is cancelled while it is prepared. A duplicate that is delivered on such a connection must not be
/// taken for new by the answer to an earlier statement.
#[tokio::test]
async fn p2_a_connection_out_of_step_decides_nothing() {
    let test = Test::slow(1).await;
    let _ = on_connection(&test.pool, "evt-1", Body::Succeeds)
        .await
        .unwrap();
    let mut noticed = 0;
    for form in FORMS {
        for polls in 0..8 {
            let mut conn = test.pool.acquire().await.unwrap();
            let cancelled = {
                let sql = sqlx::AssertSqlSafe(format!("SELECT ? + ? + ? + {polls}"));
                let query = sqlx::query(sql).bind(1).bind(2).bind(3).execute(&mut *conn);
                idem_tests::cancelled_after(polls, query).await.is_none()
            };
            tokio::time::sleep(Duration::from_millis(5)).await;
            let delivery = deliver(form, &mut *conn, "evt-1", Body::Succeeds);
            // It may also wait for an answer that does not come.
            let result = tokio::time::timeout(Duration::from_secs(1), delivery).await;
            if let Ok(Ok(outcome)) = result {
                assert_eq!(outcome, Outcome::Duplicate, "{form:?} {polls}");
            } else {
                assert!(cancelled, "{form:?} {polls}: {result:?}");
                noticed += 1;
            }
            conn.close_on_drop();
        }
    }
    assert!(noticed > 0, "a connection was out of step");
    assert_eq!(test.effects_of("evt-1").await, 1);
}

/// By the number alone, also where the error stands behind `#[error(transparent)]`.
#[tokio::test]
async fn p4_transient_or_not_by_number() {
    let test = Test::new(1).await;
    let transient = [
        1020, 1021, 1040, 1041, 1044, 1045, 1047, 1049, 1053, 1054, 1142, 1146, 1158, 1161, 1180,
        1205, 1213, 1223, 1290, 1305, 1317, 1412, 1614, 1637, 1684, 1689, 1836, 1927, 1969, 2006,
        2013, 3024, 3572, 4031,
    ];
    let permanent = [1048, 1062, 1064, 1264, 1366, 1406, 1451, 1452, 1644];
    let numbers = transient.map(|number| (number, true)).into_iter();
    for (number, expected) in numbers.chain(permanent.map(|number| (number, false))) {
        let signal = format!("SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {number}");
        let error = sqlx::raw_sql(sqlx::AssertSqlSafe(signal))
            .execute(&test.pool)
            .await
            .unwrap_err();
        assert_eq!(idem::is_transient(&error), expected, "{number}");
        assert_eq!(
            Fail::Database(error).is_transient(),
            expected,
            "{number}, transparent"
        );
    }
}

/// The client reads each answer one too late, as it may after a cancelled statement: what it takes for the claim's is an earlier OK.
#[tokio::test]
async fn p2_a_stale_answer_does_not_make_a_duplicate_new() {
    let mut test = Test::new(1).await;
    let url = test.fixture.url.clone();
    let proxy = idem_tests::Proxy::start(db::WIRE.unwrap(), &url, Duration::ZERO).await;
    test.pool = test
        .fixture
        .options(1)
        .connect(&proxy.url(&url))
        .await
        .unwrap();
    for form in FORMS {
        let message = format!("{form:?}");
        assert!(
            deliver(form, &test.pool, &message, Body::Succeeds)
                .await
                .unwrap()
                .is_processed()
        );
        proxy.stale_answer_before("SAVEPOINT");
        let result = deliver(form, &test.pool, &message, Body::Succeeds).await;
        let error = result.expect_err("nobody has answered the claim");
        assert!(error.is_transient(), "{error:?}");
        test.assert_pool_is_clean(&message).await;
        assert_eq!(test.effects_of(&message).await, 1, "{message}");
        let again = deliver(form, &test.pool, &message, Body::Succeeds).await;
        assert_eq!(again.unwrap(), Outcome::Duplicate, "{message}");

        let mut outer = test.pool.begin().await.unwrap();
        proxy.stale_answer_before("SELECT 1");
        sqlx::raw_sql("SELECT 1").execute(&mut *outer).await.ok();
        let committed = idem::commit(outer).await;
        assert!(committed.is_err(), "nobody has answered COMMIT");
        test.pool.acquire().await.unwrap().close_on_drop();
    }
}

/// The claim's answer cannot be told then. It is an error that says why, and leaves nothing open behind.
#[tokio::test]
async fn a_trigger_with_auto_increment_on_the_table_of_claims() {
    let test = Test::new(1).await;
    let audit = "CREATE TABLE audit (id bigint PRIMARY KEY AUTO_INCREMENT, what varbinary(2000)) ENGINE = InnoDB; \
        CREATE TRIGGER audited AFTER INSERT ON processed_messages FOR EACH ROW INSERT INTO audit (what) VALUES (NEW.message_id)";
    sqlx::raw_sql(audit).execute(&test.pool).await.unwrap();
    for form in FORMS {
        let message = format!("{form:?}");
        let error = deliver(form, &test.pool, &message, Body::Succeeds)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("AUTO_INCREMENT"), "{error}");
        test.assert_pool_is_clean("pool").await;
        let mut outer = test.pool.begin().await.unwrap();
        assert!(
            deliver(form, &mut outer, &message, Body::Succeeds)
                .await
                .is_err()
        );
        drop(outer);
        test.assert_pool_is_clean("joined").await;
        assert_eq!(test.effects_of(&message).await, 0);
    }
    assert_eq!(test.claims().await, 0);
}

/// The caller dropped the deadlock's error; what was delivered before it is gone, and COMMIT would succeed for nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p3_commit_notices_an_outer_transaction_that_the_server_rolled_back() {
    let test = Test::new(3).await;
    create_locks(&test.pool).await;
    let mut outer = test.pool.begin().await.unwrap();
    let outcome = on_connection(&mut outer, "evt-1", Body::Succeeds)
        .await
        .unwrap();
    assert!(outcome.is_processed());
    let barrier = Arc::new(Barrier::new(2));
    let other = opponent(&test.pool, &barrier);
    assert!(deadlock(&mut outer, &barrier).await.is_err());
    other.await.unwrap().unwrap();
    let error = idem::commit(outer).await.unwrap_err();
    assert!(matches!(error, Error::OuterTransaction(_)), "{error:?}");
    test.assert_pool_is_clean("deadlock").await;
    let again = on_connection(&test.pool, "evt-1", Body::Succeeds)
        .await
        .unwrap();
    assert!(again.is_processed());
    assert_eq!(test.effects_of("evt-1").await, 1);
}
