//! What only a database behind a socket can do: default isolation levels, killed connections, lost answers, round trips.

use std::time::Duration;

use idem::Error;
use idem_tests::Proxy;
use sqlx::AssertSqlSafe;

use crate::contract::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_under_every_default_isolation_level() {
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        let mut test = Test::new(1).await;
        let set = format!("{} {level}", db::SET_ISOLATION);
        let options = test.fixture.options(6).after_connect(move |conn, _| {
            let set = AssertSqlSafe(set.clone());
            Box::pin(async move { sqlx::raw_sql(set).execute(conn).await.map(drop) })
        });
        test.pool = options.connect(&test.fixture.url).await.unwrap();
        race::race(&test, 3).await;
    }
}

async fn id(conn: &mut Conn) -> i64 {
    sqlx::query_scalar(db::CONNECTION_ID)
        .fetch_one(conn)
        .await
        .unwrap()
}

/// Ends the connection from outside, and waits until the server has done it.
async fn kill(test: &Test, id: i64) {
    let other = test.fixture.pool(1).await;
    let sql = AssertSqlSafe(db::KILL.replace("{}", &id.to_string()));
    sqlx::raw_sql(sql).execute(&other).await.unwrap();
    let sql = db::IS_CONNECTED.replace("{}", &id.to_string());
    loop {
        let count: i64 = sqlx::query_scalar(AssertSqlSafe(sql.clone()))
            .fetch_one(&other)
            .await
            .unwrap();
        if count == 0 {
            return other.close().await;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Kills its own connection after the effect, and goes on with it or returns `Ok` at once.
#[idempotent(key = "message", consumer = "billing")]
async fn is_killed_on_connection(
    #[tx] tx: &mut Conn,
    message: &str,
    test: &Test,
    goes_on: bool,
) -> Result<u64, Fail> {
    effect(tx, message).await?;
    kill(test, id(tx).await).await;
    if goes_on {
        effect(tx, message).await?;
    }
    Ok(7)
}

#[idempotent(key = "message", consumer = "billing")]
async fn is_killed_on_transaction(
    tx: &mut Transaction<'_, Db>,
    message: &str,
    test: &Test,
    goes_on: bool,
) -> Result<u64, Fail> {
    effect(tx, message).await?;
    kill(test, id(tx).await).await;
    if goes_on {
        effect(tx, message).await?;
    }
    Ok(7)
}

#[tokio::test]
async fn p4_killed_in_the_body_and_before_the_commit() {
    let test = Test::new(1).await;
    for goes_on in [true, false] {
        for form in [Form::Connection, Form::Transaction] {
            let message = format!("{form:?} {goes_on}");
            let result = match form {
                Form::Connection => {
                    is_killed_on_connection(&test.pool, &message, &test, goes_on).await
                }
                _ => is_killed_on_transaction(&test.pool, &message, &test, goes_on).await,
            };
            let error = result.unwrap_err();
            assert!(error.is_transient(), "{message}: {error:?}");
            let is_unknown = matches!(error, Fail::Delivery(Error::CommitUnknown(_)));
            assert_eq!(is_unknown, !goes_on, "{message}: {error:?}");
            test.assert_pool_is_clean(&message).await;
            assert_eq!(test.effects_of(&message).await, 0, "{message}");
            let again = deliver(form, &test.pool, &message, Body::Succeeds).await;
            assert_eq!(again.unwrap(), Outcome::Processed(7), "{message}");
            assert_eq!(test.effects_of(&message).await, 1, "{message}");
        }
    }
}

#[tokio::test]
async fn p4_killed_before_the_claim() {
    let mut test = Test::new(1).await;
    // Without the ping on acquire, the delivery is the first to notice.
    let options = test.fixture.options(1).test_before_acquire(false);
    test.pool = options.connect(&test.fixture.url).await.unwrap();
    for form in FORMS {
        let message = format!("{form:?}");
        let mut conn = test.pool.acquire().await.unwrap();
        let victim = id(&mut conn).await;
        drop(conn);
        // Its return to the pool would notice.
        while test.pool.num_idle() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        kill(&test, victim).await;
        let error = deliver(form, &test.pool, &message, Body::Succeeds)
            .await
            .unwrap_err();
        assert!(error.is_transient(), "{form:?}: {error:?}");
        let again = deliver(form, &test.pool, &message, Body::Succeeds).await;
        assert_eq!(again.unwrap(), Outcome::Processed(7), "{form:?}");
        assert_eq!(test.effects_of(&message).await, 1, "{form:?}");
    }
}

/// The connection is cut while an answer is on its way, so that the client cannot know.
#[tokio::test]
async fn p4_the_answer_is_lost() {
    let mut test = Test::new(1).await;
    let url = test.fixture.url.clone();
    let proxy = Proxy::start(db::WIRE.unwrap(), &url, Duration::ZERO).await;
    test.pool = test
        .fixture
        .options(1)
        .connect(&proxy.url(&url))
        .await
        .unwrap();
    for form in FORMS {
        for (index, (answer, redelivered)) in [
            ("BEGIN", Outcome::Processed(7)),
            ("processed_messages", Outcome::Processed(7)),
            ("INSERT INTO effects", Outcome::Processed(7)),
            ("COMMIT", Outcome::Duplicate),
        ]
        .into_iter()
        .enumerate()
        {
            // The text that is waited for must not be in the key.
            let message = format!("{form:?} {index}");
            // A new connection prepares its statements, so that their text is seen.
            let mut conn = test.pool.acquire().await.unwrap();
            conn.close_on_drop();
            drop(conn);
            proxy.cut_answer_to(answer);
            let error = deliver(form, &test.pool, &message, Body::Succeeds)
                .await
                .unwrap_err();
            assert!(proxy.has_cut(), "{message}");
            assert!(error.is_transient(), "{message}: {error:?}");
            let is_unknown = matches!(error, Fail::Delivery(Error::CommitUnknown(_)));
            assert_eq!(is_unknown, answer == "COMMIT", "{message}: {error:?}");
            let again = deliver(form, &test.pool, &message, Body::Succeeds).await;
            assert_eq!(again.unwrap(), redelivered, "{message}");
            assert_eq!(test.effects_of(&message).await, 1, "{message}");
            test.assert_pool_is_clean(&message).await;
        }
    }
}

/// What a client waits for: the body's one statement, and what the library adds to it.
#[tokio::test]
async fn round_trips() {
    let mut test = Test::new(1).await;
    let url = test.fixture.url.clone();
    let proxy = Proxy::start(db::WIRE.unwrap(), &url, Duration::ZERO).await;
    let options = test.fixture.options(1).test_before_acquire(false);
    test.pool = options.connect(&proxy.url(&url)).await.unwrap();
    // The first delivery prepares the statements of its connection.
    let _ = on_connection(&test.pool, "warm", Body::Succeeds)
        .await
        .unwrap();
    test.pool.acquire().await.unwrap();
    for form in FORMS {
        let message = format!("{form:?}");
        let count = async |body, held: bool| {
            let mut conn = test.pool.acquire().await.unwrap();
            if !held {
                drop(conn);
                // Nothing of its return is left to be counted.
                conn = test.pool.acquire().await.unwrap();
                drop(conn);
                tokio::time::sleep(Duration::from_millis(20)).await;
                let _ = proxy.take();
                deliver(form, &test.pool, &message, body).await.ok();
                return proxy.take();
            }
            let _ = proxy.take();
            deliver(form, &mut conn, &message, body).await.ok();
            proxy.take()
        };
        let (fails, statements) = count(Body::Fails, false).await;
        assert_eq!(
            fails,
            3 + db::STATEMENTS,
            "BEGIN, claim, body, ROLLBACK: {statements:?}"
        );
        let (processed, statements) = count(Body::Succeeds, false).await;
        assert_eq!(
            processed,
            2 + db::STATEMENTS + db::COMMIT_SENT.len(),
            "BEGIN, claim, body, COMMIT: {statements:?}"
        );
        assert_eq!(
            statements,
            [&[db::BEGIN_SENT], db::COMMIT_SENT].concat(),
            "the others are prepared"
        );
        let (duplicate, statements) = count(Body::Panics, false).await;
        assert_eq!(
            duplicate,
            2 + db::STATEMENTS,
            "BEGIN, claim, ROLLBACK: {statements:?}"
        );
        sqlx::raw_sql(db::FORGET).execute(&test.pool).await.unwrap();
        let (held, statements) = count(Body::Succeeds, true).await;
        assert_eq!(
            held,
            4 + db::STATEMENTS,
            "a held connection is left as it was: {statements:?}"
        );
        let (duplicate, statements) = count(Body::Panics, true).await;
        assert_eq!(
            duplicate,
            2 + db::STATEMENTS,
            "BEGIN, claim, ROLLBACK: {statements:?}"
        );
    }
}
