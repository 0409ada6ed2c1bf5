use crate::backend::Backend;
use crate::claim::{self, Claimed};
use crate::fingerprint::Digest;
use crate::key::{EncodedKey, OptionalKey};
use crate::once::{self, AsyncFunc};
use crate::terms::{Invalid, Terms};
use crate::version::ClaimedVersion;
use crate::{Error, InFlight, InvalidVersion, Isolation, Key, Outcome, Source, Time, Version};

/// What a delivery claims, and on which terms: the arguments of the attribute, for [`claim`](Delivery::claim) and
/// [`once`](Delivery::once) by hand.
///
/// ```no_run
/// # extern crate idem_runtime as idem;
/// # #[cfg(feature = "sqlite")]
/// # async fn example(pool: &sqlx::SqlitePool, event_id: &str, order: i64) -> Result<(), sqlx::Error> {
/// use idem::{Delivery, InFlight};
/// use sqlx::SqliteConnection;
///
/// let outcome = Delivery::with_business_key("billing", event_id, (order, "charge"))
///     .in_flight(InFlight::Fail)
///     .once(pool, async |tx: &mut SqliteConnection| {
///         sqlx::query("UPDATE orders SET charged = 1 WHERE id = ?").bind(order).execute(tx).await?;
///         Ok::<_, sqlx::Error>(())
///     })
///     .await?;
/// # Ok(())
/// # }
/// ```
///
/// Nothing is checked by the database before [`claim`](Delivery::claim) or [`once`](Delivery::once); what is wrong with a name, a key or a
/// version is their error.
#[derive(Debug, Clone)]
#[must_use = "a delivery does nothing until it is claimed"]
pub struct Delivery<'a>(Result<Terms<'a>, Invalid>);

impl<'a> Delivery<'a> {
    /// Of the message with this key, to this consumer.
    pub fn of(consumer: &'a str, key: impl Key) -> Self {
        Self(
            EncodedKey::new(&key)
                .map_err(Invalid::from)
                .and_then(|key| Terms::new(consumer, Some(key))),
        )
    }

