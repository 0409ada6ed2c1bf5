use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use idem_tests::own::{MariaDb, Settings, free_port};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::{AssertSqlSafe, MySqlPool};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// Three nodes, which know each other by their ports.
pub(crate) struct Cluster {
    nodes: Vec<MariaDb>,
}

/// How long what has to happen may take.
const PATIENCE: Duration = Duration::from_mins(3);

const PROVIDER: &str = "/usr/lib/galera/libgalera_smm.so";

/// The cluster for one test at a time, which leaves it whole. It ends with the last test that waits for it.
pub(crate) async fn turn() -> OwnedMutexGuard<Cluster> {
    static CLUSTER: Mutex<Weak<Mutex<Cluster>>> = Mutex::const_new(Weak::new());
    let mut shared = CLUSTER.lock().await;
    let cluster = if let Some(cluster) = shared.upgrade() {
        cluster
    } else {
        let cluster = Arc::new(Mutex::new(Cluster::start().await));
        *shared = Arc::downgrade(&cluster);
        cluster
    };
    drop(shared);
    cluster.lock_owned().await
}

impl Cluster {
    async fn start() -> Self {
        assert!(
            std::path::Path::new(PROVIDER).exists(),
            "Galera is missing: run `./test.sh`, or install the packages `galera-4` and `rsync`"
        );
        let ports: Vec<u16> = (0..3).map(|_| free_port()).collect();
        let addresses: Vec<String> = ports.iter().map(|it| format!("127.0.0.1:{it}")).collect();
        let all = format!("gcomm://{}", addresses.join(","));
        let mut cluster = Self {
            nodes: vec![
                MariaDb::prepare(settings(&all, &addresses[0])),
                MariaDb::empty(settings(&all, &addresses[1])),
                MariaDb::empty(settings(&all, &addresses[2])),
            ],
        };
        cluster.nodes[0].run(&["--wsrep-new-cluster"]);
        cluster.nodes[1].run(&[]);
        cluster.nodes[2].run(&[]);
        cluster.whole().await;
        cluster
    }

    /// A new database with the tables, and a pool for it on each node.
    pub(crate) async fn tables(&self, connections: u32) -> Vec<MySqlPool> {
        let pools = self.pools(connections).await;
        idem::migrate(&pools[0]).await.unwrap();
        pools
    }

    /// As [`Cluster::tables`], without the table of claims.
    pub(crate) async fn pools(&self, connections: u32) -> Vec<MySqlPool> {
        self.whole().await;
        let name = format!("test_{}", uuid::Uuid::new_v4().simple());
        let root = pool(&self.nodes[0].url("mysql"), 1).await;
        let create = format!("CREATE DATABASE {name}");
        sqlx::raw_sql(AssertSqlSafe(create))
            .execute(&root)
            .await
            .unwrap();
        let is_there = format!(
            "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = '{name}'"
        );
        let mut pools = Vec::new();
        for node in &self.nodes {
            let root = pool(&node.url("mysql"), 1).await;
            until("the database is there", &root, &is_there).await;
            pools.push(pool(&node.url(&name), connections).await);
        }
        sqlx::raw_sql(crate::TABLES)
            .execute(&pools[0])
            .await
            .unwrap();
        pools
    }

    pub(crate) fn node(&mut self, number: usize) -> &mut MariaDb {
        &mut self.nodes[number]
    }

    /// Waits until all nodes are there and have all.
    pub(crate) async fn whole(&self) {
        for node in &self.nodes {
            let pool = pool(&node.url("mysql"), 1).await;
            until("three nodes are synced", &pool, STATE).await;
        }
    }
}

/// Of a node that has applied what the others have, as far as it knows.
const STATE: &str = "SELECT (SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'wsrep_local_state_comment') = 'Synced' \
    AND (SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'wsrep_cluster_size') = 3";

fn settings(all: &str, own: &str) -> Settings {
    let options = [
        format!("gmcast.listen_addr=tcp://{own}"),
        format!("ist.recv_addr=127.0.0.1:{}", free_port()),
        "gcache.size=32M".to_owned(),
    ];
    Settings::default()
        .set("wsrep-on", "ON")
        .set("wsrep-provider", PROVIDER)
        .set("wsrep-provider-options", options.join(";"))
        .set("wsrep-cluster-address", all)
        .set("wsrep-node-address", "127.0.0.1")
        .set("wsrep-sst-method", "rsync")
        .set(
            "wsrep-sst-receive-address",
            format!("127.0.0.1:{}", free_port()),
        )
        .set("binlog-format", "ROW")
        .set("innodb-autoinc-lock-mode", 2)
        .set("innodb-buffer-pool-size", "64M")
        .set("innodb-log-file-size", "16M")
}

pub(crate) async fn pool(url: &str, connections: u32) -> MySqlPool {
    let options = MySqlPoolOptions::new().max_connections(connections);
    options.connect(url).await.unwrap()
}

/// Polls a question until the answer is yes.
pub(crate) async fn until(what: &str, pool: &MySqlPool, question: &str) {
    let deadline = Instant::now() + PATIENCE;
    while !sqlx::query_scalar::<_, bool>(AssertSqlSafe(question.to_owned()))
        .fetch_one(pool)
        .await
        .is_ok_and(|is_so| is_so)
    {
        assert!(Instant::now() < deadline, "waited for: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What a question with a column of numbers gets on each node, once each has applied what the others have committed.
pub(crate) async fn same_everywhere(pools: &[MySqlPool], question: &'static str) -> Vec<i64> {
    let mut answers = Vec::new();
    for pool in pools {
        answers.push(settled(pool, question).await);
    }
    assert!(
        answers.windows(2).all(|two| two[0] == two[1]),
        "{question}: {answers:?}"
    );
    answers.pop().unwrap()
}

/// Asks until the node has caught up; on a busy machine it may lose sight of the others for a while.
async fn settled(pool: &MySqlPool, question: &'static str) -> Vec<i64> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = async {
            let mut conn = pool.acquire().await?.detach();
            sqlx::raw_sql("SET SESSION wsrep_sync_wait = 1")
                .execute(&mut conn)
                .await?;
            sqlx::query_scalar(question).fetch_all(&mut conn).await
        };
        match answer.await {
            Ok(rows) => return rows,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
