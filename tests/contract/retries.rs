//! P2, P4: a delivery that lost against another transaction runs again, by `retries` and by `idem::retry`. The conflicts are real ones.

use std::sync::Mutex;

use idem::Tx;

use super::*;

/// What the bodies of a delivery do: so many of them lose against another transaction, and the next one ends as it is told.
struct Plan {
    others: Pool<Db>,
    conflicts: u32,
    end: Body,
    /// The number of each run.
    runs: Mutex<Vec<u32>>,
}

impl Plan {
    fn new(others: &Pool<Db>, conflicts: u32, end: Body) -> Self {
        Self {
            others: others.clone(),
            conflicts,
            end,
            runs: Mutex::default(),
        }
    }

    async fn body(&self, conn: &mut Conn, message: &str, run: u32) -> Result<u32, Fail> {
        self.runs.lock().unwrap().push(run);
        effect(conn, message).await?;
        if run <= self.conflicts {
            db::conflict(&self.others, conn).await?;
            panic!("the other transaction has won");
        }
        self.end.end()?;
        Ok(run)
    }

    fn runs(&self) -> Vec<u32> {
        self.runs.lock().unwrap().clone()
    }
}

#[idempotent(key = "message", consumer = "billing", retries = 3)]
async fn handler(tx: &mut Tx<'_, Db>, message: &str, plan: &Plan) -> Result<u32, Fail> {
    let run = tx.attempt();
    plan.body(tx, message, run).await
}

#[idempotent(key = "message", consumer = "billing", retries = 3, replay)]
async fn replaying(tx: &mut Tx<'_, Db>, message: &str, plan: &Plan) -> Result<u32, Fail> {
    let run = tx.attempt();
    plan.body(tx, message, run).await
}

/// By hand, where the unit counts its runs itself.
async fn by_hand(pool: &Pool<Db>, message: &str, plan: &Plan) -> Result<Outcome<u32>, Fail> {
    let mut run = 0;
    idem::retry(3, || {
        run += 1;
        db::of("billing", message).once(pool, async move |tx: &mut Conn| {
            plan.body(tx, message, run).await
        })
    })
    .await
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Attribute,
    Replay,
    Retry,
}

const KINDS: [Kind; 3] = [Kind::Attribute, Kind::Replay, Kind::Retry];

impl Kind {
    async fn deliver(
        self,
        pool: &Pool<Db>,
        message: &str,
        plan: &Plan,
    ) -> Result<Outcome<u32>, Fail> {
        match self {
            Kind::Attribute => handler(pool, message, plan).await,
            Kind::Replay => replaying(pool, message, plan).await,
            Kind::Retry => by_hand(pool, message, plan).await,
        }
    }
}

impl Test {
    /// With a table to conflict in, sessions in which that can be, and a pool for the others.
    async fn with_conflicts(mut self) -> (Self, Pool<Db>) {
        let options = self.pool.options().clone();
        let options = options
            .after_connect(|conn, _| Box::pin(async move { run(conn, db::SNAPSHOTS).await }));
        let connect = (*self.pool.connect_options()).clone();
        self.pool.close().await;
        self.pool = options.connect_with(connect).await.expect("a pool");
        let others = self.fixture.pool(2).await;
        let mut conn = others.acquire().await.unwrap();
        run(&mut conn, db::CONFLICTS).await.unwrap();
        drop(conn);
        (self, others)
    }
}

#[tokio::test]
async fn p2_a_delivery_that_lost_runs_again() {
    let (test, others) = Test::new(1).await.with_conflicts().await;
    for kind in KINDS {
        for conflicts in [0, 1, 3] {
            let message = format!("{kind:?} {conflicts}");
            let plan = Plan::new(&others, conflicts, Body::Succeeds);
            let outcome = kind.deliver(&test.pool, &message, &plan).await;
            let last = conflicts + 1;
            assert_eq!(outcome.unwrap(), Outcome::Processed(last), "{message}");
            let runs: Vec<_> = (1..=last).collect();
            assert_eq!(plan.runs(), runs, "{message}");
            assert_eq!(test.effects_of(&message).await, 1, "{message}");
            let again = kind.deliver(&test.pool, &message, &plan).await.unwrap();
            match kind {
                Kind::Replay => assert_eq!(again, Outcome::Replayed(last), "{message}"),
                _ => assert_eq!(again, Outcome::Duplicate, "{message}"),
            }
            test.assert_pool_is_clean(&message).await;
        }
    }
}

#[tokio::test]
async fn p4_it_gives_up_after_so_many_runs() {
    let (test, others) = Test::new(1).await.with_conflicts().await;
    for kind in KINDS {
        let message = format!("{kind:?}");
        let plan = Plan::new(&others, 9, Body::Succeeds);
        let error = kind.deliver(&test.pool, &message, &plan).await.unwrap_err();
        assert!(matches!(error, Fail::Database(_)), "{error:?}");
        assert!(error.is_transient(), "{error:?}");
        assert_eq!(plan.runs(), [1, 2, 3, 4], "{message}");
        assert_eq!(test.effects_of(&message).await, 0, "{message}");
        test.assert_pool_is_clean(&message).await;
        let plan = Plan::new(&others, 0, Body::Succeeds);
        let outcome = kind.deliver(&test.pool, &message, &plan).await;
        assert_eq!(outcome.unwrap(), Outcome::Processed(1), "{message}");
        assert_eq!(test.effects_of(&message).await, 1, "{message}");
    }
}