    /// Of a message that asks for an action, which other messages may ask for too: a duplicate if either the message's key or the
    /// action's was claimed before by this consumer. Both are claimed in one statement. They live in separate spaces: a message
    /// whose id equals some business key is no match. The key of a duplicate by its business key is kept, for its own redeliveries; the
    /// business key of a duplicate by its key is not, since that action was not done.
    ///
    /// The message's key may be an `Option`, for producers that give no id: without one, the business key decides alone.
    ///
    /// The stored business key, with its mark, may have one byte less than [`MAX_KEY_BYTES`](crate::MAX_KEY_BYTES).
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a reference to it will do as well, and a value reads better"
    )]
    pub fn with_business_key(
        consumer: &'a str,
        key: impl OptionalKey,
        business_key: impl Key,
    ) -> Self {
        let keys = key
            .encode()
            .and_then(|key| Ok((key, EncodedKey::business(&business_key)?)));
        Self(keys.map_err(Invalid::from).and_then(|(key, business_key)| {
            let mut terms = Terms::new(consumer, key)?;
            terms.business_key = Some(business_key);
            Ok(terms)
        }))
    }

    /// Remembers this of the message's content, and refuses a later delivery with the same key and other content:
    /// [`Error::Mismatch`]. What is compared is a SHA-256 of the value's JSON with sorted keys, written once with the claim.
    ///
    /// Name the fields that matter: a type that gains a field has another fingerprint than before.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a reference to it will do as well, and a value reads better"
    )]
    pub fn fingerprint(self, content: impl crate::Fingerprint) -> Self {
        self.set(|terms| {
            terms.fingerprint = Some(Digest::of(&content)?);
            Ok(())
        })
    }

    /// Keeps one row per key, which names an aggregate then, with the highest version applied: a newer version is fresh, an equal one
    /// a duplicate and an older one [`Stale`](Outcome::Stale). Versions of one key are processed one at a time.
    pub fn version(self, version: impl Version) -> Self {
        self.set(|terms| {
            terms.version = Some(ClaimedVersion {
                number: version.number()?,
                gapless_from: None,
            });
            Ok(())
        })
    }

    /// After [`version`](Delivery::version): versions follow each other by one, from `first` on. One that skips ahead is
    /// [`Error::OutOfTurn`], which is transient; an older one was applied itself, and is a duplicate. One before the
    /// first is [`InvalidVersion::BeforeFirst`](crate::InvalidVersion::BeforeFirst).
    ///
    /// A key whose row has no version counts as not yet begun. To begin in the middle, insert the row with the version that was
    /// applied last.
    pub fn gapless_from(self, first: i64) -> Self {
        self.set(|terms| {
            let version = terms.version.as_mut().ok_or(Invalid::Combination(
                "`gapless_from` follows `version`, whose numbers it counts",
            ))?;
            if version.number < first {
                return Err(InvalidVersion::BeforeFirst {
                    version: version.number,
                    first,
                }
                .into());
            }
            version.gapless_from = Some(first);
            Ok(())
        })
    }

    /// Claims the message in the table by days (PostgreSQL), under the day of this time, which must be the same in all deliveries of
    /// the message: see [`Time`] and [`Days`](crate::Days). A message of a day that is no longer kept is refused: [`Error::Expired`].
    ///
    /// A business key stays in the plain table, since the messages that ask for one action may be of different days.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a reference to it will do as well, and a value reads better"
    )]
    pub fn time(self, time: impl Time) -> Self {
        self.set(|terms| {
            terms.day = Some(time.day()?);
            Ok(())
        })
    }

    /// Beside [`time`](Delivery::time), while the claims of this consumer move from the plain table to the one by days: claims the message
    /// in both, so that it is recognised whichever of them an earlier delivery has used, also one of a worker that was not yet updated.
    /// See [`Days`](crate::Days) for when to take it out again.
    pub fn from_plain(self) -> Self {
        self.set(|terms| {
            terms.from_plain = true;
            Ok(())
        })
    }

    /// What to do when another worker is still processing the message.
    pub fn in_flight(self, in_flight: InFlight) -> Self {
        self.set(|terms| {
            terms.in_flight = in_flight;
            Ok(())
        })
    }

    /// The isolation level of the transaction, instead of the session's own.
    pub fn isolation(self, isolation: Isolation) -> Self {
        self.set(|terms| {
            terms.isolation = Some(isolation);
            Ok(())
        })
    }

    /// Asks [`claim`](Delivery::claim) for the value that an earlier delivery stored with
    /// [`Claim::commit_with`](crate::Claim::commit_with): [`Claimed::Replayed`].
    pub fn replaying(self) -> Self {
        self.set(|terms| {
            terms.replays = true;
            Ok(())
        })
    }

    /// As [`claim`](crate::claim()), on these terms.
    ///
    /// # Errors
    ///
    /// As there, and [`Error::Mismatch`], [`Error::OutOfTurn`], [`Error::Isolation`].
    pub async fn claim<'c, S, DB>(self, source: S) -> Result<Claimed<'c, DB>, Error>
    where
        S: Source<'c, Database = DB>,
        DB: Backend,
    {
        claim::claim_on(source, self.terms()?).await
    }

    /// As [`once`](crate::once()), on these terms.
    ///
    /// # Errors
    ///
    /// As there, and [`Error::Mismatch`], [`Error::OutOfTurn`], [`Error::Isolation`].
    pub async fn once<'c, S, DB, F, T, E>(self, source: S, body: F) -> Result<Outcome<T>, E>
    where
        S: Source<'c, Database = DB>,
        DB: Backend,
        F: for<'t> AsyncFunc<&'t mut DB::Connection, Result<T, E>, Fut: Send>,
        E: From<Error>,
    {
        once::once_on(source, self.terms()?, body).await
    }

    /// As [`once`](Delivery::once), and stores the closure's value, so that a duplicate gets it: [`Outcome::Replayed`]. A duplicate of a
    /// delivery that stored none is [`Outcome::Duplicate`]. See [`Replay`](crate::Replay).
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InvalidValue`] for a value that cannot be stored (then nothing is applied) or a stored one that is no `T`.
    pub async fn replay<'c, S, DB, F, T, E>(self, source: S, body: F) -> Result<Outcome<T>, E>
    where
        S: Source<'c, Database = DB>,
        DB: Backend,
        F: for<'t> AsyncFunc<&'t mut DB::Connection, Result<T, E>, Fut: Send>,
        T: crate::Replay + Send,
        E: From<Error>,
    {
        let delivery = self.replaying();
        once::replay_on(source, delivery.terms()?, body).await
    }

    pub(crate) fn terms(&self) -> Result<&Terms<'a>, Error> {
        let terms = self
            .0
            .as_ref()
            .map_err(|invalid| Error::from(invalid.clone()))?;
        terms.check()?;
        Ok(terms)
    }

    fn set(self, change: impl FnOnce(&mut Terms<'a>) -> Result<(), Invalid>) -> Self {
        Self(self.0.and_then(|mut terms| {
            change(&mut terms)?;
            Ok(terms)
        }))
    }
}
