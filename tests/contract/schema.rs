//! The table of claims.

use super::*;

#[tokio::test]
async fn migrate_runs_in_many_processes_at_once() {
    for _ in 0..5 {
        let fixture: Fixture<Db> = Fixture::new().await;
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..8 {
            // A pool each, as processes have.
            let pool = fixture.pool(1).await;
            tasks.spawn(async move {
                db::migrate(&pool).await?;
                db::migrate(&pool).await?;
                let first = db::claim(&pool, "billing", "evt-1").await?;
                if let Claimed::Fresh(claim) = first {
                    claim.commit().await?;
                    return Ok::<_, idem::Error>(1);
                }
                Ok(0)
            });
        }
        let mut fresh = 0;
        while let Some(result) = tasks.join_next().await {
            fresh += result.unwrap().expect("no migration fails");
        }
        assert_eq!(fresh, 1);
    }
}

#[tokio::test]
async fn a_missing_table_says_to_migrate() {
    let fixture: Fixture<Db> = Fixture::new().await;
    let pool = fixture.pool(1).await;
    for form in FORMS {
        let error = deliver(form, &pool, "evt-1", Body::Panics)
            .await
            .unwrap_err();
        assert!(
            matches!(error, Fail::Delivery(idem::Error::Schema(_))),
            "{error:?}"
        );
        assert!(
            error.to_string().contains("idem::migrate(&pool)"),
            "{error}"
        );
        assert!(error.is_transient(), "no message is at fault");
    }
    db::migrate(&pool).await.unwrap();
    sqlx::raw_sql(db::EFFECTS).execute(&pool).await.unwrap();
    for form in FORMS {
        let message = format!("{form:?}");
        let outcome = deliver(form, &pool, &message, Body::Succeeds)
            .await
            .unwrap();
        assert!(outcome.is_processed());
    }
}

#[tokio::test]
async fn migrate_keeps_the_claims() {
    let test = Test::new(1).await;
    let _ = on_connection(&test.pool, "evt-1", Body::Succeeds)
        .await
        .unwrap();
    db::migrate(&test.pool).await.unwrap();
    let outcome = on_connection(&test.pool, "evt-1", Body::Panics)
        .await
        .unwrap();
    assert_eq!(outcome, Outcome::Duplicate);
}
