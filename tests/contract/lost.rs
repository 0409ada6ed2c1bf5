//! P3: bodies that lose their transaction and return `Ok`. Each is an error, never `Processed`, on every source.

use idem::Error;
use idem_tests::poll_times;
use sqlx::Acquire;

use super::*;

/// What a body does to its transaction before it returns `Ok`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Misdeed {
    None,
    /// Drops a nested `begin()` after so many polls.
    CancelsNestedBegin(usize),
    /// Forgets a nested transaction, so that COMMIT would be taken for its savepoint.
    ForgetsNested,
    /// Runs this statement.
    Runs(&'static str),
}

/// `true` if it did it.
async fn commit_misdeed(tx: &mut Conn, misdeed: Misdeed) -> Result<bool, Fail> {
    match misdeed {
        Misdeed::None => return Ok(false),
        Misdeed::CancelsNestedBegin(polls) => {
            let mut begin = Box::pin(sqlx::Connection::begin(tx));
            if let Some(nested) = poll_times(polls, begin.as_mut()).await {
                nested?.commit().await?;
                return Ok(false);
            }
        }
        Misdeed::ForgetsNested => std::mem::forget(tx.begin().await?),
        Misdeed::Runs(sql) => {
            sqlx::raw_sql(sql).execute(&mut *tx).await?;
        }
    }
    Ok(true)
}

#[idempotent(key = "message", consumer = "billing")]
async fn on_connection(
    #[tx] tx: &mut Conn,
    message: &str,
    misdeed: Misdeed,
    did: &mut bool,
) -> Result<u64, Fail> {
    effect(tx, message).await?;
    *did = commit_misdeed(tx, misdeed).await?;
    Ok(7)
}

#[idempotent(key = "message", consumer = "billing")]
async fn on_transaction(
    tx: &mut Transaction<'_, Db>,
    message: &str,
    misdeed: Misdeed,
    did: &mut bool,
) -> Result<u64, Fail> {
    effect(tx, message).await?;
    *did = commit_misdeed(tx, misdeed).await?;
    Ok(7)
}

/// What came of the delivery, and whether the misdeed was done.
async fn deliver<'c>(
    form: Form,
    source: impl idem::Source<'c, Database = Db>,
    message: &str,
    misdeed: Misdeed,
) -> (Result<Outcome<u64>, Fail>, bool) {
    let mut did = false;
    let did = &mut did;
    let result = match form {
        Form::Connection => on_connection(source, message, misdeed, did).await,
        Form::Transaction => on_transaction(source, message, misdeed, did).await,
        Form::Once => {
            db::once(source, "billing", message, async |tx: &mut Conn| {
                effect(tx, message).await?;
                *did = commit_misdeed(tx, misdeed).await?;
                Ok(7)
            })
            .await
        }
        Form::Claim => {
            let claim = async {
                match db::claim(source, "billing", message).await? {
                    Claimed::Fresh(mut claim) => {
                        effect(&mut claim, message).await?;
                        *did = commit_misdeed(&mut claim, misdeed).await?;
                        claim.commit().await?;
                        Ok(Outcome::Processed(7))
                    }
                    _ => Ok(Outcome::Duplicate),
                }
            };
            claim.await
        }
    };
    (result, *did)
}

/// The delivery with the misdeed is a transient error, from each kind of source; then the message is redelivered.
async fn assert_lost(test: &Test, misdeed: Misdeed, redelivered: Outcome<u64>) {
    for form in FORMS {
        for held in [false, true] {
            // SQLite may be too quick for a future to be dropped half-way.
            let mut attempts = 0..100;
            let (message, result) = loop {
                let attempt = attempts.next().expect("the misdeed is done now and then");
                let message = format!("{form:?} {held} {misdeed:?} {attempt}");
                let (result, did) = if held {
                    let mut conn = test.pool.acquire().await.unwrap();
                    deliver(form, &mut conn, &message, misdeed).await
                } else {
                    deliver(form, &test.pool, &message, misdeed).await
                };
                if did {
                    break (message, result);
                }
            };
            let Err(error) = result else {
                panic!("{message}: {result:?}");
            };
            assert!(
                matches!(error, Fail::Delivery(Error::TransactionLost(_))),
                "{message}: {error:?}"
            );
            assert!(error.is_transient(), "{message}");
            test.assert_pool_is_clean(&message).await;
            let (again, _) = deliver(form, &test.pool, &message, Misdeed::None).await;
            assert_eq!(again.unwrap(), redelivered, "{message}");
            assert_eq!(test.effects_of(&message).await, 1, "{message}");
        }
    }
}

#[tokio::test]
async fn p3_a_nested_begin_that_was_cancelled() {
    let test = Test::slow(1).await;
    assert_lost(&test, Misdeed::CancelsNestedBegin(1), Outcome::Processed(7)).await;
    // Polled to its end, it is harmless; dropped without a poll as well.
    for polls in [0, 1000] {
        for form in FORMS {
            let message = format!("{form:?} {polls}");
            let misdeed = Misdeed::CancelsNestedBegin(polls);
            let (result, _) = deliver(form, &test.pool, &message, misdeed).await;
            assert_eq!(result.unwrap(), Outcome::Processed(7), "{message}");
            assert_eq!(test.effects_of(&message).await, 1, "{message}");
        }
    }
}

#[tokio::test]
async fn p3_a_nested_transaction_that_was_forgotten() {
    let test = Test::slow(1).await;
    assert_lost(&test, Misdeed::ForgetsNested, Outcome::Processed(7)).await;
}

#[tokio::test]
async fn p3_a_rollback_of_the_bodys_own() {
    let test = Test::slow(1).await;
    assert_lost(&test, Misdeed::Runs("ROLLBACK"), Outcome::Processed(7)).await;
}

#[tokio::test]
async fn p3_a_commit_of_the_bodys_own() {
    let test = Test::slow(1).await;
    assert_lost(&test, Misdeed::Runs("COMMIT"), Outcome::Duplicate).await;
}

#[tokio::test]
async fn p3_another_transaction_in_place_of_the_deliverys() {
    let test = Test::new(1).await;
    assert_lost(
        &test,
        Misdeed::Runs("ROLLBACK; BEGIN"),
        Outcome::Processed(7),
    )
    .await;
    assert_lost(&test, Misdeed::Runs("COMMIT; BEGIN"), Outcome::Duplicate).await;
}

/// Any code of the program may have done it. A delivery that joined that transaction would never be committed.
#[tokio::test]
async fn p3_a_transaction_that_was_forgotten_on_a_pooled_connection_is_not_joined() {
    let test = Test::new(1).await;
    for form in FORMS {
        for held in [false, true] {
            let message = format!("{form:?} {held}");
            let mut conn = test.pool.acquire().await.unwrap();
            std::mem::forget(sqlx::Connection::begin(&mut *conn).await.unwrap());
            let (result, _) = if held {
                deliver(form, &mut conn, &message, Misdeed::None).await
            } else {
                drop(conn);
                conn = test.fixture.pool(1).await.acquire().await.unwrap();
                deliver(form, &test.pool, &message, Misdeed::None).await
            };
            let error = result.unwrap_err();
            assert!(
                matches!(error, Fail::Delivery(Error::OuterTransaction(_))),
                "{message}: {error:?}"
            );
            assert!(error.is_transient());
            drop(conn);
            test.assert_pool_is_clean(&message).await;
            let (again, _) = deliver(form, &test.pool, &message, Misdeed::None).await;
            assert_eq!(again.unwrap(), Outcome::Processed(7), "{message}");
            assert_eq!(test.effects_of(&message).await, 1, "{message}");
        }
    }
}
