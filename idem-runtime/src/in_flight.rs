use std::time::Duration;

/// What a delivery does when another worker is still processing the same message.
///
/// The wait ends with the other worker's verdict: after its commit this delivery is a duplicate, after its rollback it takes over. When the
/// wait takes too long, the delivery fails with [`Error::InFlight`](crate::Error::InFlight), which is transient.
///
/// | | PostgreSQL | MySQL, MariaDB | SQLite |
/// |---|---|---|---|
/// | how the wait is bounded | `lock_timeout`, within the claim's statement | `innodb_lock_wait_timeout`, in two statements more | `busy_timeout`, around BEGIN and the claim |
/// | resolution | 1 ms | whole seconds, rounded up; on MySQL (not MariaDB) at least one | 1 ms |
/// | what is waited for | this message | this message | any writer, since there is one at a time |
///
/// Any other lock that the claim's statement would wait for counts as well; that is rare, and the error as transient. In a batch the bound is for
/// each of its messages. Nothing is left set: the handler's own statements wait as long as the session says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum InFlight {
    /// Waits as long as the session allows: its `lock_timeout` on PostgreSQL, or ten seconds where it sets none;
    /// `innodb_lock_wait_timeout` on MySQL and MariaDB (50 seconds unless configured); `busy_timeout` on SQLite (5 seconds in sqlx).
    #[default]
    Wait,
    /// Fails at once.
    Fail,
    /// Waits so long at most. Less than a millisecond counts as one, and more than 24 days as that.
    Within(Duration),
}

impl InFlight {
    /// For the attribute, which has parsed the duration.
    #[doc(hidden)]
    #[must_use]
    pub const fn within_ms(milliseconds: u64) -> Self {
        Self::Within(Duration::from_millis(milliseconds))
    }

    #[cfg_attr(
        not(any(feature = "postgres", feature = "mysql", feature = "sqlite")),
        allow(dead_code, reason = "a database asks for it")
    )]
    /// The bound in milliseconds, if there is one: 0 to fail at once.
    pub(crate) fn milliseconds(self) -> Option<i32> {
        match self {
            Self::Wait => None,
            Self::Fail => Some(0),
            // The databases keep it in an `int`.
            Self::Within(bound) => {
                Some(i32::try_from(bound.as_millis()).unwrap_or(i32::MAX).max(1))
            }
        }
    }
}
