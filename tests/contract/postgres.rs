//! What is particular to PostgreSQL.

use std::time::{Duration, Instant};

use idem::Error;

use crate::contract::*;

/// Drops the error of a statement, which aborts the transaction, and returns `Ok`.
async fn swallow(tx: &mut Conn) -> Result<u64, Fail> {
    let failed = sqlx::query("INSERT INTO nowhere VALUES (1)")
        .execute(tx)
        .await;
    assert!(failed.is_err());
    Ok(7)
}

#[idempotent(key = "message", consumer = "billing")]
async fn swallows_on_connection(#[tx] tx: &mut Conn, message: &str) -> Result<u64, Fail> {
    effect(tx, message).await?;
    swallow(tx).await
}

#[idempotent(key = "message", consumer = "billing")]
async fn swallows_on_transaction(tx: &mut Transaction<'_, Db>, message: &str) -> Result<u64, Fail> {
    effect(tx, message).await?;
    swallow(tx).await
}

async fn swallowing<'c>(
    form: Form,
    source: impl idem::Source<'c, Database = Db>,
    message: &str,
) -> Result<Outcome<u64>, Fail> {
    match form {
        Form::Connection => swallows_on_connection(source, message).await,
        Form::Transaction => swallows_on_transaction(source, message).await,
        Form::Once => db::once(source, "billing", message, swallow).await,
        Form::Claim => {
            let Claimed::Fresh(mut claim) = db::claim(source, "billing", message).await? else {
                return Ok(Outcome::Duplicate);
            };
            let value = swallow(&mut claim).await?;
            claim.commit().await?;
            Ok(Outcome::Processed(value))
        }
    }
}

/// COMMIT would answer ROLLBACK, and sqlx would call it success.
#[tokio::test]
async fn p3_a_swallowed_error_is_no_success() {
    let test = Test::new(1).await;
    for form in FORMS {
        for source in ["pool", "held", "joined"] {
            let message = format!("{form:?} {source}");
            let result = match source {
                "pool" => swallowing(form, &test.pool, &message).await,
                "held" => {
                    let mut conn = test.pool.acquire().await.unwrap();
                    swallowing(form, &mut conn, &message).await
                }
                _ => {
                    let mut outer = test.pool.begin().await.unwrap();
                    let result = swallowing(form, &mut outer, &message).await;
                    // The savepoint has kept the outer transaction alive.
                    effect(&mut outer, &format!("outer {message}"))
                        .await
                        .unwrap();
                    idem::commit(outer).await.unwrap();
                    result
                }
            };
            let error = result.unwrap_err();
            assert!(
                matches!(error, Fail::Delivery(Error::Aborted(_))),
                "{message}: {error:?}"
            );
            assert!(!error.is_transient(), "the handler needs a change");
            assert!(error.to_string().contains("savepoint"), "{error}");
            test.assert_pool_is_clean(&message).await;
            assert_eq!(test.effects_of(&message).await, 0, "{message}");
            let again = deliver(form, &test.pool, &message, Body::Succeeds).await;
            assert_eq!(again.unwrap(), Outcome::Processed(7), "{message}");
        }
    }
}

#[tokio::test]
async fn p3_commit_notices_an_aborted_outer_transaction() {
    let test = Test::new(1).await;
    let mut outer = test.pool.begin().await.unwrap();
    assert!(
        on_connection(&mut outer, "evt-1", Body::Succeeds)
            .await
            .unwrap()
            .is_processed()
    );
    swallow(&mut outer).await.unwrap();
    let joined = on_connection(&mut outer, "evt-2", Body::Succeeds).await;
    assert!(
        matches!(joined, Err(Fail::Delivery(Error::OuterTransaction(_)))),
        "{joined:?}"
    );
    let error = idem::commit(outer).await.unwrap_err();
    assert!(
        matches!(error, Error::OuterTransaction(_)) && error.is_transient(),
        "{error:?}"
    );
    test.assert_pool_is_clean("aborted").await;
    let mut outer = test.pool.begin().await.unwrap();
    sqlx::raw_sql("ROLLBACK")
        .execute(&mut *outer)
        .await
        .unwrap();
    let error = idem::commit(outer).await.unwrap_err();
    assert!(matches!(error, Error::OuterTransaction(_)), "{error:?}");
    test.assert_pool_is_clean("rolled back").await;
    assert_eq!(test.claims().await, 0);
}

#[idempotent(key = "message", consumer = "billing")]
async fn references(#[tx] tx: &mut Conn, message: &str, parent: i32) -> Result<u64, Fail> {
    effect(tx, message).await?;
    sqlx::query("INSERT INTO child VALUES ($1)")
        .bind(parent)
        .execute(tx)
        .await?;
    Ok(7)
}

