use std::fmt::Write;
use std::io::IsTerminal as _;
use std::time::Duration;

use idem::{Pruned, Pruner};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::store::Store;
use crate::terminal;
use crate::text;

/// A bar on stderr where somebody watches, and nothing elsewhere.
#[derive(Clone)]
pub(super) struct Progress(Option<ProgressBar>);

/// Longer than this nobody wants to wait for a bar to know its length.
const COUNTING: Duration = Duration::from_secs(3);

impl Progress {
    pub(super) async fn start<DB: Store>(pruner: &Pruner<DB>) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::new_spinner().with_message("counting what is past its window");
        bar.enable_steady_tick(Duration::from_millis(100));
        // What goes wrong here goes wrong again in the run, which says so.
        let due = tokio::time::timeout(COUNTING, pruner.preview()).await;
        let total = match due {
            Ok(Ok(due)) => Some(due.iter().map(|due| due.claims).sum()),
            _ => None,
        };
        bar.set_message("");
        if let Some(total) = total {
            bar.set_length(total);
        }
        let template = match total {
            Some(_) => {
                "pruning [{bar:30}] {human_pos}/{human_len} claims  {rate}/s  {eta} left {msg}"
            }
            None => "pruning {spinner} {human_pos} claims  {rate}/s {msg}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            let style = style.with_key("rate", |state: &ProgressState, out: &mut dyn Write| {
                write!(out, "{}", text::number(rounded(state.per_sec()))).ok();
            });
            bar.set_style(style.progress_chars("=> "));
        }
        Self(Some(bar))
    }

    pub(super) fn show(&self, pruned: &Pruned) {
        if let Some(bar) = &self.0 {
            // Some may have become due since they were counted.
            if bar.length().is_some_and(|length| length < pruned.claims) {
                bar.set_length(pruned.claims);
            }
            bar.set_position(pruned.claims);
        }
    }

    pub(super) fn note(&self, note: &'static str) {
        match &self.0 {
            Some(bar) => bar.set_message(note),
            None => terminal::note(note),
        }
    }

    /// The totals take the bar's place.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate that is not negative, and far below the limit"
)]
fn rounded(rate: f64) -> u64 {
    rate.round() as u64
}
