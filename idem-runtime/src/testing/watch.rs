//! What the kit sees of a delivery, and the points at which it does harm. The runtime calls these from `transaction.rs`; outside of a
//! proof they find nothing to do.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use super::bench::{BoxError, BoxFuture};
use crate::backend::Backend;
use crate::claims::{Claims, Verdict};
use crate::error::{Error, Step};
use crate::key::EncodedKey;

thread_local! {
    /// The run whose future is being polled on this thread.
    static CURRENT: RefCell<Option<Arc<Watch>>> = const { RefCell::new(None) };
}

/// A point that every delivery passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    /// The claim is made, and the body has not begun.
    Claimed,
    /// The body has returned `Ok`. A delivery that joins a transaction is not the outermost.
    BeforeCommit { is_outermost: bool },
    /// The server has confirmed the commit, and nobody knows of it yet.
    Committed,
}

/// What is done at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Harm {
    /// The library gets an error of the connection in place of the answer.
    Fail,
    Panic,
    /// The server ends the connection.
    Kill,
    /// The database refuses the write of the body with this number, from 1 on.
    RefuseWrite(u32),
}

/// One run of the user's delivery, which may make several claims, or none.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default, Clone)]
pub(crate) struct Seen {
    pub(crate) points: Vec<Point>,
    /// Consumers and keys, as they are stored.
    pub(crate) claims: BTreeSet<(String, String)>,
    /// Fresh claims that were neither committed nor rolled back.
    pub(crate) open: usize,
    /// What is to be done, at which of the points.
    harm: Option<(usize, Harm)>,
    pub(crate) is_harmed: bool,
    /// Since a write is refused: how many claims were open then, with that of the delivery itself.
    refusing: Option<usize>,
    /// Why the database could not be brought to refuse a write.
    pub(crate) cannot_refuse: Option<String>,
    /// What the body writes to, as the database's statements name it.
    pub(crate) tables: BTreeSet<String>,
    /// Set if the body came to its end although a write was refused: how many writes it had made.
    pub(crate) writes: Option<u32>,
}

impl Watch {
    /// With what is to be done, and the tables to which writes can be refused.
    pub(crate) fn new(harm: Option<(usize, Harm)>, tables: BTreeSet<String>) -> Arc<Self> {
        let seen = Seen {
            harm,
            tables,
            ..Seen::default()
        };
        Arc::new(Self {
            seen: Mutex::new(seen),
        })
    }

    pub(crate) fn seen(&self) -> Seen {
        self.lock().clone()
    }