/// The constraint is checked at COMMIT, after the seal.
#[tokio::test]
async fn p1_a_deferred_constraint_fails_at_commit() {
    let test = Test::new(1).await;
    let tables = "CREATE TABLE parent (id int PRIMARY KEY); INSERT INTO parent VALUES (1); \
        CREATE TABLE child (parent int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)";
    sqlx::raw_sql(tables).execute(&test.pool).await.unwrap();
    for held in [false, true] {
        let message = format!("{held}");
        let result = if held {
            let mut conn = test.pool.acquire().await.unwrap();
            references(&mut conn, &message, 2).await
        } else {
            references(&test.pool, &message, 2).await
        };
        let error = result.unwrap_err();
        assert!(
            matches!(error, Fail::Delivery(Error::Database { .. })),
            "{error:?}"
        );
        assert!(!error.is_transient());
        test.assert_pool_is_clean("deferred").await;
        assert_eq!(test.effects_of(&message).await, 0);
        let again = references(&test.pool, &message, 1).await;
        assert_eq!(again.unwrap(), Outcome::Processed(7));
        assert_eq!(test.effects_of(&message).await, 1);
    }
}

#[idempotent(key = "message", consumer = "billing")]
async fn reads_lock_timeout(#[tx] tx: &mut Conn, message: &str) -> Result<String, Fail> {
    let _ = message;
    Ok(sqlx::query_scalar("SELECT current_setting('lock_timeout')")
        .fetch_one(tx)
        .await?)
}

/// The bound is the claim's alone: the body has the session's setting, and the session keeps it.
#[tokio::test]
async fn p9_the_bound_is_not_left_set() {
    let test = Test::new(1).await;
    let outcome = reads_lock_timeout(&test.pool, "evt-1").await.unwrap();
    assert_eq!(outcome, Outcome::Processed("0".into()));
    assert_eq!(
        reads_lock_timeout(&test.pool, "evt-1").await.unwrap(),
        Outcome::Duplicate
    );
    let mut conn = test.pool.acquire().await.unwrap();
    sqlx::raw_sql("SET lock_timeout = '1234ms'")
        .execute(&mut *conn)
        .await
        .unwrap();
    let outcome = reads_lock_timeout(&mut conn, "evt-2").await.unwrap();
    assert_eq!(outcome, Outcome::Processed("1234ms".into()));
    let mut outer = sqlx::Connection::begin(&mut *conn).await.unwrap();
    let outcome = reads_lock_timeout(&mut outer, "evt-3").await.unwrap();
    assert_eq!(outcome, Outcome::Processed("1234ms".into()));
    outer.commit().await.unwrap();
    let kept: String = sqlx::query_scalar("SHOW lock_timeout")
        .fetch_one(&mut *conn)
        .await
        .unwrap();
    assert_eq!(kept, "1234ms");
}

#[tokio::test]
async fn p9_waiting_is_bounded() {
    let test = Test::new(2).await;
    let Claimed::Fresh(first) = db::claim(&test.pool, "billing", "evt-1").await.unwrap() else {
        panic!("it is new");
    };
    let start = Instant::now();
    let error = on_connection(&test.pool, "evt-1", Body::Panics)
        .await
        .unwrap_err();
    assert!(
        matches!(error, Fail::Delivery(Error::InFlight(_))),
        "{error:?}"
    );
    assert!(error.is_transient());
    // A lower bound, which a slow machine cannot miss.
    assert!(start.elapsed() >= Duration::from_secs(10));
    // A bound of the session's own is kept.
    let mut conn = test.pool.acquire().await.unwrap();
    sqlx::raw_sql("SET lock_timeout = '50ms'")
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
    drop(conn);
    first.commit().await.unwrap();
    let outcome = on_connection(&test.pool, "evt-1", Body::Panics)
        .await
        .unwrap();
    assert_eq!(outcome, Outcome::Duplicate);
}

/// The loser of the race cannot see the winner's claim in its snapshot; it claims again with another one.
#[tokio::test]
async fn p9_losing_under_repeatable_read_finds_the_duplicate() {
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let mut test = Test::new(1).await;
        let options = test.fixture.options(3).after_connect(move |conn, _| {
            let set = format!("{} {level}", db::SET_ISOLATION);
            Box::pin(async move {
                sqlx::raw_sql(sqlx::AssertSqlSafe(set))
                    .execute(conn)
                    .await
                    .map(drop)
            })
        });
        test.pool = options.connect(&test.fixture.url).await.unwrap();
        let Claimed::Fresh(mut first) = db::claim(&test.pool, "billing", "evt-1").await.unwrap()
        else {
            panic!("it is new");
        };
        effect(&mut first, "evt-1").await.unwrap();
        let pool = test.pool.clone();
        let second =
            tokio::spawn(async move { on_connection(&pool, "evt-1", Body::Succeeds).await });
        // Until the second waits for the first.
        let mut observer = test.pool.acquire().await.unwrap();
        while !sqlx::query_scalar::<_, bool>(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock')",
        )
        .bind(test.fixture.name())
        .fetch_one(&mut *observer)
        .await
        .unwrap()
        {}
        drop(observer);
        first.commit().await.unwrap();
        let outcome = second.await.unwrap().unwrap();
        assert_eq!(outcome, Outcome::Duplicate, "{level}");
        assert_eq!(test.effects_of("evt-1").await, 1, "{level}");
    }
}

