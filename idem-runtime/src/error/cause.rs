/// Why the table of claims or the transaction was not there, with the database's error if there was one.
///
/// It stands in the chain of sources for errors whose verdict differs from what the database's error alone would say, so that
/// [`is_transient`](crate::is_transient) finds it also behind `#[error(transparent)]`.
#[derive(Debug)]
pub struct Cause(pub(crate) Option<sqlx::Error>);

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Some(error) => error.fmt(f),
            None => f.write_str("the connection is no longer in the transaction"),
        }
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.as_ref().map(|error| error as _)
    }
}
