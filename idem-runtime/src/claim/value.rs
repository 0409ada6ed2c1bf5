use super::Claim;
use crate::backend::Backend;
use crate::rows::Call;
use crate::transaction;
use crate::{Error, InFlight, Replay};

/// What a claim's rows are found by, to store a value in them.
pub(crate) struct Names {
    consumer: String,
    /// As they are stored; none where a row is not of one message alone.
    keys: Vec<String>,
}

impl Names {
    pub(crate) fn new(consumer: &str, keys: &[&str]) -> Self {
        Self {
            consumer: consumer.to_owned(),
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        }
    }
}

impl<DB: Backend> Claim<'_, DB> {
    /// As [`commit`](Claim::commit), and stores a value with the claim, for duplicates that ask for it: see
    /// [`Delivery::replaying`](crate::Delivery::replaying). Costs one statement more.
    ///
    /// # Errors
    ///
    /// As there, and [`Error::InvalidValue`]; [`Error::Combination`] for the claim of a batch or of a version, which has no place for the
    /// value of one message. The claim is rolled back then.
    pub async fn commit_with<T: Replay>(mut self, value: &T) -> Result<(), Error> {
        let stored = match value.encode() {
            Ok(json) => self.store(json).await,
            Err(invalid) => Err(invalid.into()),
        };
        match stored {
            Ok(()) => self.commit().await,
            Err(error) => {
                self.rollback().await;
                Err(error)
            }
        }
    }

    async fn store(&mut self, json: String) -> Result<(), Error> {
        if self.names.keys.is_empty() {
            return Err(Error::Combination(
                "the claim of a batch or of a version has no place for the value of one message; end it with `commit`",
            ));
        }
        let call = Call {
            consumer: &self.names.consumer,
            in_flight: InFlight::Wait,
            persistent: self.lease.persistent,
        };
        let keys: Vec<&str> = self.names.keys.iter().map(String::as_str).collect();
        let conn = self.lease.connection();
        let storing = transaction::store::<DB>(conn, self.open, call, &keys, &json);
        self.span.within(storing).await
    }
}
