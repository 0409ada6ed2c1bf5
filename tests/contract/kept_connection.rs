//! P5: a delivery that is dropped takes its connection along only where that may be in doubt. Closing every one would be as safe, and cost a
//! new connection for each time-out.

use tokio::sync::Notify;

use super::*;

/// Says that it has begun, and never ends.
#[idempotent(key = "message", consumer = "billing")]
async fn hangs(#[tx] tx: &mut Conn, message: &str, begun: &Notify) -> Result<u64, Fail> {
    effect(tx, message).await?;
    begun.notify_one();
    std::future::pending().await
}

#[idempotent(key = "message", consumer = "billing")]
async fn hangs_in_a_transaction(
    tx: &mut Transaction<'_, Db>,
    message: &str,
    begun: &Notify,
) -> Result<u64, Fail> {
    effect(tx, message).await?;
    begun.notify_one();
    std::future::pending().await
}

async fn hang(form: Form, pool: &Pool<Db>, message: &str, begun: &Notify) -> Result<(), Fail> {
    match form {
        Form::Connection => hangs(pool, message, begun).await.map(drop),
        Form::Transaction => hangs_in_a_transaction(pool, message, begun).await.map(drop),
        Form::Once => {
            let outcome: Result<Outcome<u64>, Fail> =
                db::once(pool, "billing", message, async |tx: &mut Conn| {
                    effect(tx, message).await?;
                    begun.notify_one();
                    std::future::pending().await
                })
                .await;
            outcome.map(drop)
        }
        Form::Claim => {
            let Claimed::Fresh(mut claim) = db::claim(pool, "billing", message).await? else {
                panic!("it is new");
            };
            effect(&mut claim, message).await?;
            begun.notify_one();
            std::future::pending().await
        }
    }
}

#[tokio::test]
async fn p5_a_delivery_dropped_in_its_body_keeps_a_sound_connection() {
    let test = Test::new(1).await;
    for form in FORMS {
        let message = format!("{form:?}");
        // It lives as long as the session.
        let mark = "CREATE TEMPORARY TABLE mark (n int)";
        run(&mut test.pool.acquire().await.unwrap(), mark)
            .await
            .unwrap();
        let begun = Notify::new();
        tokio::select! {
            ended = hang(form, &test.pool, &message, &begun) => panic!("{ended:?}"),
            () = begun.notified() => {}
        }
        let mut conn = test.pool.acquire().await.unwrap();
        let marked = number(&mut conn, "SELECT count(*) FROM mark").await;
        assert_eq!(
            marked.is_ok(),
            !db::CANCELLED_IS_UNUSABLE,
            "{message}: {marked:?}"
        );
        if marked.is_ok() {
            run(&mut conn, "DROP TABLE mark").await.unwrap();
        }
        drop(conn);
        test.assert_pool_is_clean(&message).await;
        assert_eq!(test.effects_of(&message).await, 0, "{message}");
        let again = deliver(form, &test.pool, &message, Body::Succeeds).await;
        assert_eq!(again.unwrap(), Outcome::Processed(7), "{message}");
    }
}