#[tokio::test]
async fn unprepared_leaves_no_prepared_statement() {
    let test = Test::new(1).await;
    let prepared =
        "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%processed_messages%'";
    let count = || {
        sqlx::query_scalar::<_, i64>(prepared)
            .persistent(false)
            .fetch_one(&test.pool)
    };
    let _ = on_connection(idem::Unprepared(&test.pool), "evt-1", Body::Succeeds)
        .await
        .unwrap();
    assert_eq!(count().await.unwrap(), 0);
    let _ = on_connection(&test.pool, "evt-2", Body::Succeeds)
        .await
        .unwrap();
    let statements = i64::try_from(db::STATEMENTS).unwrap();
    assert_eq!(
        count().await.unwrap(),
        statements,
        "otherwise it is prepared once"
    );
}

/// By the code alone, also where the error stands behind `#[error(transparent)]`.
#[tokio::test]
async fn p4_transient_or_not_by_sqlstate() {
    let test = Test::new(1).await;
    let transient = [
        "08006", "25006", "25P03", "25P04", "28P01", "3D000", "40001", "40003", "40P01", "42501",
        "42703", "42P01", "53100", "53200", "53300", "55006", "55P03", "57014", "57P01", "57P02",
        "57P03", "58030", "26000", "XX000",
    ];
    let permanent = [
        "22001", "22012", "23502", "23503", "23505", "23514", "25P02", "42601", "P0001", "08P01",
    ];
    let codes = transient.map(|code| (code, true)).into_iter();
    for (code, expected) in codes.chain(permanent.map(|code| (code, false))) {
        let raise = format!("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{code}'; END $$");
        let error = sqlx::raw_sql(sqlx::AssertSqlSafe(raise))
            .execute(&test.pool)
            .await
            .unwrap_err();
        assert_eq!(idem::is_transient(&error), expected, "{code}");
        assert_eq!(
            Fail::Database(error).is_transient(),
            expected,
            "{code}, transparent"
        );
    }
}

#[tokio::test]
async fn p9_waiting_is_bounded_in_a_transaction_of_the_callers() {
    let test = Test::new(2).await;
    let Claimed::Fresh(first) = db::claim(&test.pool, "billing", "evt-1").await.unwrap() else {
        panic!("it is new");
    };
    let mut outer = test.pool.begin().await.unwrap();
    let start = Instant::now();
    let error = on_connection(&mut outer, "evt-1", Body::Panics)
        .await
        .unwrap_err();
    assert!(
        matches!(error, Fail::Delivery(Error::InFlight(_))),
        "{error:?}"
    );
    assert!(start.elapsed() >= Duration::from_secs(10));
    let setting: String = sqlx::query_scalar("SHOW lock_timeout")
        .fetch_one(&mut *outer)
        .await
        .unwrap();
    assert_eq!(setting, "0", "the caller's own");
    first.commit().await.unwrap();
    let outcome = on_connection(&mut outer, "evt-1", Body::Panics)
        .await
        .unwrap();
    assert_eq!(outcome, Outcome::Duplicate);
    let setting: String = sqlx::query_scalar("SHOW lock_timeout")
        .fetch_one(&mut *outer)
        .await
        .unwrap();
    assert_eq!(setting, "0", "also after a duplicate");
    assert!(
        on_connection(&mut outer, "evt-2", Body::Succeeds)
            .await
            .unwrap()
            .is_processed()
    );
    idem::commit(outer).await.unwrap();
    assert_eq!(test.effects_of("evt-2").await, 1);
}

/// Whoever stops waiting for another worker's claim gives its place in the pool back at once, and not when that wait would have ended.
#[tokio::test]
async fn p5_a_cancelled_wait_does_not_keep_its_place_in_the_pool() {
    let test = Test::new(2).await;
    for form in FORMS {
        let message = format!("{form:?}");
        let Claimed::Fresh(first) = db::claim(&test.pool, "billing", &message).await.unwrap()
        else {
            panic!("it is new");
        };
        let waiting = deliver(form, &test.pool, &message, Body::Panics);
        let waited = tokio::time::timeout(Duration::from_millis(100), waiting).await;
        assert!(waited.is_err(), "{form:?}: {waited:?}");
        // The wait would take ten seconds.
        let other_message = format!("other {message}");
        let other = deliver(form, &test.pool, &other_message, Body::Succeeds);
        let other = tokio::time::timeout(Duration::from_secs(5), other).await;
        assert!(
            other.expect("a place in the pool").unwrap().is_processed(),
            "{form:?}"
        );
        first.commit().await.unwrap();
    }
    test.assert_pool_is_clean("waited").await;
}
