//! P7: a key is stored as it is, and two keys are two.

use std::collections::BTreeSet;

use idem::{Backend, Claimed, Deliveries, Error, Key, KeyWriter};
use idem_tests::Fixture;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::parts::{Tree, fault, near, read, tree};
use crate::{cases, runtime, sqlite};

/// A list of parts, as long as it likes.
struct Parts(Vec<String>);

impl Key for Parts {
    fn write(&self, key: &mut KeyWriter) {
        for part in &self.0 {
            key.part(part);
        }
    }
}

/// What was stored, or why nothing was.
async fn stored(pool: &sqlx::SqlitePool, key: &impl Key) -> Result<String, idem::InvalidKey> {
    sqlx::query("DELETE FROM processed_messages")
        .execute(pool)
        .await
        .unwrap();
    match idem::claim(pool, "keys", key).await {
        Ok(Claimed::Fresh(claim)) => claim.commit().await.unwrap(),
        Ok(_) => panic!("the table was empty"),
        Err(Error::InvalidKey(fault)) => return Err(fault),
        Err(error) => panic!("{error}"),
    }
    let again = idem::claim(pool, "keys", key).await.unwrap();
    assert!(matches!(again, Claimed::Duplicate), "it is found again");
    let key = sqlx::query_scalar("SELECT message_id FROM processed_messages");
    Ok(key.fetch_one(pool).await.unwrap())
}

#[test]
fn p7_what_is_stored_can_be_read_back_or_is_a_clear_error() {
    let runtime = runtime();
    let pool = runtime.block_on(sqlite());
    proptest!(cases(400), |(tree in tree())| {
        let parts = tree.parts();
        match runtime.block_on(stored(&pool, &tree)) {
            Ok(key) => {
                prop_assert_eq!(fault(&parts), None);
                prop_assert!(key.len() <= idem::MAX_KEY_BYTES && !key.contains('\0'));
                prop_assert_eq!(read(&key), parts);
            }
            Err(found) => prop_assert_eq!(Some(found), fault(&parts)),
        }
    });
}

#[test]
fn p7_keys_that_look_alike_are_two() {
    let runtime = runtime();
    let pool = runtime.block_on(sqlite());
    proptest!(cases(400), |([one, other] in near())| {
        let first = runtime.block_on(stored(&pool, &Parts(one.clone()))).unwrap();
        let second = runtime.block_on(stored(&pool, &Parts(other.clone()))).unwrap();
        prop_assert_eq!(first == second, one == other);
    });
}

/// A business key lives in the same column, in a space of its own.
#[test]
fn p7_a_business_key_is_never_taken_for_a_key() {
    let runtime = runtime();
    let pool = runtime.block_on(sqlite());
    proptest!(cases(200), |([one, other] in near())| {
        runtime.block_on(async {
            sqlx::query("DELETE FROM processed_messages").execute(&pool).await.unwrap();
            let (own, business) = (Parts(one), Parts(other));
            for (key, action) in [(&own, &business), (&business, &own)] {
                let delivery = idem::Delivery::with_business_key("keys", key, action);
                if let Claimed::Fresh(claim) = delivery.claim(&pool).await.unwrap() {
                    claim.commit().await.unwrap();
                } else {
                    assert_eq!(own.0, business.0, "the second asks for another action");
                }
            }
            let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM processed_messages").fetch_one(&pool).await.unwrap();
            assert_eq!(rows, if own.0 == business.0 { 2 } else { 4 });
        });
    });
}

/// Random valid keys without duplicates, many at once: a server costs round trips.
fn many(runner: &mut TestRunner, count: usize) -> Vec<Tree> {
    let mut seen = BTreeSet::new();
    let mut keys = Vec::new();
    while keys.len() < count {
        let key = tree().new_tree(runner).unwrap().current();
        if fault(&key.parts()).is_none() && seen.insert(key.parts()) {
            keys.push(key);
        }
    }
    keys
}

async fn are_kept<DB: Backend>(pool: &sqlx::Pool<DB>, keys: &[Tree]) {
    for fresh in [keys.len(), 0] {
        let mut batch = Deliveries::of("keys");
        for key in keys {
            batch.push(key);
        }
        let claimed = batch.claim(pool).await.unwrap();
        assert_eq!(claimed.fresh.len(), fresh);
        assert_eq!(claimed.duplicates.len(), keys.len() - fresh);
        if let Some(claim) = claimed.claim {
            claim.commit().await.unwrap();
        }
    }
}

fn are_exact(stored: &[Vec<u8>], keys: &[Tree]) {
    let parts = |bytes| read(std::str::from_utf8(bytes).expect("UTF-8"));
    let stored: BTreeSet<Vec<String>> = stored.iter().map(|bytes| parts(bytes)).collect();
    let expected: BTreeSet<Vec<String>> = keys.iter().map(Tree::parts).collect();
    assert!(
        stored == expected,
        "{:?}",
        stored.symmetric_difference(&expected)
    );
}

macro_rules! servers {
    ($($name:ident $database:ident $all:literal)*) => {$(
        #[test]
        fn $name() {
            let keys = many(&mut TestRunner::default(), 600);
            runtime().block_on(async {
                let fixture = Fixture::<sqlx::$database>::new().await;
                let pool = fixture.pool(1).await;
                idem::migrate(&pool).await.unwrap();
                are_kept(&pool, &keys).await;
                let stored: Vec<Vec<u8>> = sqlx::query_scalar($all).fetch_all(&pool).await.unwrap();
                are_exact(&stored, &keys);
            });
        }
    )*};
}

servers! {
    p7_postgres_keeps_every_byte Postgres "SELECT convert_to(message_id, 'UTF8') FROM processed_messages"
    p7_mysql_keeps_every_byte MySql "SELECT message_id FROM processed_messages"
    p7_sqlite_keeps_every_byte Sqlite "SELECT CAST(message_id AS blob) FROM processed_messages"
}
