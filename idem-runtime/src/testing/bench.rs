//! What the steps of a proof are made of: a fresh start, a delivery that is watched, the state.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Display;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use sqlx::{Connection, Pool};

use super::watch::{Ended, Harm, Seen, Watch, Watched};
use crate::backend::Backend;
use crate::transient;

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// How often a message is redelivered before it counts as one that never succeeds.
const REDELIVERIES: u32 = 5;

const PAUSE: Duration = Duration::from_millis(10);

/// How long a connection may take to come back to its pool.
const RETURN: Duration = Duration::from_secs(5);

/// A closure of the user's, on the proof's pool.
pub(crate) type Action<'p, T> = Box<dyn Fn() -> BoxFuture<'p, Result<T, BoxError>> + 'p>;

pub(crate) type BoxFuture<'p, T> = Pin<Box<dyn Future<Output = T> + 'p>>;

/// Boxes a closure.
pub(crate) fn action<'p, DB, F, X, E, T>(
    pool: &'p Pool<DB>,
    act: F,
    finish: fn(X) -> T,
) -> Action<'p, T>
where
    DB: Backend,
    F: AsyncFn(&'p Pool<DB>) -> Result<X, E> + 'p,
    E: Into<BoxError>,
    X: 'p,
    T: 'p,
{
    let act = Rc::new(act);
    Box::new(move || {
        let act = Rc::clone(&act);
        Box::pin(async move { act(pool).await.map(finish).map_err(Into::into) })
    })
}

pub(crate) struct Bench<'p, DB: Backend, V> {
    pub(crate) pool: &'p Pool<DB>,
    pub(crate) fresh: Action<'p, ()>,
    pub(crate) deliver: Action<'p, ()>,
    pub(crate) state: Action<'p, V>,
    pub(crate) limit: Duration,
    /// The claims that deliveries of this proof have made or met.
    pub(crate) claims: BTreeSet<(String, String)>,
    /// How often a delivery of this proof has waited at most.
    pub(crate) most_waits: usize,
    /// The tables that deliveries of this proof have written to, where the database knows.
    pub(crate) tables: BTreeSet<String>,
}

impl<'p, DB: Backend, V> Bench<'p, DB, V> {
    /// Calls `fresh`.
    pub(crate) async fn start_afresh(&self) -> Result<(), Failure> {
        self.within((self.fresh)()).await
    }

    /// Removes the claims.
    pub(crate) async fn forget(&self) -> Result<(), Failure> {
        let forget = async {
            let mut conn = self.pool.acquire().await?;
            for (consumer, key) in &self.claims {
                DB::forget(&mut conn, consumer, key).await?;
            }
            Ok(())
        };
        self.within(forget).await
    }

    /// Before writes are refused: a connection to be held until after that.
    pub(crate) async fn prepare(&self) -> Result<DB::Connection, Failure> {
        let prepare = async {
            let options = self.pool.connect_options();
            let mut conn = DB::Connection::connect_with(&options).await?;
            DB::prepare(&mut conn).await?;
            Ok(conn)
        };
        self.within(prepare).await
    }

    /// After that.
    pub(crate) async fn clean_up(&self, mut conn: DB::Connection) -> Result<(), Failure> {
        let clean_up = async {
            DB::clean_up(&mut conn).await?;
            Ok(conn.close().await?)
        };
        self.within(clean_up).await
    }

    pub(crate) async fn state(&self) -> Result<V, Failure> {
        self.within((self.state)()).await
    }

    /// One delivery, without harm.
    pub(crate) async fn deliver(&mut self) -> Delivery {
        self.deliver_with(None, None).await
    }

    /// One delivery, to which this is done, or which is cancelled when it waits for the so many-th time.
    pub(crate) async fn deliver_with(
        &mut self,
        harm: Option<(usize, Harm)>,
        cancel_at: Option<usize>,
    ) -> Delivery {
        let watch = Watch::new(harm, self.tables.clone());
        let mut watched = self.watched(&watch, cancel_at);
        let ended = sqlx_core::rt::timeout(self.limit, &mut watched).await;
        self.most_waits = self.most_waits.max(watched.waits);
        // Here a delivery that is cancelled is dropped.
        drop(watched);
        let seen = watch.seen();
        self.claims.extend(seen.claims.iter().cloned());
        self.tables.extend(seen.tables.iter().cloned());
        let mut is_cancelled = false;
        let result = match ended {
            Ok(Ended::Returned(result)) => result.map_err(Failure::Returned),
            Ok(Ended::Cancelled) => {
                is_cancelled = true;
                Ok(())
            }
            Ok(Ended::Panicked(text)) => Err(Failure::Panicked(text)),
            Err(_) => Err(Failure::TimedOut(self.limit)),
        };
        Delivery {
            result,
            is_cancelled,
            seen,
        }
    }

