//! The promises P1 to P11, written once and run on each database. A test's name begins with the promise it proves.

pub(crate) mod batch;
mod batch_race;
mod business_key;
mod business_race;
pub(crate) mod by_hand;
mod cancel;
mod deliver;
mod fingerprint;
mod gapless;
mod in_flight;
mod io_errors;
mod isolation;
mod kept_connection;
mod keys;
mod lost;
mod nested;
mod one_by_one;
mod own_wait;
pub(crate) mod race;
mod replay;
mod retries;
mod savepoint;
mod savepoint_cancel;
mod schema;
mod tx;
mod unfit_value;
mod version;
mod version_race;

pub(crate) use idem::{Claimed, Delivery, Error, Outcome};
pub(crate) use idem_tests::Fixture;
pub(crate) use sqlx::{AssertSqlSafe, Pool, Transaction};

/// Each suite says how its messages are claimed.
pub(crate) use crate::db::{self, Conn, Db, idempotent};

/// What a handler of the contract returns as its error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fail {
    #[error(transparent)]
    Delivery(#[from] idem::Error),
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    /// The body's own verdict.
    #[error("refused")]
    Refused,
}

impl Fail {
    pub(crate) fn is_transient(&self) -> bool {
        idem::is_transient(self)
    }
}

/// What the body does after its effect.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Body {
    Succeeds,
    Fails,
    Panics,
    ReturnsEarly,
}

impl Body {
    pub(crate) fn end(self) -> Result<u64, Fail> {
        match self {
            Body::Succeeds | Body::ReturnsEarly => Ok(7),
            Body::Fails => Err(Fail::Refused),
            Body::Panics => panic!("the body panics"),
        }
    }
}

pub(crate) async fn effect(conn: &mut Conn, message: &str) -> Result<(), sqlx::Error> {
    sqlx::query(db::EFFECT)
        .bind(message)
        .execute(conn)
        .await
        .map(drop)
}

/// Runs statements without parameters, whose placeholders are each database's own.
pub(crate) async fn run(conn: &mut Conn, sql: impl Into<String>) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(sql.into()))
        .execute(conn)
        .await
        .map(drop)
}

/// The one number that a query without parameters finds.
pub(crate) async fn number(conn: &mut Conn, sql: impl Into<String>) -> Result<i64, sqlx::Error> {
    let row = sqlx::raw_sql(AssertSqlSafe(sql.into()))
        .fetch_one(conn)
        .await?;
    sqlx::Row::try_get(&row, 0)
}

#[idempotent(key = "message", consumer = "billing")]
pub(crate) async fn on_connection(
    #[tx] tx: &mut Conn,
    message: &str,
    body: Body,
) -> Result<u64, Fail> {
    effect(tx, message).await?;
    if body == Body::ReturnsEarly {
        return Ok(7);
    }
    body.end()
}

#[idempotent(key = "message", consumer = "billing")]
pub(crate) async fn on_transaction(
    tx: &mut Transaction<'_, Db>,
    message: &str,
    body: Body,
) -> Result<u64, Fail> {
    effect(tx, message).await?;
    body.end()
}

/// The ways to write a handler; the promises are the same.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    /// The attribute over `&mut Connection`.
    Connection,
    /// The attribute over `&mut Transaction`.
    Transaction,
    /// `idem::once`.
    Once,
    /// `idem::claim`.
    Claim,
}

pub(crate) const FORMS: [Form; 4] = [Form::Connection, Form::Transaction, Form::Once, Form::Claim];