#[tokio::test]
async fn p4_another_error_is_not_tried_again() {
    let (test, others) = Test::new(1).await.with_conflicts().await;
    for kind in KINDS {
        // Also in a run after a conflict.
        for conflicts in [0, 1] {
            let message = format!("{kind:?} {conflicts}");
            let plan = Plan::new(&others, conflicts, Body::Fails);
            let error = kind.deliver(&test.pool, &message, &plan).await.unwrap_err();
            assert!(matches!(error, Fail::Refused), "{error:?}");
            let runs: Vec<_> = (1..=conflicts + 1).collect();
            assert_eq!(plan.runs(), runs, "{message}");
            assert_eq!(test.effects_of(&message).await, 0, "{message}");
        }
    }
    test.assert_pool_is_clean("failed").await;
    test.pool.close().await;
    for kind in KINDS {
        // Transient, and no conflict.
        let plan = Plan::new(&others, 0, Body::Panics);
        let error = kind.deliver(&test.pool, "closed", &plan).await.unwrap_err();
        assert!(error.is_transient());
    }
}

#[tokio::test]
async fn p4_in_a_transaction_of_the_callers_nothing_is_tried_again() {
    let (test, others) = Test::new(1).await.with_conflicts().await;
    let mut outer = test.pool.begin().await.unwrap();
    let plan = Plan::new(&others, 1, Body::Succeeds);
    let error = handler(&mut outer, "evt-1", &plan).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    assert_eq!(plan.runs(), [1]);
    outer.rollback().await.ok();
    let outcome = handler(&test.pool, "evt-1", &Plan::new(&others, 1, Body::Succeeds)).await;
    assert_eq!(outcome.unwrap(), Outcome::Processed(2));
    test.assert_pool_is_clean("joined").await;
}

#[tokio::test]
async fn p11_on_a_held_connection_it_runs_again() {
    let (test, others) = Test::new(1).await.with_conflicts().await;
    let mut held = test.pool.acquire().await.unwrap();
    for message in ["evt-1", "evt-2"] {
        let plan = Plan::new(&others, 2, Body::Succeeds);
        let outcome = handler(&mut held, message, &plan).await;
        assert_eq!(outcome.unwrap(), Outcome::Processed(3), "of a pool");
        let plan = Plan::new(&others, 1, Body::Succeeds);
        let message = format!("plain {message}");
        let outcome = handler(&mut *held, &message, &plan).await;
        assert_eq!(outcome.unwrap(), Outcome::Processed(2), "plain");
        // It is left in no transaction.
        effect(&mut held, &format!("probe {message}"))
            .await
            .unwrap();
        assert_eq!(test.effects_of(&format!("probe {message}")).await, 1);
    }
}

/// The error types that show their sources.
macro_rules! handlers {
    ($($name:ident $error:ty)*) => {$(
        #[idempotent(key = "message", consumer = "billing", retries = 1)]
        async fn $name(tx: &mut Tx<'_, Db>, message: &str, plan: &Plan) -> Result<u32, $error> {
            let run = tx.attempt();
            match plan.body(tx, message, run).await {
                Ok(run) => Ok(run),
                Err(Fail::Database(error)) => Err(error.into()),
                Err(error) => panic!("{error:?}"),
            }
        }
    )*};
}

handlers! {
    to_anyhow anyhow::Error
    to_box Box<dyn std::error::Error + Send + Sync>
    to_sqlx sqlx::Error
    to_fail Fail
}

#[tokio::test]
async fn p4_whatever_the_error_type() {
    let (test, others) = Test::new(1).await.with_conflicts().await;
    let plan = || Plan::new(&others, 1, Body::Succeeds);
    let two = Outcome::Processed(2);
    assert_eq!(to_anyhow(&test.pool, "anyhow", &plan()).await.unwrap(), two);
    assert_eq!(to_box(&test.pool, "box", &plan()).await.unwrap(), two);
    assert_eq!(to_sqlx(&test.pool, "sqlx", &plan()).await.unwrap(), two);
    assert_eq!(to_fail(&test.pool, "fail", &plan()).await.unwrap(), two);
    let plan = Plan::new(&others, 2, Body::Succeeds);
    let error = to_anyhow(&test.pool, "twice", &plan).await.unwrap_err();
    assert!(idem::is_transient(&*error), "{error:?}");
    assert_eq!(plan.runs(), [1, 2]);
}

/// Dropped at every await point of two runs, and in the wait between them.
#[tokio::test]
async fn p5_cancelled_in_any_run() {
    let (test, others) = Test::slow(1).await.with_conflicts().await;
    for kind in KINDS {
        let mut polls = 0;
        let mut between = 0;
        loop {
            let message = format!("{kind:?} {polls}");
            let plan = Plan::new(&others, 1, Body::Succeeds);
            let delivery = kind.deliver(&test.pool, &message, &plan);
            let done = idem_tests::cancelled_after(polls, delivery).await.is_some();
            between += usize::from(!done && plan.runs() == [1]);
            test.assert_pool_is_clean(&message).await;
            // A COMMIT may still be under way; the redelivery waits for it.
            let plan = Plan::new(&others, 0, Body::Succeeds);
            let again = kind.deliver(&test.pool, &message, &plan).await;
            assert!(again.is_ok(), "{message}: {again:?}");
            assert_eq!(test.effects_of(&message).await, 1, "{message}");
            if done {
                break;
            }
            polls += 1;
            assert!(polls < 1000, "a delivery has an end");
        }
        assert!(between > 0, "{kind:?}: cancelled before its second run");
    }
}
