// With `pool` a handler has the signature that a trait prescribes.
use idem::{Outcome, idempotent};
use sqlx::{PgConnection, PgPool};

struct Event {
    id: String,
    amount: i64,
}

trait Consumer {
    async fn consume(&self, event: &Event) -> Result<Outcome<i64>, sqlx::Error>;

    async fn consume_all(&mut self, events: Vec<Event>) -> Result<idem::BatchOutcome<i64>, sqlx::Error>;
}

struct Service {
    pool: PgPool,
}

impl Consumer for Service {
    #[idempotent(key = "event.id", consumer = "service", pool = "self.pool", retries = 3)]
    async fn consume(&self, tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
        let _ = tx;
        Ok(event.amount)
    }

    #[idempotent(key = "event.id", consumer = "service", pool = self.pool(), each = "event in events")]
    async fn consume_all(&mut self, events: Vec<Event>, tx: &mut PgConnection) -> Result<i64, sqlx::Error> {
        let _ = tx;
        Ok(events.iter().map(|event| event.amount).sum())
    }
}

impl Service {
    fn pool(&self) -> PgPool {
        self.pool.clone()
    }

    #[idempotent(key = "event.id", consumer = "service", pool = "self.pool()", retries = 3)]
    async fn of_a_call(&self, tx: &mut PgConnection, event: &Event) -> Result<i64, sqlx::Error> {
        let _ = tx;
        Ok(event.amount)
    }
}

fn main() {
    let _ = (Service::consume, Service::consume_all, Service::of_a_call);
}
