use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::mpsc;

use crate::broker::Broker;
use crate::crew::{Line, Place};
use crate::database::{Database, Server};
use crate::disk::Disk;
use crate::nats::Nats;
use crate::options::Options;
use crate::producer;
use crate::proxy::{Proxy, Seen};
use crate::schema;
use crate::store::Store;
use crate::wire::Wire;
use crate::worker;

/// Everything that a run needs: servers, proxies, workers.
pub(super) struct Stage {
    pub(super) server: Arc<Mutex<Server>>,
    /// The supervisor's own way to the database.
    pub(super) store: Store,
    pub(super) places: Vec<Place>,
    /// Of each place, before the database.
    pub(super) databases: Vec<Proxy>,
    /// Of each place, before the broker.
    pub(super) brokers: Vec<Proxy>,
    pub(super) producers: Proxy,
    pub(super) producer_url: String,
    /// Past the proxies.
    pub(super) order: producer::Order,
    pub(super) shared: Arc<producer::Shared>,
    pub(super) news: mpsc::UnboundedReceiver<News>,
    pub(super) tell: mpsc::UnboundedSender<News>,
    pub(super) filler: PathBuf,
    /// If it is the run's own. Held until the end of the run.
    _nats: Option<Nats>,
    database: Database,
    _disk: Disk,
}

/// Which way a proxy is in.
#[derive(Debug, Clone, Copy)]
pub(super) enum Who {
    /// Of the worker in this place.
    Database(usize),
    Broker,
    Producer,
}

/// What the supervisor hears of.
pub(super) enum News {
    Line(Line),
    Seen(Who, Seen),
    Harm(String, u64),
    Mishap(&'static str),
    Unexpected(String),
}

impl Stage {
    pub(super) async fn set(options: &Options) -> anyhow::Result<Self> {
        let disk = Disk::new(options.disk, !options.without_full_disk)?;
        let server =
            tokio::task::block_in_place(|| Server::start(options.database, &disk.directory()));
        let store = Store::new(&server.url(), 3)?;
        if options.database == Database::Mysql {
            let user = "CREATE USER worker@'%'; GRANT ALL ON test.* TO worker@'%'";
            store.execute(user.to_owned()).await?;
        }
        schema::create(&store).await?;

        let (nats, broker_url) = match options.broker {
            Broker::Rabbitmq => (None, rabbit_url()),
            Broker::Nats => nats()?,
        };
        let queue = format!("idem-soak-{}-{}", std::process::id(), options.seed);
        let (tell, news) = mpsc::unbounded_channel();
        let broker_address = address(&broker_url)?.to_owned();
        let producers = proxy(Wire::Opaque, &broker_address, Who::Producer, &tell).await?;
        let order = producer::Order {
            url: broker_url,
            queue: queue.clone(),
            seed: options.seed,
            messages: options.messages,
        };
        // The queue has to be there before the workers.
        producer::publish(&order, &[], &producer::Shared::default()).await;

        let mut stage = Self {
            producer_url: through(&order.url, &producers)?,
            server: Arc::new(Mutex::new(server)),
            store,
            places: Vec::new(),
            databases: Vec::new(),
            brokers: Vec::new(),
            producers,
            order,
            shared: Arc::default(),
            news,
            tell,
            filler: disk.filler(),
            database: options.database,
            _nats: nats,
            _disk: disk,
        };
        for number in 0..options.consumers {
            stage.add_place(number, options, &broker_address).await?;
        }
        Ok(stage)
    }

