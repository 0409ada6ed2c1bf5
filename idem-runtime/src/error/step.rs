/// What the library was doing when the database failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Step {
    /// Taking a connection from the pool.
    Acquire,
    /// Opening the transaction or the savepoint.
    Begin,
    /// Inserting the claim.
    Claim,
    /// Storing the handler's value for `replay`.
    Store,
    /// Sealing and committing.
    Commit,
    /// Creating or upgrading the table.
    Migrate,
    /// Removing old claims.
    Prune,
    /// Creating, listing or dropping days of the table by days.
    Days,
    /// Looking at the tables, for [`doctor`](crate::doctor()).
    Doctor,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Step::Acquire => "could not take a connection from the pool",
            Step::Begin => "could not begin the delivery's transaction",
            Step::Claim => "could not claim the message",
            Step::Store => "could not store the handler's value, and the delivery is rolled back",
            Step::Commit => "could not commit the delivery's transaction, which is rolled back",
            Step::Migrate => "could not create or upgrade the table `processed_messages`",
            Step::Prune => "could not remove old claims",
            Step::Days => "could not keep the days of the table `processed_messages_by_day`",
            Step::Doctor => "could not look at the tables of claims",
        })
    }
}
