use std::time::Duration;

use super::archive::Place;
use super::chunks::{Bounds, DaysToKeep, Step, Taken, Takes};
use super::{Due, PruneError, Pruned, Pruner};
use crate::backend::{self, Backend, Closes};
use crate::error::{Error, Step as At};
use crate::source::{Guard, Lease, Source};
use crate::transaction;

impl<DB: Backend> Pruner<DB> {
    /// Removes what is past its window now, and returns when that is done, or at once when another pruner is at work.
    ///
    /// # Errors
    ///
    /// [`PruneError`]. What was removed before stays removed; a later run goes on from there.
    pub async fn run_once(&self) -> Result<Pruned, PruneError> {
        self.windows.check()?;
        let mut pruned = Pruned::default();
        let mut lease = self.lease().await?;
        // Whatever becomes of the rest, and whoever else is at work.
        let created = self.create_days(&mut lease, &mut pruned).await;
        if let Err(error) = self.prune(&mut lease, &mut pruned).await {
            transaction::give_up(&mut lease, 0).await;
            return Err(error);
        }
        if !pruned.is_busy {
            self.drop_days(&mut lease, &mut pruned).await?;
        }
        created.map(|()| pruned)
    }

    /// Runs again and again, with a rest between, for as long as the future is polled: spawn it once at start-up. When the database
    /// or the archive is out of reach it tries again, after a second at first, and with longer rests each time.
    ///
    /// Returns only when it makes no sense to go on: a window is too short, or the pool is closed. Everything else, a missing table
    /// included, is tried again, since somebody may mend it while the program runs: hear of it by [`on_error`](Pruner::on_error) or the feature `tracing`.
    pub async fn run(&self) -> PruneError {
        const FIRST: Duration = Duration::from_secs(1);
        let mut rest = FIRST;
        loop {
            let next = match self.run_once().await {
                Ok(pruned) => {
                    crate::trace::pruned(&pruned);
                    rest = FIRST;
                    self.every
                }
                Err(error @ PruneError::Window(_)) => return error,
                // Somebody may mend it while the program runs, whatever it is.
                Err(error) => {
                    crate::trace::prune_failed(&error);
                    if let Some(complain) = &self.complain {
                        complain(&error);
                    }
                    if self.pool.is_closed() {
                        return error;
                    }
                    let now = rest.min(self.every);
                    rest = rest.saturating_mul(2);
                    now
                }
            };
            sqlx_core::rt::sleep(next).await;
        }
    }

    /// What a run would remove from the plain table. Counts, and changes nothing.
    ///
    /// # Errors
    ///
    /// As [`run_once`](Pruner::run_once).
    pub async fn preview(&self) -> Result<Vec<Due>, PruneError> {
        self.windows.check()?;
        let bounds = Bounds::new(&self.windows);
        let mut lease = self.lease().await?;
        match due(&mut lease, &bounds).await {
            Ok((_, due)) => Ok(due),
            Err(error) => {
                transaction::give_up(&mut lease, 0).await;
                Err(failed(error))
            }
        }
    }

