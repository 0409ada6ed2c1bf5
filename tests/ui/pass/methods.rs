use idem::idempotent;
use sqlx::{PgConnection, PgPool};

struct Event {
    id: String,
    amount: i64,
}

struct Service {
    prefix: String,
    pool: PgPool,
}

trait Consumer {
    async fn consume(&self, event: &Event) -> anyhow::Result<bool>;
}

impl Service {
    #[idempotent(key = "(self.prefix, (event.id, event.amount))", consumer = "service")]
    pub(crate) async fn add(&self, tx: &mut PgConnection, event: &Event) -> anyhow::Result<i64> {
        let _ = tx;
        Ok(event.amount)
    }

    #[idempotent(key = event.id, consumer = "service_mut")]
    async fn rename(&mut self, tx: &mut PgConnection, event: Event) -> anyhow::Result<()> {
        let _ = tx;
        self.prefix = event.id;
        Ok(())
    }
}

impl Consumer for Service {
    async fn consume(&self, event: &Event) -> anyhow::Result<bool> {
        Ok(self.add(&self.pool, event).await?.is_processed())
    }
}

fn main() {
    let _ = Service::consume;
}
