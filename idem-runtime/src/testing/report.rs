use std::fmt;

/// What a [`Proof`](super::Proof) has found. Its `Display` is meant for people: each step at which the handler differs, and what to do.
#[derive(Debug, Clone, Default)]
#[must_use = "a report that nobody reads proves nothing: call `assert()`"]
pub struct Report {
    pub(crate) steps: Vec<String>,
    pub(crate) findings: Vec<Finding>,
}

/// A step at which the handler did not do what it did at its first delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    step: String,
    what: String,
    advice: &'static str,
}

impl Report {
    /// Fails the test if there is a finding.
    ///
    /// # Panics
    ///
    /// With the report, if there is a finding.
    #[track_caller]
    pub fn assert(&self) {
        assert!(self.is_ok(), "{self}");
    }

    /// Whether nothing differs.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.findings.is_empty()
    }

    /// What differs, in the order of the steps.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// What was done, in its order.
    #[must_use]
    pub fn steps(&self) -> &[String] {
        &self.steps
    }

    pub(crate) fn found(&mut self, what: impl Into<String>, advice: &'static str) {
        self.findings.push(Finding {
            step: self.steps.last().cloned().unwrap_or_default(),
            what: what.into(),
            advice,
        });
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (steps, findings) = (self.steps.len(), self.findings.len());
        if self.is_ok() {
            return write!(f, "the handler has its effect once, in {steps} steps");
        }
        let plural = if findings == 1 { "" } else { "s" };
        writeln!(
            f,
            "the handler is not safe to redeliver: {findings} finding{plural} in {steps} steps"
        )?;
        // What several steps in a row have to say in the same words is said once, and explained where its kind comes first.
        let mut advised = Vec::new();
        for finding in &self.findings {
            writeln!(f, "\n- {finding}")?;
            if !advised.contains(&finding.advice) {
                writeln!(f, "  {}", finding.advice)?;
                advised.push(finding.advice);
            }
        }
        Ok(())
    }
}

impl Finding {
    /// What was done to the handler.
    #[must_use]
    pub fn step(&self) -> &str {
        &self.step
    }

    /// What came of it.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }

    /// What the usual cause is, and what to do about it.
    #[must_use]
    pub fn advice(&self) -> &str {
        self.advice
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.step, self.what)
    }
}

/// The lines in which two states differ: `credits: 10 -> 20`.
pub(crate) fn difference(before: &impl fmt::Debug, after: &impl fmt::Debug) -> String {
    let lines = |state: String| -> Vec<String> {
        let lines = state.lines().map(|line| line.trim().trim_end_matches(','));
        lines.map(str::to_owned).collect()
    };
    let (old, new) = (lines(format!("{before:#?}")), lines(format!("{after:#?}")));
    if old.len() != new.len() {
        return format!("{before:?} -> {after:?}");
    }
    let pairs = old.iter().zip(&new).filter(|(old, new)| old != new);
    let changes: Vec<String> = pairs
        .map(
            |(old, new)| match (old.split_once(": "), new.split_once(": ")) {
                (Some((field, old)), Some((same, new))) if field == same => {
                    format!("{field}: {old} -> {new}")
                }
                _ => format!("{old} -> {new}"),
            },
        )
        .collect();
    changes.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_the_field() {
        #[derive(Debug)]
        #[allow(dead_code, reason = "they are printed")]
        struct State {
            credits: i64,
            mails: Vec<&'static str>,
        }
        let state = |credits, mails: &[&'static str]| State {
            credits,
            mails: mails.to_vec(),
        };
        assert_eq!(difference(&10, &20), "10 -> 20");
        assert_eq!(difference(&(1, "a"), &(2, "a")), "1 -> 2");
        assert_eq!(
            difference(&state(10, &["x"]), &state(20, &["y"])),
            "credits: 10 -> 20, \"x\" -> \"y\""
        );
        assert_eq!(
            difference(&state(10, &[]), &state(10, &["y"])),
            "State { credits: 10, mails: [] } -> State { credits: 10, mails: [\"y\"] }"
        );
    }
}
