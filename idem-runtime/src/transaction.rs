//! The one algorithm: a delivery's transaction is begun, its first statement is the claim, and it ends sealed and committed, or rolled
//! back. It works on a borrowed connection, whoever holds that.

use sqlx::Transaction;

use crate::backend::{self, Backend, Closes};
use crate::claims::{self, Claims, Verdict};
use crate::error::Error;
use crate::retry::Backoff;
use crate::rows::{Call, Value};
use crate::source::{Guard, Lease};
use crate::terms::Places;
#[cfg(feature = "testing")]
use crate::testing::{self, Point};
use crate::transient::is_conflict;

/// How often a claim that lost against another transaction is tried again.
const CLAIMS_AGAIN: u32 = 5;

/// An open transaction, or a savepoint in one: what its end has to know.
#[derive(Clone, Copy)]
pub(crate) struct Open {
    /// sqlx's depth outside.
    outer: usize,
    /// sqlx's depth inside, when every transaction that the handler nests has ended.
    depth: usize,
    returns_to_pool: bool,
}

impl Open {
    pub(crate) fn is_outermost(self) -> bool {
        self.outer == 0
    }
}

/// Begins on the lease itself, whose guard then rolls back when it is dropped.
pub(crate) async fn begin<DB: Backend>(
    lease: &mut Lease<'_, DB>,
    claims: Claims<'_>,
) -> Result<Open, Error> {
    let open = prepare(lease, claims).await?;
    let (conn, guard) = lease.split();
    let begun = if open.outer == 0 {
        backend::begin::<DB>(conn, Some(DB::begin_with(claims.isolation()))).await
    } else {
        DB::savepoint(conn).await
    };
    if let Err(error) = begun {
        guard.close |= lift_limit::<DB>(conn, guard).await.is_err();
        return Err(Error::at_begin(error));
    }
    guard.close = DB::CLOSES == Closes::UntilItEnds;
    guard.levels = 1;
    Ok(open)
}

/// Begins as [`begin`] does, for handlers that want sqlx's own type: a `Transaction` borrows its connection, so that the guard stays
/// behind in the lease.
pub(crate) async fn begin_transaction<'l, DB: Backend>(
    lease: &'l mut Lease<'_, DB>,
    claims: Claims<'_>,
) -> Result<(Transaction<'l, DB>, &'l mut Guard, Open), Error> {
    let open = prepare(lease, claims).await?;
    let (conn, guard) = lease.split();
    let begun = if open.outer == 0 {
        let begin = sqlx::SqlSafeStr::into_sql_str(DB::begin_with(claims.isolation()));
        Transaction::begin(conn, Some(begin)).await
    } else {
        DB::nested(conn).await
    };
    // On an error the lease, when it is dropped, takes a limit back.
    let transaction = begun.map_err(Error::at_begin)?;
    guard.close = DB::CLOSES == Closes::UntilItEnds;
    Ok((transaction, guard, open))
}

/// Looks where the connection stands, and bounds its waits.
async fn prepare<DB: Backend>(
    lease: &mut Lease<'_, DB>,
    claims: Claims<'_>,
) -> Result<Open, Error> {
    let conn = lease.connection();
    if backend::depth::<DB>(conn) > 0 {
        DB::settle(conn).await.map_err(Error::at_begin)?;
    }
    let outer = backend::depth::<DB>(conn);
    if outer > 0 && lease.is_of_pool() {
        // Somebody has forgotten a transaction on it. A savepoint in that would never be committed.
        lease.guard = Guard::CLOSE;
        return Err(Error::outer_transaction());
    }
    let is_dead = outer > 0 && !DB::is_alive(lease.connection()).await;
    if is_dead || lease.joins && outer == 0 {
        return Err(Error::outer_transaction());
    }
    if outer > 0 && DB::HAS_LEVELS && claims.isolation().is_some() {
        return Err(Error::Isolation);
    }
    let returns_to_pool = lease.returns_to_pool();
    let (conn, guard) = lease.split();
    guard.close = outer == 0 && DB::CLOSES != Closes::Never;
    if DB::WAITS_AT_BEGIN {
        guard.limit = DB::limit_wait(conn, claims.in_flight())
            .await
            .map_err(Error::at_begin)?;
    }
    Ok(Open {
        outer,
        depth: outer + 1,
        returns_to_pool,
    })
}

