//! One span per delivery, with the feature `tracing`; without it, nothing.

#[cfg(feature = "tracing")]
mod with_tracing {
    use std::time::Instant;

    use tracing::field::Empty;
    use tracing::{Instrument, instrument::Instrumented};

    pub(crate) struct Span {
        shared: SharedSpan,
        started: Instant,
        ended: bool,
    }

    /// The same span, for a part of the delivery.
    #[derive(Clone)]
    pub struct SharedSpan(tracing::Span);

    impl Span {
        pub(crate) fn new(consumer: &str, key: &str) -> Self {
            let span = tracing::info_span!(
                "delivery",
                consumer,
                key,
                outcome = Empty,
                duration_ms = Empty
            );
            Self {
                shared: SharedSpan(span),
                started: Instant::now(),
                ended: false,
            }
        }

        pub(crate) fn share(&self) -> SharedSpan {
            self.shared.clone()
        }

        pub(crate) fn within<F: Future>(
            &self,
            future: F,
        ) -> impl Future<Output = F::Output> + use<F> {
            self.shared.within(future)
        }

        pub(crate) fn end(mut self, outcome: &'static str) {
            self.record(outcome);
            if matches!(outcome, "duplicate" | "replayed" | "stale") {
                tracing::debug!(parent: &self.shared.0, "{outcome} delivery: an earlier one has committed");
            }
        }

        fn record(&mut self, outcome: &'static str) {
            self.ended = true;
            self.shared.0.record("outcome", outcome);
            let duration = self.started.elapsed().as_secs_f64() * 1000.0;
            self.shared.0.record("duration_ms", duration);
        }
    }

    impl SharedSpan {
        pub fn within<F: Future>(&self, future: F) -> Instrumented<F> {
            future.instrument(self.0.clone())
        }
    }

    impl Drop for Span {
        fn drop(&mut self) {
            if !self.ended {
                self.record(if std::thread::panicking() {
                    "panicked"
                } else {
                    "cancelled"
                });
            }
        }
    }
}

#[cfg(feature = "tracing")]
pub(crate) use with_tracing::{SharedSpan, Span};

/// A run of the pruner is over.
pub(crate) fn pruned(pruned: &crate::Pruned) {
    #[cfg(feature = "tracing")]
    if pruned.is_busy {
        tracing::debug!("another pruner is at work");
    } else {
        tracing::info!(
            claims = pruned.claims,
            archived = pruned.archived,
            days_dropped = pruned.days_dropped,
            days_created = pruned.days_created,
            without_window = ?pruned.without_window,
            "pruned"
        );
    }
    let _ = pruned;
}

/// A run of the pruner has failed, and is tried again.
pub(crate) fn prune_failed(error: &crate::PruneError) {
    #[cfg(feature = "tracing")]
    if error.is_transient() {
        tracing::warn!(%error, "pruning failed, and is tried again");
    } else {
        tracing::error!(%error, "pruning fails, and is tried again in case that somebody mends it");
    }
    let _ = error;
}

#[cfg(not(feature = "tracing"))]
mod without_tracing {
    pub(crate) struct Span;
    pub struct SharedSpan;

    #[expect(clippy::unused_self, reason = "the shape of the traced span")]
    impl Span {
        pub(crate) fn new(_: &str, _: &str) -> Self {
            Self
        }

        pub(crate) fn share(&self) -> SharedSpan {
            SharedSpan
        }

        pub(crate) fn within<F>(&self, future: F) -> F {
            future
        }

        pub(crate) fn end(self, _: &'static str) {}
    }

    #[expect(clippy::unused_self, reason = "the shape of the traced span")]
    impl SharedSpan {
        pub fn within<F>(&self, future: F) -> F {
            future
        }
    }
}

#[cfg(not(feature = "tracing"))]
pub(crate) use without_tracing::{SharedSpan, Span};
