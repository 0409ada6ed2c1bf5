/// What is behind an error whose verdict differs from what the database's error alone would say, with that error if there was one.
///
/// It stands in the chain of sources for [`is_transient`](crate::is_transient) to find also behind `#[error(transparent)]`, which leaves
/// the library's own error out of the chain. All of them are transient.
#[derive(Debug)]
pub struct Cause(Why);

#[derive(Debug)]
enum Why {
    Database(sqlx::Error),
    Said(&'static str),
}

impl Cause {
    pub(crate) fn no_transaction() -> Self {
        Self(Why::Said("the connection is no longer in the transaction"))
    }

    pub(crate) fn of_order() -> Self {
        Self(Why::Said("messages overtake each other"))
    }

    pub(crate) fn no_partition() -> Self {
        Self(Why::Said("the day has no partition"))
    }

    pub(crate) fn out_of_reach() -> Self {
        Self(Why::Said("the database was out of reach"))
    }
}

impl From<sqlx::Error> for Cause {
    fn from(error: sqlx::Error) -> Self {
        Self(Why::Database(error))
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Why::Database(error) => error.fmt(f),
            Why::Said(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            Why::Database(error) => Some(error),
            Why::Said(_) => None,
        }
    }
}