/// The claim, which is the first statement. If it is not fresh, the transaction is over.
pub(crate) async fn claim<DB: Backend>(
    conn: &mut DB::Connection,
    guard: &mut Guard,
    open: Open,
    claims: Claims<'_>,
    persistent: bool,
) -> Result<Verdict, Error> {
    // A claim that is dropped while it waits for another worker's would keep its place in the pool until that wait is over.
    guard.close = DB::CLOSES != Closes::Never;
    let limited = if DB::WAITS_AT_BEGIN {
        Ok(guard.limit)
    } else {
        DB::limit_wait(conn, claims.in_flight()).await
    };
    let verdict = match limited {
        Ok(limit) => {
            guard.limit = limit;
            decide::<DB>(conn, open, claims, persistent).await
        }
        Err(error) => Err(Error::at_claim(error)),
    };
    let lifted = lift_limit::<DB>(conn, guard).await;
    let is_lifted = lifted.is_ok();
    let verdict = match (verdict, lifted) {
        (Ok(_), Err(error)) => Err(Error::at_claim(error)),
        (verdict, _) => verdict,
    };
    guard.close = DB::CLOSES == Closes::UntilItEnds;
    #[cfg(feature = "testing")]
    let verdict = testing::claimed::<DB>(conn, claims, verdict).await;
    match &verdict {
        Ok(verdict) if verdict.is_fresh() => {}
        Err(error) if error.is_disconnected() => {
            // Nothing can be asked of the connection any more. If it is borrowed and still works, it is not left in the transaction.
            while backend::depth::<DB>(conn) > open.outer && DB::CLOSES != Closes::Never {
                backend::start_rollback::<DB>(conn);
            }
            *guard = Guard::CLOSE;
        }
        Ok(verdict) if verdict.is_kept() => commit::<DB>(conn, guard, open).await?,
        Ok(_) | Err(_) => roll_back::<DB>(conn, guard, open).await,
    }
    guard.close |= !is_lifted;
    verdict
}

/// Asks again after a conflict, in a new transaction: no body has run, so that nothing is repeated. When a transaction rolls back that
/// others wait for, MySQL lets all but one of them deadlock, and under REPEATABLE READ the loser of a race on PostgreSQL fails.
async fn decide<DB: Backend>(
    conn: &mut DB::Connection,
    open: Open,
    claims: Claims<'_>,
    persistent: bool,
) -> Result<Verdict, Error> {
    let mut backoff = Backoff::new(CLAIMS_AGAIN);
    loop {
        let verdict = claims::decide::<DB>(conn, claims, persistent).await;
        match verdict {
            Err(error) if open.is_outermost() && backoff.is_left() && is_conflict(&error) => {
                drop(error);
                run::<DB>(conn, "ROLLBACK").await?;
                backoff.wait().await;
                run::<DB>(conn, DB::begin_with(claims.isolation())).await?;
            }
            verdict => return verdict,
        }
    }
}

/// Behind sqlx's back, which goes on counting the one transaction.
async fn run<DB: Backend>(conn: &mut DB::Connection, sql: &'static str) -> Result<(), Error> {
    DB::run(conn, sql).await.map_err(Error::at_begin)
}

/// The session waits as it did before. Until that is sure, the guard knows of it.
async fn lift_limit<DB: Backend>(
    conn: &mut DB::Connection,
    guard: &mut Guard,
) -> Result<(), sqlx::Error> {
    if let Some(limit) = guard.limit {
        DB::lift_limit(conn, limit).await?;
        guard.limit = None;
    }
    Ok(())
}