    async fn lease(&self) -> Result<Lease<'_, DB>, PruneError> {
        let lease = (&self.pool).lease().await;
        lease.map_err(PruneError::Database)
    }

    async fn prune(
        &self,
        lease: &mut Lease<'_, DB>,
        pruned: &mut Pruned,
    ) -> Result<(), PruneError> {
        let bounds = Bounds::new(&self.windows);
        let (conn, guard) = lease.split();
        // A run that is dropped takes its connection with it, so that the server stops what it was asked.
        guard.close = DB::CLOSES != Closes::Never;
        // Creating needs a right, even where there is nothing to create.
        let probe = "SELECT 1 FROM processed_messages_archive WHERE 1 = 0";
        if matches!(self.archive.0, Place::Table) && DB::run(conn, probe).await.is_err() {
            DB::run(conn, DB::CREATE_ARCHIVE).await.map_err(failed)?;
        }
        backend::begin::<DB>(conn, Some(DB::BEGIN_LOOK))
            .await
            .map_err(failed)?;
        guard.levels = 1;
        let consumers = DB::consumers(conn).await.map_err(failed)?;
        pruned.without_window = self.windows.without_window(&consumers);
        let mut steps = if bounds.shortest().is_some() {
            DB::plan(conn, &bounds, &consumers, self.claims_of_a_chunk())
                .await
                .map_err(failed)?
        } else {
            Vec::new()
        };
        backend::commit::<DB>(conn).await.map_err(failed)?;
        *guard = Guard::default();
        'run: for step in &mut steps {
            loop {
                let Some(taken) = self.take_chunk(lease, &bounds, step).await? else {
                    pruned.is_busy = true;
                    break 'run;
                };
                pruned.claims += taken.claims;
                pruned.business_keys += taken.business_keys;
                pruned.chunks += u64::from(taken.claims > 0);
                if !matches!(self.archive.0, Place::None) {
                    pruned.archived += taken.claims;
                }
                if let (Some(report), true) = (&self.report, taken.claims > 0) {
                    report(pruned);
                }
                if taken.claims > 0 && !self.pause.is_zero() {
                    sqlx_core::rt::sleep(self.pause).await;
                }
                if taken.is_done {
                    break;
                }
            }
        }
        let (conn, guard) = lease.split();
        guard.close = DB::CLOSES != Closes::Never;
        if pruned.claims > 0 {
            DB::tidy(conn, &steps).await;
        }
        *guard = Guard::default();
        Ok(())
    }

    /// One transaction; nothing if another pruner is at work.
    async fn take_chunk(
        &self,
        lease: &mut Lease<'_, DB>,
        bounds: &Bounds,
        step: &mut Step,
    ) -> Result<Option<Taken>, PruneError> {
        let (conn, guard) = lease.split();
        guard.close = DB::CLOSES != Closes::Never;
        let begun = backend::begin::<DB>(conn, Some(DB::BEGIN_CHUNK)).await;
        begun.map_err(|error| PruneError::Database(Error::at_begin(error)))?;
        guard.levels = 1;
        let taken = self.take(conn, bounds, step).await;
        let ended = match &taken {
            Ok(Some(_)) => backend::commit::<DB>(conn).await,
            Ok(None) => backend::rollback::<DB>(conn).await,
            Err(_) => return taken,
        };
        ended.map_err(|error| PruneError::Database(Error::at_commit(error)))?;
        guard.levels = 0;
        if matches!(taken, Ok(Some(_))) {
            DB::unlock(conn).await.map_err(failed)?;
        }
        *guard = Guard::default();
        taken
    }

    async fn take(
        &self,
        conn: &mut DB::Connection,
        bounds: &Bounds,
        step: &mut Step,
    ) -> Result<Option<Taken>, PruneError> {
        if !DB::lock(conn).await.map_err(failed)? {
            return Ok(None);
        }
        let taken = DB::take(
            conn,
            bounds,
            step,
            self.claims_of_a_chunk(),
            self.archive.takes(),
        )
        .await;
        let taken = taken.map_err(failed)?;
        self.archive.write(&taken.rows)?;
        Ok(Some(taken))
    }

    async fn create_days(
        &self,
        lease: &mut Lease<'_, DB>,
        pruned: &mut Pruned,
    ) -> Result<(), PruneError> {
        let (conn, guard) = lease.split();
        guard.close = DB::CLOSES != Closes::Never;
        pruned.days_created += DB::create_days(conn, &self.days()).await?;
        *guard = Guard::default();
        Ok(())
    }

    async fn drop_days(
        &self,
        lease: &mut Lease<'_, DB>,
        pruned: &mut Pruned,
    ) -> Result<(), PruneError> {
        let (conn, guard) = lease.split();
        // The session says meanwhile how long it waits.
        guard.close = DB::CLOSES != Closes::Never;
        DB::drop_days(conn, &self.days(), &self.archive, pruned).await?;
        *guard = Guard::default();
        Ok(())
    }

    /// What goes into a file passes through memory, with its stored values.
    fn claims_of_a_chunk(&self) -> u32 {
        match self.archive.takes() {
            Takes::Rows => self.chunk.min(1000),
            Takes::Nothing | Takes::Copies => self.chunk,
        }
    }

    fn days(&self) -> DaysToKeep<'_> {
        DaysToKeep {
            windows: &self.windows,
            ahead: self.days_ahead,
        }
    }
}

/// The consumers that have claims, and what is past their windows.
pub(crate) async fn due<DB: Backend>(
    lease: &mut Lease<'_, DB>,
    bounds: &Bounds,
) -> Result<(Vec<String>, Vec<Due>), sqlx::Error> {
    let (conn, guard) = lease.split();
    guard.close = DB::CLOSES != Closes::Never;
    backend::begin::<DB>(conn, Some(DB::BEGIN_LOOK)).await?;
    guard.levels = 1;
    let consumers = DB::consumers(conn).await?;
    let due = if bounds.shortest().is_some() {
        DB::due(conn, bounds, &consumers).await?
    } else {
        Vec::new()
    };
    backend::commit::<DB>(conn).await?;
    *guard = Guard::default();
    Ok((consumers, due))
}

pub(super) fn failed(error: sqlx::Error) -> PruneError {
    PruneError::Database(match Error::at_claim(error) {
        Error::Database { source, .. } => Error::database(At::Prune)(source),
        other => other,
    })
}
