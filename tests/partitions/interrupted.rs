//! P5, P12: what a drop that was interrupted leaves behind is refused meanwhile, finished by the next one, and archived.

use std::path::{Path, PathBuf};

use idem::{Archive, Pruned, Pruner, Windows};

use super::alone::Alone;
use super::*;
use crate::contract::by_hand::WAYS;

#[derive(Debug, Clone, Copy, PartialEq)]
enum To {
    Nowhere,
    Table,
    File,
}

impl To {
    fn pruner(self, pool: &Pool<Db>, retain: u32, file: &Path) -> Pruner<Db> {
        let windows = Windows::new().default_window(retain * A_DAY);
        let pruner = Pruner::new(pool).windows(windows).days_ahead(1);
        match self {
            To::Nowhere => pruner,
            To::Table => pruner.archive(Archive::table()),
            To::File => pruner.archive(Archive::json_lines(file)),
        }
    }
}

/// Runs it until nobody else is at work: the server notices late that a client has gone, and what is left of it may be waited for in vain.
async fn finish(pruner: &Pruner<Db>) -> Pruned {
    for _ in 0..1000 {
        match pruner.run_once().await {
            Ok(done) if !done.is_busy => return done,
            Ok(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(error) => assert!(error.is_transient(), "{error:?}"),
        }
    }
    panic!("the interrupted one goes on for ever");
}

struct Interrupted {
    clocked: Clocked,
    to: To,
    directory: tempfile::TempDir,
}

impl Interrupted {
    /// With a message processed in each day, of which the first is past the window.
    async fn new(to: To, alone: &Alone) -> Self {
        let clocked = alone.clocked("2026-11-30", 2).await.with(3, 1).await;
        for days in [-3, -2] {
            for number in 0..3 {
                let event = clocked.event(format!("{days} {number}"), days);
                let delivery = event
                    .delivery()
                    .replay(clocked.pool(), async |tx: &mut Conn| {
                        effect(tx, &event.id).await?;
                        Ok::<_, Fail>(7)
                    });
                assert!(delivery.await.unwrap().is_processed());
            }
        }
        Self {
            clocked,
            to,
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("claims.jsonl")
    }

    fn pruner(&self, pool: &Pool<Db>) -> Pruner<Db> {
        self.to.pruner(pool, 2, &self.file())
    }

    /// Never a second effect, whatever has become of the claim.
    async fn assert_nothing_runs_again(&self, what: &str) {
        for way in WAYS {
            let event = self.clocked.event("-3 1", -3);
            let again = event.deliver(way, self.clocked.pool(), Body::Panics).await;
            assert!(
                matches!(
                    again,
                    Ok(Outcome::Duplicate) | Err(Fail::Delivery(Error::Expired { .. }))
                ),
                "{what}: {again:?}"
            );
            // Nor a first one, whose claim would be dropped with the day.
            let event = self.clocked.event("new", -1);
            let other = event
                .deliver(way, self.clocked.pool(), Body::Succeeds)
                .await;
            assert!(other.is_ok(), "{what}: {other:?}");
        }
        assert_eq!(self.clocked.test.effects_of("-3 1").await, 1, "{what}");
        assert_eq!(self.clocked.test.effects_of("new").await, 1, "{what}");
    }

    /// The next drop goes on from there.
    async fn assert_finished(&self, what: &str) {
        finish(&self.pruner(self.clocked.pool())).await;
        assert_eq!(self.clocked.names().await[0], "2026-11-28", "{what}");
        let event = self.clocked.event("-3 1", -3);
        let again = event
            .deliver(Way::Once, self.clocked.pool(), Body::Panics)
            .await;
        assert_expired(again, "2026-11-27", "2026-11-28");
        let kept = self.clocked.event("-2 1", -2);
        let again = kept
            .deliver(Way::Once, self.clocked.pool(), Body::Panics)
            .await;
        assert_eq!(again.unwrap(), Outcome::Duplicate, "{what}");
        self.assert_archived(what).await;
        self.clocked.test.assert_pool_is_clean(what).await;
    }

    /// Into a table each claim once, and into a file at least once.
    async fn assert_archived(&self, what: &str) {
        match self.to {
            To::Nowhere => {}
            To::Table => {
                for ids in ["DISTINCT message_id", "message_id"] {
                    let archived = format!(
                        "SELECT count({ids}) FROM processed_messages_archive WHERE day = '2026-11-27' AND result = '7'"
                    );
                    assert_eq!(self.clocked.test.number(archived).await, 3, "{what}");
                }
            }
            To::File => {
                let text = std::fs::read_to_string(self.file()).unwrap();
                for number in 0..3 {
                    let id = format!("\"message_id\":\"-3 {number}\"");
                    let line = text.lines().find(|line| line.contains(&id));
                    let line = line.unwrap_or_else(|| panic!("{what}: {text}"));
                    let line: serde_json::Value = serde_json::from_str(line).unwrap();
                    assert_eq!(
                        (&line["day"], &line["result"]),
                        (&"2026-11-27".into(), &"7".into())
                    );
                }
                assert!(!text.contains("\"-2 "), "{what}: {text}");
            }
        }
    }
}

async fn slowly(clocked: &Clocked) -> (idem_tests::Proxy, Pool<Db>) {
    let url = &clocked.test.fixture.url;
    let proxy = idem_tests::Proxy::start(db::WIRE.unwrap(), url, Duration::from_millis(1)).await;
    let pool = clocked
        .test
        .fixture
        .options(1)
        .connect(&proxy.url(url))
        .await
        .unwrap();
    (proxy, pool)
}

#[tokio::test]
async fn p5_a_drop_that_is_cancelled_anywhere_is_finished_by_the_next() {
    let alone = Alone::new().await;
    // Both do all that one without an archive does.
    for to in [To::Table, To::File] {
        let mut polls = 0;
        loop {
            let what = format!("{to:?} {polls}");
            let test = Interrupted::new(to, &alone).await;
            let (_proxy, slow) = slowly(&test.clocked).await;
            let pruner = test.pruner(&slow);
            let done = idem_tests::cancelled_after(polls, pruner.run_once()).await;
            test.assert_nothing_runs_again(&what).await;
            if let Some(done) = done {
                assert_eq!(done.unwrap().days_dropped, 1, "{what}");
                test.assert_archived(&what).await;
                break;
            }
            test.assert_finished(&what).await;
            let of_slow = Days::new(&slow).list().await.unwrap();
            assert_eq!(
                of_slow[0].day.to_string(),
                "2026-11-28",
                "its pool is usable"
            );
            polls += 1;
        }
        assert!(polls > 10, "cancelled at {polls} places only");
    }
}

#[tokio::test]
async fn p12_a_drop_whose_connection_is_lost_is_finished_by_the_next() {
    let alone = Alone::new().await;
    for to in [To::Nowhere, To::Table, To::File] {
        for statement in [
            "DETACH PARTITION",
            "DELETE FROM processed_messages_2026",
            "COMMIT",
            "DROP TABLE",
        ] {
            let what = format!("{to:?} {statement}");
            let test = Interrupted::new(to, &alone).await;
            let (proxy, slow) = slowly(&test.clocked).await;
            proxy.cut_answer_to(statement);
            let result = test.pruner(&slow).run_once().await;
            if !proxy.has_cut() {
                // Without an archive nothing is deleted, and with a table nothing is committed by itself.
                assert!(result.is_ok(), "{what}: {result:?}");
                continue;
            }
            let error = result.unwrap_err();
            assert!(error.is_transient(), "{what}: {error:?}");
            test.assert_nothing_runs_again(&what).await;
            test.assert_finished(&what).await;
        }
    }
}

/// The server's own process is killed while it waits for the transactions that may still use the day: it is neither in nor out then.
#[tokio::test]
async fn p12_a_day_that_was_detached_half_way_is_finished_by_the_next() {
    let alone = Alone::new().await;
    for to in [To::Nowhere, To::Table, To::File] {
        let test = Interrupted::new(to, &alone).await;
        let clocked = &test.clocked;
        let open = clocked.event("open", -3);
        let Claimed::Fresh(mut claim) = open.delivery().claim(clocked.pool()).await.unwrap() else {
            panic!("it is new");
        };
        effect(&mut claim, "open").await.unwrap();
        let pruner = test.pruner(&clocked.test.fixture.pool(1).await);
        let pruning = tokio::spawn(async move { pruner.run_once().await });
        clocked.until_waiting("DETACH PARTITION").await;
        let kill = format!(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = '{}' \
             AND query LIKE '%DETACH PARTITION%' AND pid <> pg_backend_pid()",
            clocked.test.fixture.name()
        );
        assert_eq!(clocked.test.number(kill).await, 1);
        let error = pruning.await.unwrap().unwrap_err();
        assert!(error.is_transient(), "{error:?}");
        let pending = "SELECT count(*) FROM pg_inherits WHERE inhdetachpending AND inhparent = 'processed_messages_by_day'::regclass";
        assert_eq!(clocked.test.number(pending).await, 1);
        for way in WAYS {
            for id in ["-3 1", "open", "another"] {
                let event = clocked.event(id, -3);
                let delivery = event.deliver(way, clocked.pool(), Body::Panics);
                let refused = tokio::time::timeout(Duration::from_secs(5), delivery).await;
                assert_expired(refused.expect("no wait"), "2026-11-27", "2026-11-28");
            }
        }
        // Who was in is not put out.
        claim.commit().await.unwrap();
        assert_eq!(clocked.test.effects_of("open").await, 1);
        // Days are made meanwhile.
        clocked.days(2).ahead(4).create().await.unwrap();
        let done = finish(&test.pruner(clocked.pool())).await;
        assert_eq!(done.days_dropped, 1);
        assert_eq!(clocked.names().await[0], "2026-11-28");
        test.assert_archived("half way").await;
        if to != To::Nowhere {
            assert_eq!(done.archived, 4);
        }
    }
}

/// Between the two, a day is an ordinary table, with a mark. One that somebody else has detached is theirs.
#[tokio::test]
async fn p12_a_day_that_was_detached_is_dropped_by_the_next() {
    let alone = Alone::new().await;
    for (to, is_ours) in [
        (To::Nowhere, true),
        (To::Table, true),
        (To::File, true),
        (To::Nowhere, false),
    ] {
        let test = Interrupted::new(to, &alone).await;
        let clocked = &test.clocked;
        if is_ours {
            clocked
                .run("COMMENT ON TABLE processed_messages_2026_11_27 IS 'idem: past its window, to be dropped'")
                .await;
        }
        clocked
            .run("ALTER TABLE processed_messages_by_day DETACH PARTITION processed_messages_2026_11_27 CONCURRENTLY")
            .await;
        if !is_ours {
            let done = test.pruner(clocked.pool()).run_once().await.unwrap();
            assert_eq!((done.days_dropped, done.days_created), (0, 0));
            assert_eq!(clocked.names().await[0], "2026-11-28");
            let theirs = "SELECT count(*) FROM processed_messages_2026_11_27";
            assert_eq!(clocked.test.number(theirs).await, 3);
            continue;
        }
        let days = clocked.list().await;
        assert!(!days[0].is_attached && days[1].is_attached, "{days:?}");
        assert_eq!(
            clocked.days(30).ahead(1).create().await.unwrap(),
            0,
            "it is not made again"
        );
        for way in WAYS {
            let result = clocked
                .event("-3 1", -3)
                .deliver(way, clocked.pool(), Body::Panics)
                .await;
            assert_expired(result, "2026-11-27", "2026-11-28");
        }
        let done = test.pruner(clocked.pool()).run_once().await.unwrap();
        assert_eq!(done.days_dropped, 1);
        test.assert_finished("detached").await;
    }
}