/// Stores the value of the delivery that holds these claims. On an error the delivery is to be rolled back.
pub(crate) async fn store<DB: Backend>(
    conn: &mut DB::Connection,
    open: Open,
    call: Call<'_>,
    places: &Places<'_>,
    json: &str,
) -> Result<(), Error> {
    let value = Value {
        json,
        is_sealed: open.is_outermost(),
    };
    if value.is_sealed {
        DB::prove(conn).await.map_err(Error::at_commit)?;
    }
    let mut rows = 0;
    if !places.plain.is_empty() {
        let stored = DB::store(conn, call, &places.plain, value).await;
        rows += stored.map_err(Error::at_store)?;
    }
    if let Some(claim) = places.by_day {
        let stored = DB::store_by_day(conn, call, claim, value).await;
        rows += stored.map_err(Error::at_store)?;
    }
    // The claims are this transaction's own, as long as it is there.
    if usize::try_from(rows) != Ok(places.count()) {
        return Err(Error::transaction_lost());
    }
    Ok(())
}

/// The seal, and COMMIT or RELEASE SAVEPOINT.
pub(crate) async fn commit<DB: Backend>(
    conn: &mut DB::Connection,
    guard: &mut Guard,
    open: Open,
) -> Result<(), Error> {
    #[cfg(feature = "testing")]
    testing::ends();
    let result = seal_and_commit::<DB>(conn, open).await;
    match &result {
        Ok(()) => *guard = Guard::default(),
        // The connection is gone: a ROLLBACK on it can only fail, or wait.
        Err(Error::CommitUnknown(_)) => *guard = Guard::CLOSE,
        Err(_) => roll_back::<DB>(conn, guard, open).await,
    }
    #[cfg(feature = "testing")]
    if result.is_ok() {
        return testing::reach::<DB>(conn, Point::Committed).await;
    }
    result
}

async fn seal_and_commit<DB: Backend>(conn: &mut DB::Connection, open: Open) -> Result<(), Error> {
    #[cfg(feature = "testing")]
    {
        let is_outermost = open.is_outermost();
        testing::reach::<DB>(conn, Point::BeforeCommit { is_outermost }).await?;
    }
    DB::settle(conn).await.map_err(Error::at_commit)?;
    // A nested begin() that was cancelled has rolled everything back; one that was forgotten would be committed in place of ours.
    if backend::depth::<DB>(conn) != open.depth {
        return Err(Error::transaction_lost());
    }
    let committed = if open.outer == 0 {
        DB::seal_and_commit(conn, open.returns_to_pool).await
    } else {
        // RELEASE SAVEPOINT fails in a dead transaction, and needs no seal.
        DB::release(conn).await
    };
    committed.map_err(Error::at_commit)
}

/// Rolls back and waits for it, since a rollback that is left to the drop needs an async runtime to go out. A connection on which it
/// fails is closed.
pub(crate) async fn roll_back<DB: Backend>(
    conn: &mut DB::Connection,
    guard: &mut Guard,
    open: Open,
) {
    #[cfg(feature = "testing")]
    testing::ends();
    roll_back_to::<DB>(conn, guard, open.outer).await;
}

/// As [`roll_back`], down to this depth, also where the database has rolled back by itself and sqlx does not know.
pub(crate) async fn roll_back_to<DB: Backend>(
    conn: &mut DB::Connection,
    guard: &mut Guard,
    outer: usize,
) {
    while backend::depth::<DB>(conn) > outer {
        if backend::rollback::<DB>(conn).await.is_err() {
            let is_mended =
                !DB::is_alive(conn).await && DB::forget_levels(conn, outer).await.is_ok();
            if !is_mended {
                *guard = Guard::CLOSE;
                return;
            }
        }
    }
    *guard = Guard::default();
}

/// Ends what is open on a lease above this depth after an error. Where dropping it does not close the connection, which would lose a
/// database in memory, everything is rolled back first.
pub(crate) async fn give_up<DB: Backend>(lease: &mut Lease<'_, DB>, outer: usize) {
    let (conn, guard) = lease.split();
    if DB::CLOSES == Closes::Never && DB::settle(conn).await.is_ok() {
        roll_back_to::<DB>(conn, guard, outer).await;
    }
}
