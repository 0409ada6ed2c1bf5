/// What a run of the pruner came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// How many claims were removed from the plain table, business keys included.
    pub claims: u64,
    /// How many of these were business keys.
    pub business_keys: u64,
    /// In how many transactions.
    pub chunks: u64,
    /// How many claims went into the archive, those of dropped days included.
    pub archived: u64,
    /// How many days were created in the table by days.
    pub days_created: u32,
    /// How many days were dropped from it.
    pub days_dropped: u32,
    /// Whether the run ended early because another pruner is at work. Nothing is wrong then.
    pub is_busy: bool,
    /// Consumers that have claims and no window, so that theirs are kept for ever; those of this program whose claims are
    /// versions are left out.
    pub without_window: Vec<String>,
}

/// As in `removed 12 claims (2 business keys) in 1 chunks, 12 archived`.
impl std::fmt::Display for Pruned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "removed {} claims", self.claims)?;
        if self.business_keys > 0 {
            write!(f, " ({} business keys)", self.business_keys)?;
        }
        write!(f, " in {} chunks", self.chunks)?;
        for (count, what) in [
            (self.archived, "archived"),
            (self.days_dropped.into(), "days dropped"),
            (self.days_created.into(), "days created"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        if self.is_busy {
            f.write_str("; another pruner is at work")?;
        }
        if !self.without_window.is_empty() {
            write!(f, "; without a window: {}", self.without_window.join(", "))?;
        }
        Ok(())
    }
}

/// What a run would remove for one consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Due {
    /// The consumer.
    pub consumer: String,
    /// How many of its claims are past their window, business keys included.
    pub claims: u64,
    /// How many of these are business keys.
    pub business_keys: u64,
    /// When the oldest of them was made, in UTC, as in `2026-11-30T08:46:20.000000Z`.
    pub oldest: Option<String>,
}

#[cfg(any(feature = "mysql", feature = "sqlite"))]
impl Due {
    /// Adds to what is due for a consumer; nothing, if it is nothing.
    pub(crate) fn add(
        due: &mut Vec<Self>,
        consumer: String,
        are_business_keys: bool,
        claims: u64,
        oldest: Option<String>,
    ) {
        if claims == 0 {
            return;
        }
        let business_keys = if are_business_keys { claims } else { 0 };
        match due.last_mut().filter(|known| known.consumer == consumer) {
            Some(known) => {
                known.claims += claims;
                known.business_keys += business_keys;
                known.oldest = known.oldest.take().min(oldest);
            }
            None => due.push(Self {
                consumer,
                claims,
                business_keys,
                oldest,
            }),
        }
    }
}