/// Delivers the message to a handler of this form, which has one effect.
pub(crate) async fn deliver<'c>(
    form: Form,
    source: impl idem::Source<'c, Database = Db>,
    message: &str,
    body: Body,
) -> Result<Outcome<u64>, Fail> {
    match form {
        Form::Connection => on_connection(source, message, body).await,
        Form::Transaction => on_transaction(source, message, body).await,
        Form::Once => {
            db::once(source, "billing", message, async |tx: &mut Conn| {
                effect(tx, message).await?;
                body.end()
            })
            .await
        }
        Form::Claim => match db::claim(source, "billing", message).await? {
            Claimed::Duplicate => Ok(Outcome::Duplicate),
            Claimed::Fresh(mut claim) => {
                let done = effect(&mut claim, message).await.map_err(Fail::from);
                match done.and_then(|()| body.end()) {
                    Ok(value) => {
                        claim.commit().await?;
                        Ok(Outcome::Processed(value))
                    }
                    Err(error) => {
                        claim.rollback().await;
                        Err(error)
                    }
                }
            }
            Claimed::Replayed(_) | Claimed::Stale => unreachable!("not asked for"),
        },
    }
}

/// A database with the table of claims and one for effects.
pub(crate) struct Test {
    pub(crate) fixture: Fixture<Db>,
    pub(crate) pool: Pool<Db>,
    /// Sees what is committed.
    observer: Pool<Db>,
}

impl Test {
    pub(crate) async fn new(connections: u32) -> Self {
        let fixture = Fixture::new().await;
        let pool = fixture.pool(connections).await;
        db::migrate(&pool).await.expect("the table of claims");
        sqlx::raw_sql(db::EFFECTS)
            .execute(&pool)
            .await
            .expect("the table of effects");
        Self::of(fixture, pool)
    }

    pub(crate) fn of(fixture: Fixture<Db>, pool: Pool<Db>) -> Self {
        let observer = fixture.options(1).connect_lazy(&fixture.url);
        Self {
            fixture,
            pool,
            observer: observer.expect("a URL"),
        }
    }

    /// As [`Test::new`], over a connection whose answers take a while, so that each statement is waited for: a future that is polled
    /// once for each wait stops at each of them.
    pub(crate) async fn slow(connections: u32) -> Self {
        let mut test = Self::new(connections).await;
        if let Some(wire) = db::WIRE {
            let url = &test.fixture.url;
            let proxy =
                idem_tests::Proxy::start(wire, url, std::time::Duration::from_millis(1)).await;
            test.pool = test
                .fixture
                .options(connections)
                .connect(&proxy.url(url))
                .await
                .expect("the proxy");
        }
        test
    }

    /// How often the message had its effect, as another connection sees it.
    pub(crate) async fn effects_of(&self, message: &str) -> i64 {
        self.count(db::EFFECTS_OF, message).await
    }

    /// How many claims there are, as another connection sees it.
    pub(crate) async fn claims(&self) -> i64 {
        self.number(db::CLAIMS).await
    }

    /// What another connection sees.
    pub(crate) async fn number(&self, sql: impl Into<String>) -> i64 {
        let mut conn = self.observer.acquire().await.expect("a connection");
        number(&mut conn, sql).await.expect("a number")
    }

    async fn count(&self, sql: &'static str, message: &str) -> i64 {
        sqlx::query_scalar(sql)
            .bind(message)
            .fetch_one(&self.observer)
            .await
            .expect("a count")
    }

    /// The claim and the effect are both there or both absent.
    pub(crate) async fn assert_all_or_nothing(&self, message: &str) {
        let claims = self.count(db::CLAIMS_OF, message).await;
        assert_eq!(self.effects_of(message).await, claims, "{message}");
    }

    /// Proves that every connection of the pool is outside a transaction: what is written on it is there for others at once.
    pub(crate) async fn assert_pool_is_clean(&self, what: &str) {
        let size = self.pool.options().get_max_connections();
        let mut held = Vec::new();
        for index in 0..size {
            let mut conn = self.pool.acquire().await.expect("a connection");
            let probe = format!("probe {index} {}", uuid::Uuid::new_v4());
            effect(&mut conn, &probe)
                .await
                .expect("a usable connection");
            assert_eq!(self.effects_of(&probe).await, 1, "{what}: autocommit");
            held.push(conn);
        }
    }
}
