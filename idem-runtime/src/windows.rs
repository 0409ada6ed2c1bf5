use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::{Retain, handlers};

/// How long the claims of each consumer are kept, and how long its broker may redeliver.
///
/// A consumer without a window is not pruned at all. Business keys are kept for ever unless they have a window of their own, since two
/// messages may ask for one action however long apart; versions are kept whatever the windows say.
///
/// ```
/// # extern crate idem_runtime as idem;
/// use std::time::Duration;
/// use idem::Windows;
///
/// const DAY: Duration = Duration::from_hours(24);
/// let windows = Windows::of_handlers()      // what the handlers say by `retain` and `redelivery`
///     .default_window(14 * DAY)             // for consumers that are not in this program
///     .default_redelivery(4 * DAY);
/// assert!(windows.check().is_ok());
/// assert!(windows.window("billing", 2 * DAY).check().is_err(), "shorter than the broker redelivers");
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Windows {
    of_consumers: BTreeMap<String, Window>,
    default: Window,
    /// The consumers whose claims are in the table by days, as far as the handlers say.
    by_day: Vec<&'static str>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Window {
    retain: Option<Retain>,
    business: Option<Retain>,
    redelivery: Option<Duration>,
}

impl Windows {
    /// No windows: nothing is pruned.
    pub fn new() -> Self {
        Self::default()
    }

    /// The windows that the handlers of this program give as `retain`, `business_retain` and `redelivery`. Where several share a consumer's
    /// name, the longest that one of them gives.
    pub fn of_handlers() -> Self {
        let mut windows = Self::new();
        for handler in handlers() {
            let window = windows.of(handler.consumer);
            window.retain = longest(window.retain, handler.retain);
            window.business = longest(window.business, handler.business_retain);
            window.redelivery = window.redelivery.max(handler.redelivery);
            if handler.time.is_some() {
                windows.by_day.push(handler.consumer);
            }
        }
        windows
    }

    /// For consumers that have no window of their own.
    pub fn default_window(mut self, retain: impl Into<Retain>) -> Self {
        self.default.retain = Some(retain.into());
        self
    }

    /// For this consumer, in place of its handler's `retain`.
    pub fn window(mut self, consumer: impl Into<String>, retain: impl Into<Retain>) -> Self {
        self.of(consumer).retain = Some(retain.into());
        self
    }

    /// For the business keys of this consumer, in place of its handler's `business_retain`.
    pub fn business_window(
        mut self,
        consumer: impl Into<String>,
        retain: impl Into<Retain>,
    ) -> Self {
        self.of(consumer).business = Some(retain.into());
        self
    }

    /// How long the broker may redeliver a message to consumers that do not say so themselves.
    pub fn default_redelivery(mut self, window: Duration) -> Self {
        self.default.redelivery = Some(window);
        self
    }

    /// How long the broker may redeliver a message to this consumer, in place of its handler's `redelivery`.
    pub fn redelivery(mut self, consumer: impl Into<String>, window: Duration) -> Self {
        self.of(consumer).redelivery = Some(window);
        self
    }

    /// Whether every claim is kept for longer than its message may be redelivered, as far as both are known. A window of no length is always
    /// too short.
    ///
    /// # Errors
    ///
    /// The first window that is too short.
    pub fn check(&self) -> Result<(), InvalidWindow> {
        let default = (None, &self.default);
        let named = self.of_consumers.iter();
        for (consumer, window) in named
            .map(|(name, window)| (Some(name), window))
            .chain([default])
        {
            // Where none is known, no window at all would still be too short.
            let redelivery = window.redelivery.or(self.default.redelivery);
            let redelivery = redelivery.unwrap_or_default();
            let retain = window.retain.or(self.default.retain);
            for (retain, is_business) in [(retain, false), (window.business, true)] {
                if let Some(retain) = retain.filter(|retain| !retain.exceeds(redelivery)) {
                    return Err(InvalidWindow {
                        consumer: consumer.cloned(),
                        retain,
                        redelivery,
                        is_business,
                    });
                }
            }
        }
        Ok(())
    }

    /// How long the claims of this consumer are kept.
    #[must_use]
    pub fn retain_of(&self, consumer: &str) -> Option<Retain> {
        let window = self.of_consumers.get(consumer);
        window
            .and_then(|window| window.retain)
            .or(self.default.retain)
    }

    /// How long the business keys of this consumer are kept: for ever, unless it says otherwise.
    #[must_use]
    pub fn business_retain_of(&self, consumer: &str) -> Retain {
        let window = self.of_consumers.get(consumer);
        window
            .and_then(|window| window.business)
            .unwrap_or(Retain::Forever)
    }

    /// How long days are kept at least in the table by days: the longest window of the handlers with `time`, or the default where this program
    /// has none. A day also stays for each consumer that has claims in it.
    #[must_use]
    pub fn retain_of_days(&self) -> Option<Retain> {
        if self.by_day.is_empty() {
            return self.default.retain;
        }
        // One that says nothing is kept for as long as the default says, or for ever.
        let windows = self
            .by_day
            .iter()
            .map(|consumer| Some(self.retain_of(consumer).unwrap_or(Retain::Forever)));
        windows.fold(None, longest)
    }

    /// Which of these have no window; consumers of this program whose claims are versions need none.
    pub(crate) fn without_window(&self, consumers: &[String]) -> Vec<String> {
        let has_versions = |consumer: &str| {
            handlers().any(|handler| handler.has_version && handler.consumer == consumer)
        };
        consumers
            .iter()
            .filter(|consumer| self.retain_of(consumer).is_none() && !has_versions(consumer))
            .cloned()
            .collect()
    }

    /// The consumers with windows of their own.
    pub(crate) fn named(&self) -> impl Iterator<Item = &str> {
        self.of_consumers.keys().map(String::as_str)
    }

    pub(crate) fn default_retain(&self) -> Option<Retain> {
        self.default.retain
    }

    fn of(&mut self, consumer: impl Into<String>) -> &mut Window {
        self.of_consumers.entry(consumer.into()).or_default()
    }
}

fn longest(one: Option<Retain>, other: Option<Retain>) -> Option<Retain> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.longer(other)),
        (one, other) => one.or(other),
    }
}

/// A retention window that does not exceed the redelivery window.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidWindow {
    /// Whose it is; the default's without one.
    pub consumer: Option<String>,
    /// How long claims would be kept.
    pub retain: Retain,
    /// How long the broker may redeliver.
    pub redelivery: Duration,
    /// Whether it is the window of its business keys.
    pub is_business: bool,
}

impl fmt::Display for InvalidWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_business {
            "business keys"
        } else {
            "claims"
        };
        match &self.consumer {
            Some(consumer) => write!(f, "the {what} of the consumer `{consumer}`")?,
            None => write!(f, "{what}")?,
        }
        if self.redelivery.is_zero() {
            return f.write_str(" would not be kept at all, so that every redelivery runs again; keep them for longer than the broker may redeliver");
        }
        let redelivery = idem_duration::write(self.redelivery);
        write!(
            f,
            " would be kept for {}, and the broker may redeliver for {redelivery}: a message redelivered after its claim is gone runs a second time; keep them for longer than {redelivery}",
            self.retain
        )
    }
}

impl std::error::Error for InvalidWindow {}

#[cfg(test)]
mod tests;
