//! What is particular to the table by days. A test's name begins with the promise it proves.

mod ahead;
mod alone;
mod business_key;
mod creation;
mod drop;
mod ids;
mod interrupted;
mod load;
mod midnight;
mod moving;
mod refused;
mod rights;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use idem::{Days, Partition, Source};

use crate::by_day::A_DAY;
use crate::contract::by_hand::Way;
use crate::contract::*;

/// What is delivered, with the time at which its producer made it.
#[derive(Debug, Clone, Hash)]
struct Event {
    id: String,
    time: SystemTime,
}

#[idem::idempotent(key = "event.id", consumer = "billing", time = "event.time")]
async fn pay(#[tx] tx: &mut Conn, event: &Event, body: Body) -> Result<u64, Fail> {
    effect(tx, &event.id).await?;
    body.end()
}

impl Event {
    fn delivery(&self) -> Delivery<'static> {
        Delivery::of("billing", &self.id).time(self.time)
    }

    async fn deliver<'c>(
        &self,
        way: Way,
        source: impl Source<'c, Database = Db>,
        body: Body,
    ) -> Result<Outcome<u64>, Fail> {
        if way == Way::Attribute {
            return pay(source, self, body).await;
        }
        way.deliver(source, self.delivery(), &self.id, body).await
    }
}

/// A database whose clock stands where the test puts it: its schema has a `now()`, which comes before the server's.
struct Clocked {
    test: Test,
    start: SystemTime,
}

impl Clocked {
    /// At noon, without the table by days.
    async fn new(day: &str, connections: u32) -> Self {
        Self::of(Fixture::new().await, day, connections).await
    }

    async fn of(mut fixture: Fixture<Db>, day: &str, connections: u32) -> Self {
        let schema = fixture.name().to_owned();
        let path = format!("search_path]={schema}");
        fixture.url = fixture.url.replace(&path, &format!("{path},pg_catalog"));
        let pool = fixture.pool(connections).await;
        let mut conn = pool.acquire().await.unwrap();
        let clock = format!(
            "CREATE TABLE clock (time timestamptz NOT NULL); INSERT INTO clock VALUES ('{day} 12:00:00+00'); \
             CREATE FUNCTION now() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT time FROM {schema}.clock'"
        );
        run(&mut conn, clock).await.unwrap();
        run(&mut conn, db::EFFECTS).await.unwrap();
        run(&mut conn, idem::sql::POSTGRES).await.unwrap();
        let seconds = number(&mut conn, "SELECT extract(epoch FROM now())::bigint");
        let seconds = u64::try_from(seconds.await.unwrap()).unwrap();
        drop(conn);
        Self {
            test: Test::of(fixture, pool),
            start: UNIX_EPOCH + Duration::from_secs(seconds),
        }
    }

    /// With so many days behind and ahead of today.
    async fn with_days(day: &str, behind: u32, ahead: u16, connections: u32) -> Self {
        Self::new(day, connections).await.with(behind, ahead).await
    }

    async fn with(self, behind: u32, ahead: u16) -> Self {
        let days = self.days(behind).ahead(ahead);
        let created = days.create().await.unwrap();
        assert_eq!(created, behind + u32::from(ahead) + 1);
        self
    }

    fn pool(&self) -> &Pool<Db> {
        &self.test.pool
    }

    fn days(&self, retain: u32) -> Days {
        Days::new(self.pool()).retain(retain * A_DAY)
    }

    /// Of the day that is so many days from the first one.
    fn event(&self, id: impl Into<String>, days: i64) -> Event {
        let distance = A_DAY * u32::try_from(days.abs()).unwrap();
        let time = if days < 0 {
            self.start - distance
        } else {
            self.start + distance
        };
        Event {
            id: id.into(),
            time,
        }
    }

    async fn set_clock(&self, time: &str) {
        self.run(format!("UPDATE clock SET time = '{time}'")).await;
    }

    async fn next_day(&self) {
        self.run("UPDATE clock SET time = time + interval '1 day'")
            .await;
    }

    async fn run(&self, sql: impl Into<String>) {
        let mut conn = self.pool().acquire().await.unwrap();
        run(&mut conn, sql).await.unwrap();
    }

    async fn list(&self) -> Vec<Partition> {
        Days::new(self.pool()).list().await.unwrap()
    }

    /// The days that there are, as text.
    async fn names(&self) -> Vec<String> {
        let days = self.list().await;
        days.iter().map(|day| day.day.to_string()).collect()
    }

    /// Waits until the server says so.
    async fn until(&self, condition: &str) {
        let is_true = format!("SELECT count(*) FROM (SELECT) AS once WHERE {condition}");
        for _ in 0..2000 {
            if self.test.number(is_true.clone()).await == 1 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("it does not come to this: {condition}");
    }

    /// Another session of the test waits for a lock in a statement with this text.
    async fn until_waiting(&self, statement: &str) {
        let name = self.test.fixture.name();
        self.until(&format!(
            "EXISTS (SELECT FROM pg_stat_activity WHERE application_name = '{name}' AND wait_event_type = 'Lock' \
             AND query LIKE '%{statement}%' AND pid <> pg_backend_pid())"
        ))
        .await;
    }
}

#[track_caller]
fn assert_expired<T: std::fmt::Debug>(result: Result<T, Fail>, day: &str, oldest: &str) {
    let Fail::Delivery(error) = result.unwrap_err() else {
        panic!("it is the library's");
    };
    let Error::Expired {
        day: of,
        oldest: first,
    } = &error
    else {
        panic!("{error:?}");
    };
    assert_eq!(
        (of.to_string(), first.to_string()),
        (day.into(), oldest.into())
    );
    assert!(!error.is_transient(), "for the dead letters");
    for part in [day, oldest] {
        assert!(error.to_string().contains(part), "{error}");
    }
}
