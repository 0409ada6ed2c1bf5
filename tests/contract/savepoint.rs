//! P1, P3: a part of a handler that may fail, by `idem::savepoint` and `Tx::savepoint`.

use idem::Tx;

use super::*;

/// What a part does after its effect.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Part {
    Succeeds,
    Refuses,
    /// By a statement that fails, which poisons the rest on PostgreSQL.
    Fails,
    /// Drops that error and returns `Ok`.
    Swallows,
    /// Leaves a nested transaction behind.
    Forgets,
}

impl Part {
    pub(super) async fn run(self, conn: &mut Conn, message: &str) -> Result<u64, Fail> {
        effect(conn, message).await?;
        match self {
            Part::Succeeds => Ok(1),
            Part::Refuses => Err(Fail::Refused),
            Part::Fails => {
                run(conn, "INSERT INTO nowhere VALUES (1)").await?;
                unreachable!("there is no such table")
            }
            Part::Swallows => {
                let failed = run(conn, "INSERT INTO nowhere VALUES (1)").await;
                assert!(failed.is_err());
                Ok(1)
            }
            Part::Forgets => {
                std::mem::forget(sqlx::Connection::begin(conn).await?);
                Ok(1)
            }
        }
    }
}

/// The parts between two effects of its own; which of them succeeded.
#[idempotent(key = "message", consumer = "billing")]
async fn on_tx(tx: &mut Tx<'_, Db>, message: &str, parts: &[Part]) -> Result<Vec<bool>, Fail> {
    effect(tx, &format!("{message} before")).await?;
    let mut done = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let message = format!("{message} {index}");
        let result = tx
            .savepoint(async |conn: &mut Conn| part.run(conn, &message).await)
            .await;
        done.push(result.is_ok());
    }
    effect(tx, &format!("{message} after")).await?;
    Ok(done)
}

#[idempotent(key = "message", consumer = "billing")]
async fn on_conn(#[tx] tx: &mut Conn, message: &str, parts: &[Part]) -> Result<Vec<bool>, Fail> {
    effect(tx, &format!("{message} before")).await?;
    let mut done = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let message = format!("{message} {index}");
        let part = async |conn: &mut Conn| part.run(conn, &message).await;
        done.push(idem::savepoint(&mut *tx, part).await.is_ok());
    }
    effect(tx, &format!("{message} after")).await?;
    Ok(done)
}

#[tokio::test]
async fn p1_a_part_that_fails_is_undone_and_the_rest_commits() {
    let test = Test::new(2).await;
    let parts = [
        Part::Succeeds,
        Part::Refuses,
        Part::Fails,
        Part::Forgets,
        Part::Succeeds,
        Part::Fails,
    ];
    for by_tx in [false, true] {
        for joins in [false, true] {
            let message = format!("{by_tx} {joins}");
            let outcome = if joins {
                let mut outer = test.pool.begin().await.unwrap();
                let outcome = if by_tx {
                    on_tx(&mut outer, &message, &parts).await
                } else {
                    on_conn(&mut outer, &message, &parts).await
                };
                idem::commit(outer).await.unwrap();
                outcome
            } else if by_tx {
                on_tx(&test.pool, &message, &parts).await
            } else {
                on_conn(&test.pool, &message, &parts).await
            };
            let done = parts.map(|part| part == Part::Succeeds).to_vec();
            assert_eq!(
                outcome.unwrap(),
                Outcome::Processed(done.clone()),
                "{message}"
            );
            for (index, done) in done.into_iter().enumerate() {
                let effects = test.effects_of(&format!("{message} {index}")).await;
                assert_eq!(effects, i64::from(done), "{message} {index}");
            }
            for part in ["before", "after"] {
                let effects = test.effects_of(&format!("{message} {part}")).await;
                assert_eq!(effects, 1, "{message} {part}");
            }
            test.assert_pool_is_clean(&message).await;
        }
    }
}

/// PostgreSQL has aborted the savepoint then; the others go on.
#[tokio::test]
async fn p3_an_error_that_was_dropped_in_a_part() {
    let test = Test::new(1).await;
    let outcome = on_tx(&test.pool, "evt-1", &[Part::Swallows, Part::Succeeds]).await;
    let done = vec![!db::ABORTS, true];
    assert_eq!(outcome.unwrap(), Outcome::Processed(done));
    let effects = test.effects_of("evt-1 0").await;
    assert_eq!(effects, i64::from(!db::ABORTS));
    assert_eq!(test.effects_of("evt-1 1").await, 1);
    assert_eq!(test.effects_of("evt-1 after").await, 1);
    test.assert_pool_is_clean("swallowed").await;
}

#[idempotent(key = "message", consumer = "billing")]
async fn nests(tx: &mut Tx<'_, Db>, message: &str, inner: Part, outer: Part) -> Result<bool, Fail> {
    let done = tx
        .savepoint(async |conn: &mut Conn| {
            let part = async |conn: &mut Conn| inner.run(conn, &format!("{message} inner")).await;
            let is_done = idem::savepoint(&mut *conn, part).await.is_ok();
            assert_eq!(is_done, inner == Part::Succeeds);
            outer.run(conn, &format!("{message} outer")).await
        })
        .await;
    effect(tx, message).await?;
    Ok(done.is_ok())
}

#[tokio::test]
async fn p1_parts_of_parts() {
    let test = Test::new(1).await;
    for inner in [Part::Succeeds, Part::Refuses, Part::Fails, Part::Forgets] {
        for outer in [Part::Succeeds, Part::Refuses, Part::Fails, Part::Forgets] {
            let message = format!("{inner:?} {outer:?}");
            let outcome = nests(&test.pool, &message, inner, outer).await.unwrap();
            let is_done = outer == Part::Succeeds;
            assert_eq!(outcome, Outcome::Processed(is_done), "{message}");
            let effects = async |what: &str| test.effects_of(&format!("{message}{what}")).await;
            assert_eq!(effects("").await, 1, "{message}");
            assert_eq!(effects(" outer").await, i64::from(is_done), "{message}");
            let is_inner_done = is_done && inner == Part::Succeeds;
            assert_eq!(
                effects(" inner").await,
                i64::from(is_inner_done),
                "{message}"
            );
        }
    }
    test.assert_pool_is_clean("nested").await;
}

#[tokio::test]
async fn p3_outside_of_a_transaction_there_are_no_parts() {
    let test = Test::new(1).await;
    let mut conn = test.pool.acquire().await.unwrap();
    let part = async |conn: &mut Conn| Part::Succeeds.run(conn, "evt-1").await;
    let error = idem::savepoint(&mut *conn, part).await.unwrap_err();
    assert!(
        matches!(error, Fail::Delivery(Error::TransactionLost(_))),
        "{error:?}"
    );
    assert_eq!(test.effects_of("evt-1").await, 0, "it does not run");
}
