/// The isolation level of a delivery's transaction.
///
/// Every level keeps the promises. A higher one protects what the handler itself reads and decides on; then conflicts surface as transient
/// errors, which `retries` (or [`retry`](crate::retry)) runs again. PostgreSQL treats READ UNCOMMITTED as READ COMMITTED
/// (<https://www.postgresql.org/docs/current/transaction-iso.html>). SQLite's transactions are serializable whatever is asked
/// (<https://www.sqlite.org/isolation.html>).
///
/// A transaction of yours has its level already: a delivery that asks for one cannot join it on PostgreSQL and MySQL, and fails with
/// [`Error::Isolation`](crate::Error::Isolation).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// READ UNCOMMITTED
    ReadUncommitted,
    /// READ COMMITTED
    ReadCommitted,
    /// REPEATABLE READ
    RepeatableRead,
    /// SERIALIZABLE
    Serializable,
}
