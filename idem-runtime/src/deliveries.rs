use crate::backend::Backend;
use crate::claim::{self, Claim};
use crate::claims::{Claims, Verdict};
use crate::fingerprint::Digest;
use crate::key::EncodedKey;
use crate::terms::{BatchTerms, Invalid};
use crate::trace::Span;
use crate::{Error, InFlight, Isolation, Key, Source, consumer};

/// A batch of messages to be claimed in one statement and processed in one transaction: `each` by hand.
///
/// ```no_run
/// # extern crate idem_runtime as idem;
/// # #[cfg(feature = "sqlite")]
/// # async fn example(pool: &sqlx::SqlitePool, ids: &[String]) -> Result<(), Box<dyn std::error::Error>> {
/// let mut batch = idem::Deliveries::of("billing");
/// for id in ids {
///     batch.push(id);
/// }
/// let claimed = batch.claim(pool).await?;
/// if let Some(mut claim) = claimed.claim {
///     for index in claimed.fresh {
///         sqlx::query("INSERT INTO credits (message) VALUES (?)").bind(&ids[index]).execute(&mut *claim).await?;
///     }
///     claim.commit().await?;
/// }
/// // Acknowledge all of them here.
/// # Ok(())
/// # }
/// ```
///
/// The claims are inserted in the order of their keys, whatever the order of the messages, so that overlapping batches do not deadlock.
#[derive(Debug, Clone)]
#[must_use = "a batch does nothing until it is claimed"]
pub struct Deliveries<'a>(Result<BatchTerms<'a>, Invalid>);

impl<'a> Deliveries<'a> {
    /// To this consumer, without messages yet.
    pub fn of(consumer: &'a str) -> Self {
        Self(
            consumer::check(consumer)
                .map_err(Invalid::from)
                .map(|()| BatchTerms {
                    consumer,
                    messages: Vec::new(),
                    in_flight: InFlight::Wait,
                    isolation: None,
                }),
        )
    }

    /// Adds the message with this key. A bad key fails the whole batch when it is claimed.
    pub fn push(&mut self, key: impl Key) {
        self.add(&key, None);
    }

    /// As [`push`](Deliveries::push), with content that must be equal in all deliveries of the message: see
    /// [`Delivery::fingerprint`](crate::Delivery::fingerprint). A mismatch fails the whole batch.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a reference to it will do as well, and a value reads better"
    )]
    pub fn push_with_fingerprint(&mut self, key: impl Key, content: impl crate::Fingerprint) {
        match Digest::of(&content) {
            Ok(fingerprint) => self.add(&key, Some(fingerprint)),
            Err(invalid) => self.fail(invalid),
        }
    }

    /// What to do when another worker is still processing one of the messages.
    pub fn in_flight(mut self, in_flight: InFlight) -> Self {
        if let Ok(terms) = &mut self.0 {
            terms.in_flight = in_flight;
        }
        self
    }

    /// The isolation level of the transaction, instead of the session's own.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        if let Ok(terms) = &mut self.0 {
            terms.isolation = Some(isolation);
        }
        self
    }

    /// Begins a transaction and claims the messages in it.
    ///
    /// # Errors
    ///
    /// As [`claim`](crate::claim()), for the whole batch. One without messages takes no connection.
    pub async fn claim<'c, S, DB>(self, source: S) -> Result<ClaimedBatch<'c, DB>, Error>
    where
        S: Source<'c, Database = DB>,
        DB: Backend,
    {
        let terms = self.terms()?;
        if terms.messages.is_empty() {
            return Ok(ClaimedBatch::new(None, &[]));
        }
        let span = Span::new(terms.consumer, &terms.name());
        let started = span
            .within(claim::start(source, Claims::Batch(terms)))
            .await;
        match started {
            Ok((lease, open, Verdict::FreshOf(fresh))) if fresh.contains(&true) => {
                let claim = Claim {
                    lease,
                    open,
                    span,
                    names: claim::Names::new(terms.consumer, &[]),
                };
                Ok(ClaimedBatch::new(Some(claim), &fresh))
            }
            Ok(_) => {
                span.end("duplicate");
                Ok(ClaimedBatch::new(None, &vec![false; terms.messages.len()]))
            }
            Err(error) => {
                span.end("failed");
                Err(error)
            }
        }
    }

    pub(crate) fn terms(&self) -> Result<&BatchTerms<'a>, Error> {
        self.0
            .as_ref()
            .map_err(|invalid| Error::from(invalid.clone()))
    }

    fn add(&mut self, key: &impl Key, fingerprint: Option<Digest>) {
        match (EncodedKey::new(key), &mut self.0) {
            (Ok(key), Ok(terms)) => terms.messages.push((key, fingerprint)),
            (Err(invalid), _) => self.fail(invalid),
            (_, Err(_)) => {}
        }
    }

    /// The first fault stays.
    fn fail(&mut self, invalid: impl Into<Invalid>) {
        if self.0.is_ok() {
            self.0 = Err(invalid.into());
        }
    }
}

/// What [`Deliveries::claim`] found. The indexes count the messages as they were pushed, from 0.
#[must_use = "a claim must be committed; dropping it rolls it back, and its messages count as not processed"]
pub struct ClaimedBatch<'c, DB: Backend> {
    /// The claim of all fresh messages, if there is one. Do their work on it and commit it, and then acknowledge all messages.
    pub claim: Option<Claim<'c, DB>>,
    /// Which messages are new, in order.
    pub fresh: Vec<usize>,
    /// Which are duplicates: of earlier deliveries, or of a message before them in the same batch.
    pub duplicates: Vec<usize>,
}

impl<'c, DB: Backend> ClaimedBatch<'c, DB> {
    fn new(claim: Option<Claim<'c, DB>>, fresh: &[bool]) -> Self {
        let (new, duplicates) = (0..fresh.len()).partition(|index| fresh[*index]);
        Self {
            claim,
            fresh: new,
            duplicates,
        }
    }
}