    /// A worker and its two proxies. The first has a pool of one connection, and the second and the third have pruners.
    async fn add_place(
        &mut self,
        number: usize,
        options: &Options,
        broker: &str,
    ) -> anyhow::Result<()> {
        let (worker_url, address) = {
            let server = self.lock();
            (server.worker_url("PROXY"), server.address())
        };
        let database = proxy(
            options.database.wire(),
            &address,
            Who::Database(number),
            &self.tell,
        )
        .await?;
        let broker = proxy(Wire::Opaque, broker, Who::Broker, &self.tell).await?;
        let args = worker::Args {
            database_url: worker_url.replace("PROXY", &database.address.to_string()),
            broker_url: through(&self.order.url, &broker)?,
            queue: self.order.queue.clone(),
            seed: options.seed,
            own_seed: options.seed.wrapping_mul(1000).wrapping_add(number as u64),
            pool: if number == 0 { 1 } else { 8 },
            prefetch: 100,
            reverse: number % 2 == 1,
            prune: number == 1 || number == 2,
            calm: false,
        };
        let lines = lines(self.tell.clone());
        self.places.push(Place::new(number, args, lines));
        self.databases.push(database);
        self.brokers.push(broker);
        Ok(())
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, Server> {
        self.server
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn clear_traps(&self) {
        for proxy in &self.databases {
            proxy.clear_traps();
        }
    }

    /// Counts what idle workers must not have. A pruner's own transaction is none of them.
    pub(super) async fn open_transactions(&self) -> sqlx::Result<i64> {
        let sql = match self.database {
            Database::Postgres => {
                "SELECT (SELECT count(*) FROM pg_stat_activity WHERE application_name = 'worker' AND xact_start IS NOT NULL \
                   AND query NOT LIKE '%processed_messages%') + (SELECT count(*) FROM pg_prepared_xacts)"
            }
            Database::Mysql => {
                "SELECT count(*) FROM information_schema.innodb_trx JOIN information_schema.processlist ON id = trx_mysql_thread_id \
                 WHERE user = 'worker' AND trx_started < now() - INTERVAL 1 SECOND"
            }
            // There is one lock, and it can be had.
            Database::Sqlite => return self.store.hold(Duration::ZERO).await.map(|()| 0),
        };
        self.store.number(sql).await
    }

    pub(super) async fn clear(&mut self) {
        for place in &mut self.places {
            place.kill();
        }
        self.store.close().await;
    }
}

/// A channel of lines that ends in the channel of news.
fn lines(tell: mpsc::UnboundedSender<News>) -> mpsc::UnboundedSender<Line> {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(line) = receiver.recv().await {
            if tell.send(News::Line(line)).is_err() {
                break;
            }
        }
    });
    sender
}

async fn proxy(
    wire: Wire,
    server: &str,
    who: Who,
    tell: &mpsc::UnboundedSender<News>,
) -> anyhow::Result<Proxy> {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let tell = tell.clone();
    tokio::spawn(async move {
        while let Some(seen) = receiver.recv().await {
            if tell.send(News::Seen(who, seen)).is_err() {
                break;
            }
        }
    });
    Proxy::start(wire, server.to_owned(), sender).await
}

fn rabbit_url() -> String {
    std::env::var("IDEM_TEST_AMQP")
        .unwrap_or_else(|_| "amqp://guest:guest@127.0.0.1:5672/%2f".to_owned())
}

/// The host and port of a URL.
fn address(url: &str) -> anyhow::Result<&str> {
    let (_, rest) = url.split_once("://").context("not a URL")?;
    let rest = rest.split_once('@').map_or(rest, |(_, rest)| rest);
    Ok(rest.split(['/', '?']).next().unwrap_or(rest))
}

/// The same URL, through a proxy. RabbitMQ is to notice soon that a worker is stopped.
fn through(url: &str, proxy: &Proxy) -> anyhow::Result<String> {
    let url = url.replacen(address(url)?, &proxy.address.to_string(), 1);
    if url.starts_with("nats") {
        return Ok(url);
    }
    let separator = if url.contains('?') { '&' } else { '?' };
    Ok(format!("{url}{separator}heartbeat=5"))
}

fn nats() -> anyhow::Result<(Option<Nats>, String)> {
    if let Ok(url) = std::env::var("IDEM_TEST_NATS") {
        return Ok((None, url));
    }
    let nats = Nats::start()?;
    let url = nats.url();
    Ok((Some(nats), url))
}
