use std::fmt;

/// What [`doctor`](crate::doctor()) found, the worst first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// What is to be said; nothing, if all is well.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether there is no [`Severity::Error`] among the findings.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        let mut findings = self.findings.iter();
        findings.all(|finding| finding.severity != Severity::Error)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.findings.is_empty() {
            return f.write_str("nothing is wrong");
        }
        for (index, finding) in self.findings.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            finding.fmt(f)?;
        }
        Ok(())
    }
}

/// One thing that [`doctor`](crate::doctor()) found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The check, by the name that the table in the docs of [`doctor`](crate::doctor()) gives it.
    pub check: &'static str,
    /// What is wrong, and why it matters.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

impl Finding {
    pub(crate) fn error(
        check: &'static str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(Severity::Error, check, what, remedy)
    }

    pub(crate) fn warning(
        check: &'static str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(Severity::Warning, check, what, remedy)
    }

    #[cfg_attr(
        not(any(feature = "postgres", feature = "mysql")),
        allow(dead_code, reason = "these give rise to one")
    )]
    pub(crate) fn note(
        check: &'static str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(Severity::Note, check, what, remedy)
    }

    /// Claims that differ in the key may be equal in another index.
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    pub(crate) fn unique(indexes: &str) -> Self {
        Self::error(
            "primary-key",
            format!(
                "there are unique indexes beside the primary key ({indexes}): a new message that equals another one there fails, or is taken for its duplicate and lost"
            ),
            "drop them",
        )
    }

    /// The pruner compares it with the database's clock.
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    pub(crate) fn processed_at(kind: &str, wanted: &str) -> Self {
        Self::error(
            "columns",
            format!(
                "the column `processed_at` is of the type {kind}, and not {wanted}: the pruner may take claims inside their window, since times do not compare by the database's clock"
            ),
            "create the table anew from `idem schema`, and copy the claims",
        )
    }

    fn new(
        severity: Severity,
        check: &'static str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            severity,
            check,
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} [{}]: {}\n  remedy: {}",
            self.severity, self.check, self.what, self.remedy
        )
    }
}

/// How bad a [`Finding`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Messages fail, or may be lost or applied twice.
    Error,
    /// It will be trouble.
    Warning,
    /// Good to know.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}
