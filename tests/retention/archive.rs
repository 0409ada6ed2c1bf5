//! Claims on their way into an archive.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use idem::{Archive, Delivery, PruneError, Pruner};

use super::db::{self, Conn};
use super::pruner::{WEEK, keys, many, table};

const DAY: f64 = 24.0 * 60.0 * 60.0;

const ARCHIVED: &str = "SELECT CAST(message_id AS CHAR(100)) FROM processed_messages_archive";

fn lines(path: &Path) -> Vec<serde_json::Value> {
    let mut text = String::new();
    let file = std::fs::File::open(path).unwrap();
    if path.extension().is_some_and(|extension| extension == "gz") {
        flate2::read::MultiGzDecoder::new(file)
            .read_to_string(&mut text)
            .unwrap();
    } else {
        std::io::BufReader::new(file)
            .read_to_string(&mut text)
            .unwrap();
    }
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn p12_an_archive_keeps_what_a_claim_holds() {
    let (_fixture, pool) = table(2).await;
    let folder = tempfile::tempdir().unwrap();
    for archive in ["table", "file.jsonl", "file.jsonl.gz"] {
        let outcome = Delivery::of("billing", archive)
            .fingerprint("content")
            .replay(&pool, async |_: &mut Conn| {
                Ok::<_, idem::Error>("value".to_owned())
            })
            .await;
        assert!(outcome.unwrap().is_processed());
    }
    tokio::time::sleep(Duration::from_millis(2200)).await;
    let pruner = Pruner::new(&pool).window("billing", Duration::from_millis(1));
    // One at a time, by what is left.
    let path = folder.path().join("file.jsonl");
    let pruned = pruner
        .clone()
        .archive(Archive::json_lines(&path))
        .run_once()
        .await
        .unwrap();
    assert_eq!((pruned.claims, pruned.archived), (3, 3));
    let mut lines = lines(&path);
    lines.sort_by_key(|line| line["message_id"].to_string());
    let line = &lines[0];
    assert_eq!(line["consumer"], "billing");
    assert_eq!(line["message_id"], "file.jsonl");
    assert_eq!(line["result"], "\"value\"");
    assert_eq!(line["fingerprint"].as_str().unwrap().len(), 64);
    let time = line["processed_at"].as_str().unwrap();
    assert!(
        time.starts_with("20") && time.as_bytes()[10] == b'T' && time.ends_with('Z'),
        "{time}"
    );
    assert_eq!(lines.len(), 3);
}

#[tokio::test]
async fn p12_into_a_table() {
    let (_fixture, pool) = table(2).await;
    many(&pool, "billing", "old ", 30.0 * DAY, 700).await;
    many(&pool, "billing", "|old ", 30.0 * DAY, 300).await;
    many(&pool, "billing", "young ", DAY, 20).await;
    let pruner = Pruner::new(&pool)
        .window("billing", WEEK)
        .business_window("billing", WEEK)
        .chunk(150)
        .pause(Duration::ZERO)
        .archive(Archive::table());
    let pruned = pruner.run_once().await.unwrap();
    assert_eq!(
        (pruned.claims, pruned.business_keys, pruned.archived),
        (1000, 300, 1000)
    );
    let mut archived: Vec<String> = sqlx::query_scalar(ARCHIVED).fetch_all(&pool).await.unwrap();
    archived.sort();
    archived.dedup();
    assert_eq!(archived.len(), 1000);
    assert!(archived.iter().all(|key| key.contains("old")));
    assert_eq!(keys(&pool).await.len(), 20);
}

/// Cancelled at each wait: every claim is in the table or in the archive, and in a table's archive once.
#[tokio::test]
async fn p12_cancelled_anywhere_the_archive_is_whole() {
    let (_fixture, pool) = table(1).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("claims.jsonl.gz");
    for (name, archive) in [
        ("table", Archive::table()),
        ("file", Archive::json_lines_gz(&path)),
    ] {
        let pruner = Pruner::new(&pool)
            .window("billing", WEEK)
            .chunk(50)
            .pause(Duration::ZERO)
            .archive(archive);
        let mut made = 0;
        for polls in 1..200 {
            many(
                &pool,
                "billing",
                &format!("{name} {polls}/"),
                30.0 * DAY,
                60,
            )
            .await;
            made += 60;
            let run = idem_tests::cancelled_after(polls, pruner.run_once()).await;
            if let Some(pruned) = run {
                pruned.unwrap();
                break;
            }
        }
        pruner.run_once().await.unwrap();
        assert!(keys(&pool).await.is_empty());
        let archived: Vec<String> = if name == "table" {
            sqlx::query_scalar(ARCHIVED).fetch_all(&pool).await.unwrap()
        } else {
            let id = |line: &serde_json::Value| line["message_id"].as_str().unwrap().to_owned();
            lines(&path).iter().map(id).collect()
        };
        let mut times: HashMap<String, u32> = HashMap::new();
        for key in archived {
            *times.entry(key).or_default() += 1;
        }
        assert_eq!(times.len(), made, "{name}");
        assert!(
            name == "file" || times.values().all(|times| *times == 1),
            "{name}"
        );
    }
}

/// Killed while it writes, again and again: nothing is in neither.
#[tokio::test]
async fn p12_killed_anywhere_the_archive_is_whole() {
    let (fixture, pool) = table(1).await;
    let folder = tempfile::tempdir().unwrap();
    for name in ["claims.jsonl", "claims.jsonl.gz"] {
        let path = folder.path().join(name);
        many(&pool, "billing", "old ", 30.0 * DAY, 4000).await;
        let mut kills = 0;
        for round in 0..1000_u64 {
            if keys(&pool).await.is_empty() {
                break;
            }
            let mut process = tokio::process::Command::new(env!("CARGO_BIN_EXE_prune"))
                .args([fixture.url.as_str(), "billing", "604800"])
                .arg(&path)
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .unwrap();
            // When it has begun to write, and some more.
            let before = std::fs::metadata(&path).map_or(0, |file| file.len());
            let grown = async {
                while std::fs::metadata(&path).map_or(0, |file| file.len()) <= before {
                    if process.try_wait().unwrap().is_some() {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                tokio::time::sleep(Duration::from_millis(round % 23)).await;
            };
            grown.await;
            if process.try_wait().unwrap().is_none() {
                process.kill().await.unwrap();
                kills += 1;
            }
        }
        assert!(kills > 0, "it was killed at work");
        assert!(keys(&pool).await.is_empty());
        let mut archived: Vec<String> = lines(&path)
            .iter()
            .map(|line| line["message_id"].to_string())
            .collect();
        archived.sort();
        archived.dedup();
        assert_eq!(archived.len(), 4000, "{name}");
    }
    let _ = db::CLAIM;
}

#[tokio::test]
async fn p12_an_archive_that_cannot_be_written_keeps_the_claims() {
    let (_fixture, pool) = table(1).await;
    many(&pool, "billing", "old ", 30.0 * DAY, 10).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("no").join("such").join("folder.jsonl");
    let pruner = Pruner::new(&pool)
        .window("billing", WEEK)
        .archive(Archive::json_lines(&path));
    let error = pruner.run_once().await.unwrap_err();
    assert!(matches!(error, PruneError::Archive(_)), "{error:?}");
    assert!(error.is_transient());
    assert_eq!(keys(&pool).await.len(), 10);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    assert_eq!(pruner.run_once().await.unwrap().archived, 10);
    assert_eq!(lines(&path).len(), 10);
}
