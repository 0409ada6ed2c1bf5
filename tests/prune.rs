//! One run of the pruner in a process of its own: for clocks that are wrong, for runs at once, and to be killed.
//!
//! `prune URL CONSUMER SECONDS [ARCHIVE]` prints how many claims it has removed.

use std::time::Duration;

use idem::{Archive, Pruner};
use sqlx::Pool;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, consumer, seconds, archive @ ..] = args.as_slice() else {
        return Err("usage: prune URL CONSUMER SECONDS [ARCHIVE]".into());
    };
    let window = Duration::from_secs_f64(seconds.parse()?);
    let archive = archive.first().map(String::as_str);
    match url.split(':').next() {
        Some("postgres") => {
            prune(
                &sqlx::PgPool::connect(url).await?,
                consumer,
                window,
                archive,
            )
            .await
        }
        Some("mysql") => {
            prune(
                &sqlx::MySqlPool::connect(url).await?,
                consumer,
                window,
                archive,
            )
            .await
        }
        _ => {
            prune(
                &sqlx::SqlitePool::connect(url).await?,
                consumer,
                window,
                archive,
            )
            .await
        }
    }
}

async fn prune<DB: idem::Backend>(
    pool: &Pool<DB>,
    consumer: &str,
    window: Duration,
    archive: Option<&str>,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut pruner = Pruner::new(pool)
        .window(consumer, window)
        .chunk(100)
        .pause(Duration::from_millis(1));
    if let Some(path) = archive {
        let extension = std::path::Path::new(path).extension();
        let is_compressed = extension.is_some_and(|extension| extension == "gz");
        pruner = pruner.archive(if is_compressed {
            Archive::json_lines_gz(path)
        } else {
            Archive::json_lines(path)
        });
    }
    println!("{}", pruner.run_once().await?.claims);
    Ok(())
}