    /// So many deliveries at once.
    pub(crate) async fn deliver_at_once(&mut self, number: usize) -> Vec<Result<(), Failure>> {
        let watch = Watch::new(None, BTreeSet::new());
        let mut deliveries: Vec<_> = (0..number).map(|_| self.watched(&watch, None)).collect();
        let mut results: Vec<Option<Result<(), Failure>>> = Vec::new();
        results.resize_with(number, || None);
        let all = poll_fn(|context| {
            for (delivery, result) in deliveries.iter_mut().zip(&mut results) {
                if result.is_none()
                    && let Poll::Ready(ended) = Pin::new(delivery).poll(context)
                {
                    *result = Some(match ended {
                        Ended::Returned(result) => result.map_err(Failure::Returned),
                        Ended::Cancelled => Ok(()),
                        Ended::Panicked(text) => Err(Failure::Panicked(text)),
                    });
                }
            }
            if results.iter().all(Option::is_some) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        sqlx_core::rt::timeout(self.limit, all).await.ok();
        drop(deliveries);
        self.claims.extend(watch.seen().claims);
        let timed_out = || Err(Failure::TimedOut(self.limit));
        results
            .into_iter()
            .map(|result| result.unwrap_or_else(timed_out))
            .collect()
    }

    /// Delivers as a broker does, until it is acknowledged.
    pub(crate) async fn redeliver(&mut self) -> Result<(), Failure> {
        let mut left = REDELIVERIES;
        loop {
            match self.deliver().await.result {
                Err(error) if error.is_transient() && left > 0 => {
                    left -= 1;
                    sqlx_core::rt::sleep(PAUSE).await;
                }
                result => return result,
            }
        }
    }

    /// How many connections of the pool somebody else holds. What was used last may still be on its way back.
    pub(crate) async fn least_taken(&self) -> usize {
        let mut least = self.taken();
        for _ in 0..20 {
            if least == 0 {
                break;
            }
            sqlx_core::rt::sleep(PAUSE).await;
            least = least.min(self.taken());
        }
        least
    }

    fn taken(&self) -> usize {
        (self.pool.size() as usize).saturating_sub(self.pool.num_idle())
    }

    /// Whether no more are taken than before. The pool takes connections back in tasks of its own.
    pub(crate) async fn all_come_back(&self, before: usize) -> bool {
        let all = async {
            while self.taken() > before {
                sqlx_core::rt::sleep(PAUSE).await;
            }
        };
        sqlx_core::rt::timeout(self.limit.min(RETURN), all)
            .await
            .is_ok()
    }

    fn watched(&self, watch: &Arc<Watch>, cancel_at: Option<usize>) -> Watched<'p> {
        Watched {
            watch: Arc::clone(watch),
            cancel_at,
            waits: 0,
            future: (self.deliver)(),
        }
    }

    async fn within<T>(
        &self,
        action: impl Future<Output = Result<T, BoxError>>,
    ) -> Result<T, Failure> {
        match sqlx_core::rt::timeout(self.limit, action).await {
            Ok(result) => result.map_err(Failure::Returned),
            Err(_) => Err(Failure::TimedOut(self.limit)),
        }
    }
}

/// What a delivery came to.
pub(crate) struct Delivery {
    pub(crate) result: Result<(), Failure>,
    pub(crate) is_cancelled: bool,
    pub(crate) seen: Seen,
}

pub(crate) enum Failure {
    Returned(BoxError),
    Panicked(String),
    TimedOut(Duration),
}

impl Failure {
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Failure::Returned(error) => transient::is_transient(&**error),
            Failure::Panicked(_) | Failure::TimedOut(_) => false,
        }
    }

    /// Whether the handler has dropped an error of the database.
    pub(crate) fn is_aborted(&self) -> bool {
        matches!(self, Failure::Returned(error) if transient::is_aborted(&**error))
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Returned(error) => write!(f, "{}", chain(&**error)),
            Failure::Panicked(text) => write!(f, "it panicked: {text}"),
            Failure::TimedOut(limit) => write!(f, "it does not come to an end within {limit:?}"),
        }
    }
}

/// An error with its sources, as far as they say something new.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}