    /// Whether it is of interest what the body writes to.
    fn learns(&self) -> bool {
        let seen = self.lock();
        seen.harm.is_none() && !seen.is_harmed
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be done at this point, once.
    fn pass(&self, point: Point) -> Option<Harm> {
        let mut seen = self.lock();
        let number = seen.points.len();
        seen.points.push(point);
        let (_, harm) = seen.harm.take_if(|(at, _)| *at == number)?;
        seen.is_harmed = true;
        Some(harm)
    }
}

fn current() -> Option<Arc<Watch>> {
    CURRENT.with_borrow(Clone::clone)
}

/// The claim has come to its verdict.
pub(crate) async fn claimed<DB: Backend>(
    conn: &mut DB::Connection,
    claims: Claims<'_>,
    verdict: Result<Verdict, Error>,
) -> Result<Verdict, Error> {
    let Some(watch) = current() else {
        return verdict;
    };
    let is_fresh = verdict.as_ref().is_ok_and(Verdict::is_fresh);
    {
        let mut seen = watch.lock();
        let consumer = claims.consumer();
        let keys = stored_keys(claims).into_iter();
        seen.claims
            .extend(keys.map(|key| (consumer.to_owned(), key.to_owned())));
        seen.open += usize::from(is_fresh);
    }
    if is_fresh {
        reach::<DB>(conn, Point::Claimed).await?;
    }
    verdict
}

/// All keys of the message or the batch.
fn stored_keys(claims: Claims<'_>) -> Vec<&str> {
    match claims {
        Claims::Message { terms, .. } => [&terms.key, &terms.business_key]
            .into_iter()
            .flatten()
            .map(EncodedKey::as_str)
            .collect(),
        Claims::Batch(terms) => terms
            .messages
            .iter()
            .map(|message| message.key.as_str())
            .collect(),
    }
}

/// A fresh claim is being committed or rolled back.
pub(crate) fn ends() {
    if let Some(watch) = current() {
        let mut seen = watch.lock();
        seen.open = seen.open.saturating_sub(1);
    }
}

/// Passes a point of the delivery.
pub(crate) async fn reach<DB: Backend>(
    conn: &mut DB::Connection,
    point: Point,
) -> Result<(), Error> {
    let Some(watch) = current() else {
        return Ok(());
    };
    match watch.pass(point) {
        None => {}
        Some(Harm::Fail) if point == Point::Committed => {
            return Err(Error::CommitUnknown(injected()));
        }
        Some(Harm::Fail) => return Err(Error::database(Step::Commit)(injected())),
        Some(Harm::Panic) => resume_unwind(Box::new(PANIC)),
        Some(Harm::Kill) => DB::kill(conn).await,
        Some(Harm::RefuseWrite(number)) => {
            let tables = watch.seen().tables;
            if let Err(error) = DB::refuse_write(conn, number, &tables).await {
                watch.lock().cannot_refuse = Some(error.to_string());
                return Err(Error::database(Step::Begin)(error));
            }
            let mut seen = watch.lock();
            seen.refusing = Some(seen.open);
        }
    }
    let Point::BeforeCommit { is_outermost } = point else {
        return Ok(());
    };
    if watch.learns() {
        let tables = DB::written(conn).await;
        let tables = tables.map_err(Error::database(Step::Commit))?;
        watch.lock().tables.extend(tables);
    }
    // A handler that this one has called with its transaction ends before it.
    let is_over = |seen: &Seen| {
        seen.refusing
            .is_some_and(|open| is_outermost || seen.open < open)
    };
    if is_over(&watch.seen()) {
        let writes = DB::allow_writes(conn).await;
        let writes = writes.map_err(Error::database(Step::Commit))?;
        let mut seen = watch.lock();
        seen.refusing = None;
        seen.writes = Some(writes);
    }
    Ok(())
}

const PANIC: &str = "idem::testing has panicked here";

fn injected() -> sqlx::Error {
    let text = "idem::testing has cut the connection here";
    sqlx::Error::Io(std::io::Error::new(ErrorKind::ConnectionReset, text))
}

/// How a run has ended.
pub(crate) enum Ended {
    Returned(Result<(), BoxError>),
    Cancelled,
    Panicked(String),
}

/// A future whose points are watched, which is dropped by its owner once it has waited `cancel_at` times, and whose panics are caught.
pub(crate) struct Watched<'p> {
    pub(crate) watch: Arc<Watch>,
    pub(crate) cancel_at: Option<usize>,
    pub(crate) waits: usize,
    pub(crate) future: BoxFuture<'p, Result<(), BoxError>>,
}

impl Future for Watched<'_> {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outer = CURRENT.replace(Some(Arc::clone(&self.watch)));
        let polled = catch_unwind(AssertUnwindSafe(|| self.future.as_mut().poll(context)));
        CURRENT.set(outer);
        match polled {
            Ok(Poll::Ready(output)) => Poll::Ready(Ended::Returned(output)),
            Ok(Poll::Pending) => {
                self.waits += 1;
                if self.cancel_at == Some(self.waits) {
                    return Poll::Ready(Ended::Cancelled);
                }
                Poll::Pending
            }
            Err(panic) => Poll::Ready(Ended::Panicked(text_of(&*panic))),
        }
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a value that is no text").to_owned()
}
