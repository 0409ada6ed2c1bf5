//! P11: the isolation level of a delivery's transaction.

use idem::Isolation;

use super::by_hand::{WAYS, Way};
use super::*;

/// The handlers' value is the level that their body finds.
macro_rules! handlers {
    ($($name:ident $level:tt)*) => {$(
        #[idempotent(key = "message", consumer = "billing", isolation = $level)]
        async fn $name(#[tx] tx: &mut Conn, message: &str) -> Result<String, Fail> {
            effect(tx, message).await?;
            Ok(db::level(tx).await?)
        }
    )*};
}

handlers! {
    serializable "serializable"
    repeatable_read "repeatable read"
    read_committed "read_committed"
    read_uncommitted "read uncommitted"
}

const LEVELS: [(Isolation, &str); 4] = [
    (Isolation::Serializable, "serializable"),
    (Isolation::ReadCommitted, "read committed"),
    (Isolation::RepeatableRead, "repeatable read"),
    (Isolation::ReadUncommitted, "read uncommitted"),
];

async fn deliver<'c>(
    way: Way,
    isolation: Isolation,
    source: impl idem::Source<'c, Database = Db>,
    message: &str,
) -> Result<Outcome<String>, Fail> {
    let delivery = db::of("billing", message).isolation(isolation);
    match (way, isolation) {
        (Way::Attribute, Isolation::Serializable) => serializable(source, message).await,
        (Way::Attribute, Isolation::RepeatableRead) => repeatable_read(source, message).await,
        (Way::Attribute, Isolation::ReadCommitted) => read_committed(source, message).await,
        (Way::Attribute, Isolation::ReadUncommitted) => read_uncommitted(source, message).await,
        (Way::Once, _) => {
            delivery
                .once(source, async |tx: &mut Conn| {
                    effect(tx, message).await?;
                    Ok(db::level(tx).await?)
                })
                .await
        }
        (Way::Claim, _) => match delivery.claim(source).await? {
            Claimed::Fresh(mut claim) => {
                effect(&mut claim, message).await?;
                let level = db::level(&mut claim).await?;
                claim.commit().await?;
                Ok(Outcome::Processed(level))
            }
            _ => Ok(Outcome::Duplicate),
        },
    }
}

/// In a transaction that nobody has asked a level for.
async fn level_of_the_session(conn: &mut Conn) -> String {
    let mut plain = sqlx::Connection::begin(conn).await.unwrap();
    effect(&mut plain, "plain").await.unwrap();
    let level = db::level(&mut plain).await.unwrap();
    plain.rollback().await.unwrap();
    level
}

#[tokio::test]
async fn p11_the_body_has_the_level_and_the_session_keeps_its_own() {
    let test = Test::new(1).await;
    let mut conn = test.pool.acquire().await.unwrap();
    let own = level_of_the_session(&mut conn).await;
    drop(conn);
    for way in WAYS {
        for (isolation, name) in LEVELS {
            let message = format!("{way:?} {isolation:?}");
            let name = if db::HAS_LEVELS { name } else { "serializable" };
            let outcome = deliver(way, isolation, &test.pool, &message).await.unwrap();
            assert_eq!(outcome, Outcome::Processed(name.to_owned()), "{message}");
            let mut conn = test.pool.acquire().await.unwrap();
            assert_eq!(level_of_the_session(&mut conn).await, own, "{message}");
            let again = deliver(way, isolation, &mut conn, &message).await.unwrap();
            assert_eq!(again, Outcome::Duplicate, "{message}");
            assert_eq!(level_of_the_session(&mut conn).await, own, "{message}");
            drop(conn);
            test.assert_pool_is_clean(&message).await;
        }
    }
}

#[tokio::test]
async fn p11_a_batch_has_its_level_too() {
    let test = Test::new(1).await;
    for (isolation, name) in LEVELS {
        let message = format!("{isolation:?}");
        let name = if db::HAS_LEVELS { name } else { "serializable" };
        let mut batch = db::batch("billing");
        db::push(&mut batch, &message);
        let claimed = batch.isolation(isolation).claim(&test.pool).await.unwrap();
        let mut claim = claimed.claim.unwrap();
        assert_eq!(db::level(&mut claim).await.unwrap(), name);
        claim.commit().await.unwrap();
    }
}

/// An open transaction has its level already. SQLite knows one only.
#[tokio::test]
async fn p4_a_transaction_with_another_level_is_not_joined() {
    let test = Test::new(1).await;
    for way in WAYS {
        for (isolation, _) in LEVELS {
            let message = format!("{way:?} {isolation:?}");
            let mut outer = test.pool.begin().await.unwrap();
            effect(&mut outer, "before").await.unwrap();
            let joined = deliver(way, isolation, &mut outer, &message).await;
            if db::HAS_LEVELS {
                let error = joined.unwrap_err();
                assert!(
                    matches!(error, Fail::Delivery(Error::Isolation)),
                    "{message}: {error:?}"
                );
                assert!(!error.is_transient(), "the caller needs a change");
            } else {
                assert!(joined.unwrap().is_processed(), "{message}");
            }
            effect(&mut outer, &format!("after {message}"))
                .await
                .unwrap();
            idem::commit(outer).await.unwrap();
            assert_eq!(test.effects_of(&format!("after {message}")).await, 1);
            let effects = test.effects_of(&message).await;
            assert_eq!(effects, i64::from(!db::HAS_LEVELS), "{message}");
            test.assert_pool_is_clean(&message).await;
        }
    }
}

/// The level is set before BEGIN on MySQL: it must not fall to a transaction of somebody else's.
#[tokio::test]
async fn p5_a_cancelled_delivery_leaves_no_level() {
    let test = Test::slow(1).await;
    let mut conn = test.pool.acquire().await.unwrap();
    let own = level_of_the_session(&mut conn).await;
    drop(conn);
    for polls in 0..6 {
        let message = format!("{polls}");
        let level = Isolation::ReadUncommitted;
        let delivery = deliver(Way::Attribute, level, &test.pool, &message);
        let done = idem_tests::cancelled_after(polls, delivery).await.is_some();
        let mut conn = test.pool.acquire().await.unwrap();
        assert_eq!(level_of_the_session(&mut conn).await, own, "{message}");
        drop(conn);
        test.assert_pool_is_clean(&message).await;
        if done {
            break;
        }
    }
}
