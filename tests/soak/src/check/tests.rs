use fastrand::Rng;

use super::*;
use crate::harm::Conduct;
use crate::schema;

const SEED: u64 = 3;
const MESSAGES: i64 = 300;

/// A database with the effects of all messages, each delivered twice, in an order of the seed's.
async fn applied() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("soak.db").display());
    let store = Store::new(&url, 1).unwrap();
    schema::create(&store).await.unwrap();
    let mut numbers: Vec<i64> = (0..MESSAGES).chain(0..MESSAGES).collect();
    Rng::with_seed(SEED).shuffle(&mut numbers);
    for number in numbers {
        let message = Message::of(SEED, number);
        let _ = store.deliver(&message, Conduct::Well).await.unwrap();
    }
    (folder, store)
}

async fn verdict(store: &Store) -> Verdict {
    let effects = Effects::read(store).await.unwrap();
    Verdict::of(&Expected::of(SEED, MESSAGES), &effects)
}

/// Each fault, put into the tables by hand, is told by its name.
#[tokio::test]
async fn what_is_lost_doubled_or_wrong_is_seen() {
    let (_folder, store) = applied().await;
    assert_eq!(verdict(&store).await, Verdict::default());
    let booked = (0..MESSAGES)
        .find(|number| Message::of(SEED, *number).kind == Kind::Book)
        .unwrap();
    let lost = |what: &str| Verdict {
        lost: vec![what.to_owned()],
        ..Verdict::default()
    };
    let doubled = |what: &str| Verdict {
        doubled: vec![what.to_owned()],
        ..Verdict::default()
    };
    let wrong = |what: &str| Verdict {
        wrong: vec![what.to_owned()],
        ..Verdict::default()
    };
    let faults = [
        (
            format!("INSERT INTO ledger (message) VALUES ({booked})"),
            format!("DELETE FROM ledger WHERE rowid = (SELECT max(rowid) FROM ledger WHERE message = {booked})"),
            doubled(&format!("message {booked} was applied 2 times")),
        ),
        (
            format!("DELETE FROM ledger WHERE message = {booked}"),
            format!("INSERT INTO ledger (message) VALUES ({booked})"),
            lost(&format!("message {booked} was not applied")),
        ),
        (
            "INSERT INTO ledger (message) VALUES (1000000)".to_owned(),
            "DELETE FROM ledger WHERE message = 1000000".to_owned(),
            wrong("message 1000000, which nobody sent, was applied"),
        ),
        (
            "INSERT INTO rolled_back (message) VALUES (1)".to_owned(),
            "DELETE FROM rolled_back".to_owned(),
            wrong("1 writes of bodies that failed after them were committed"),
        ),
        (
            "INSERT INTO charges (order_number, message) SELECT order_number, message FROM charges WHERE order_number = 2".to_owned(),
            "DELETE FROM charges WHERE rowid = (SELECT max(rowid) FROM charges WHERE order_number = 2)".to_owned(),
            Verdict::default(),
        ),
    ];
    for (fault, repair, expected) in faults {
        store.execute(fault.clone()).await.unwrap();
        let found = verdict(&store).await;
        if expected == Verdict::default() {
            assert!(
                found.doubled[0].starts_with("order 2 was charged by the messages ["),
                "{found:?}"
            );
            assert_eq!(
                (found.doubled.len(), found.lost.len(), found.wrong.len()),
                (1, 0, 0)
            );
        } else {
            assert_eq!(found, expected, "{fault}");
        }
        store.execute(repair).await.unwrap();
        assert_eq!(verdict(&store).await, Verdict::default());
    }
}

#[tokio::test]
async fn a_counter_a_version_and_a_claim_that_are_wrong_are_seen() {
    let (_folder, store) = applied().await;
    let finds = async |fault: &str, find: fn(&Verdict) -> &Vec<String>, start: &str| {
        store.execute(fault.to_owned()).await.unwrap();
        let found = verdict(&store).await;
        assert!(
            find(&found).iter().any(|line| line.contains(start)),
            "{fault}: {found:?}"
        );
    };
    finds(
        "UPDATE accounts SET balance = balance + 1 WHERE id = 4",
        |found| &found.wrong,
        "account 4 has",
    )
    .await;
    finds(
        "DELETE FROM charges WHERE order_number = (SELECT min(order_number) FROM charges)",
        |found| &found.lost,
        "was not charged",
    )
    .await;
    finds(
        "INSERT INTO versions (aggregate, version) SELECT aggregate, version FROM versions WHERE aggregate = 5 ORDER BY place DESC LIMIT 1",
        |found| &found.doubled,
        "of aggregate 5 was applied twice",
    )
    .await;
    finds(
        "DELETE FROM versions WHERE aggregate = 6",
        |found| &found.lost,
        "aggregate 6 stands at version None",
    )
    .await;
    finds(
        "DELETE FROM processed_messages WHERE consumer = 'book'",
        |found| &found.wrong,
        "claims for",
    )
    .await;
    finds(
        "DELETE FROM processed_messages WHERE message_id = 'young-7'",
        |found| &found.wrong,
        "499 are left",
    )
    .await;
}
