use crate::backend::Backend;
use crate::claim::{self, Claim};
use crate::claims::{Claims, Verdict};
use crate::fingerprint::Digest;
use crate::key::EncodedKey;
use crate::terms::{BatchTerms, Invalid, Message, Places};
use crate::trace::Span;
use crate::{Error, InFlight, Isolation, Key, Source, Time, consumer};

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
                    from_plain: false,
                    in_flight: InFlight::Wait,
                    isolation: None,
                }),
        )
    }

    /// Adds the message with this key; what else is to be said of it follows. A bad key fails the whole batch when it is claimed.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a reference to it will do as well, and a value reads better"
    )]
    pub fn push(&mut self, key: impl Key) -> Pushed<'_, 'a> {
        match (EncodedKey::new(&key), &mut self.0) {
            (Ok(key), Ok(terms)) => terms.messages.push(Message {
                key,
                fingerprint: None,
                day: None,
            }),
            (Err(invalid), Ok(_)) => self.0 = Err(invalid.into()),
            (_, Err(_)) => {}
        }
        Pushed(&mut self.0)
    }

    /// See [`Delivery::from_plain`](crate::Delivery::from_plain).
    pub fn from_plain(mut self) -> Self {
        if let Ok(terms) = &mut self.0 {
            terms.from_plain = true;
        }
        self
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
                    names: claim::Names::new(terms.consumer, &Places::default()),
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
}

/// The message that [`Deliveries::push`] has added, for what else there is to say of it.
#[derive(Debug)]
pub struct Pushed<'p, 'a>(&'p mut Result<BatchTerms<'a>, Invalid>);

impl Pushed<'_, '_> {
    /// With content that must be equal in all deliveries of the message: see
    /// [`Delivery::fingerprint`](crate::Delivery::fingerprint). A mismatch fails the whole batch.
    #[allow(
        clippy::needless_pass_by_value,
        clippy::return_self_not_must_use,
        reason = "a reference to it will do as well, and a value reads better; the message is in the batch"
    )]
    pub fn fingerprint(self, content: impl crate::Fingerprint) -> Self {
        self.set(|message| {
            message.fingerprint = Some(Digest::of(&content)?);
            Ok(())
        })
    }

    /// With the time under whose day it is claimed: see [`Delivery::time`](crate::Delivery::time). A day that is no longer kept
    /// fails the whole batch.
    #[allow(
        clippy::needless_pass_by_value,
        clippy::return_self_not_must_use,
        reason = "a reference to it will do as well, and a value reads better; the message is in the batch"
    )]
    pub fn time(self, time: impl Time) -> Self {
        self.set(|message| {
            message.day = Some(time.day()?);
            Ok(())
        })
    }

    /// The first fault stays.
    fn set(self, change: impl FnOnce(&mut Message) -> Result<(), Invalid>) -> Self {
        if let Ok(terms) = self.0
            && let Some(message) = terms.messages.last_mut()
            && let Err(invalid) = change(message)
        {
            *self.0 = Err(invalid);
        }
        self
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
