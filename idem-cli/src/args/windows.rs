use std::time::Duration;

use clap::Args;
use idem::{Retain, Windows};

use super::duration;
use crate::failure::Failure;

/// How long claims are kept, and how long the broker may redeliver.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Windows")]
pub(crate) struct WindowArgs {
    /// How long claims are kept: 7d, 36h or forever
    ///
    /// For the consumers that --window does not name. Counts from when the message was processed, by the database's clock.
    #[arg(long, value_name = "WINDOW")]
    pub(crate) retain: Option<Retain>,

    /// How long the claims of one consumer are kept, as in billing=30d (may be repeated)
    #[arg(long, value_name = "CONSUMER=WINDOW", value_parser = of_consumer)]
    pub(crate) window: Vec<(String, Retain)>,

    /// How long the business keys of one consumer are kept, as in billing=365d (may be repeated)
    ///
    /// Without it they are kept for ever, since two messages that ask for one action may come months apart.
    #[arg(long, value_name = "CONSUMER=WINDOW", value_parser = of_consumer)]
    pub(crate) business_window: Vec<(String, Retain)>,

    /// How long the broker may redeliver, as in 4d, or billing=12h for one consumer (may be repeated)
    ///
    /// Needed with every window that has an end. A message that is redelivered after its claim is gone runs a second time, so that a window
    /// which does not exceed this time is refused. Count everything in: the broker's retention, retries, dead letters that are sent again,
    /// a restored backup.
    #[arg(long, value_name = "[CONSUMER=]TIME", value_parser = redelivery)]
    pub(crate) redelivery: Vec<(Option<String>, Duration)>,
}

impl WindowArgs {
    pub(crate) fn is_empty(&self) -> bool {
        self.retain.is_none() && self.window.is_empty() && self.business_window.is_empty()
    }

    /// The windows, if each exceeds its redelivery window.
    pub(crate) fn windows(&self) -> Result<Windows, Failure> {
        self.every_window_has_its_redelivery()?;
        let mut windows = Windows::new();
        if let Some(retain) = self.retain {
            windows = windows.default_window(retain);
        }
        for (consumer, retain) in &self.window {
            windows = windows.window(consumer, *retain);
        }
        for (consumer, retain) in &self.business_window {
            windows = windows.business_window(consumer, *retain);
        }
        for (consumer, redelivery) in &self.redelivery {
            windows = match consumer {
                Some(consumer) => windows.redelivery(consumer, *redelivery),
                None => windows.default_redelivery(*redelivery),
            };
        }
        windows
            .check()
            .map_err(|invalid| Failure::usage(invalid.to_string()))?;
        Ok(windows)
    }

    /// The consumers that are named.
    pub(crate) fn consumers(&self) -> impl Iterator<Item = &str> {
        let windows = self.window.iter().chain(&self.business_window);
        let redelivery = self
            .redelivery
            .iter()
            .filter_map(|(name, _)| name.as_deref());
        windows.map(|(name, _)| name.as_str()).chain(redelivery)
    }

    fn every_window_has_its_redelivery(&self) -> Result<(), Failure> {
        let has_default = self.redelivery.iter().any(|(name, _)| name.is_none());
        let is_covered = |consumer: &str| {
            has_default
                || self
                    .redelivery
                    .iter()
                    .any(|(name, _)| name.as_deref() == Some(consumer))
        };
        let default = self
            .retain
            .map(|retain| ("--retain ".to_owned(), None, retain));
        let named = |option: &'static str, list: &[(String, Retain)]| {
            list.iter()
                .map(|(name, retain)| (format!("--{option} {name}="), Some(name.clone()), *retain))
                .collect::<Vec<_>>()
        };
        let all = default
            .into_iter()
            .chain(named("window", &self.window))
            .chain(named("business-window", &self.business_window));
        for (option, consumer, retain) in all {
            let is_covered = consumer.as_deref().map_or(has_default, is_covered);
            if retain != Retain::Forever && !is_covered {
                return Err(Failure::usage(format!(
                    "{option}{retain}: nothing says how long the broker may redeliver, so that nobody can tell whether claims are kept \
                     long enough; a message that is redelivered after its claim is gone runs a second time"
                ))
                .remedy("add `--redelivery 4d`, with the longest time after which a message may still come again"));
            }
        }
        Ok(())
    }
}

/// `billing=30d`. Names may hold `=`, and windows do not.
fn of_consumer(text: &str) -> Result<(String, Retain), String> {
    match text.rsplit_once('=') {
        Some((consumer, window)) if !consumer.is_empty() => {
            let window = window.parse().map_err(|fault: idem::InvalidRetain| fault.to_string())?;
            Ok((consumer.to_owned(), window))
        }
        _ => Err(
            "a window of one consumer is `CONSUMER=WINDOW`, as in `billing=30d`; for all others there is `--retain`"
                .to_owned(),
        ),
    }
}

fn redelivery(text: &str) -> Result<(Option<String>, Duration), String> {
    match text.rsplit_once('=') {
        Some((consumer, time)) if !consumer.is_empty() => {
            Ok((Some(consumer.to_owned()), duration::time(time)?))
        }
        _ => Ok((None, duration::time(text)?)),
    }
}
