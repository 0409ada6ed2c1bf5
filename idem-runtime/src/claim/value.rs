use super::Claim;
use crate::backend::Backend;
use crate::rows::Call;
use crate::terms::Places;
use crate::time::Day;
use crate::transaction;
use crate::{Error, InFlight, Replay};

/// What a claim's rows are found by, to store a value in them.
pub(crate) struct Names {
    consumer: String,
    /// As they are stored; none where a row is not of one message alone.
    plain: Vec<String>,
    by_day: Option<(String, Day)>,
}

impl Names {
    pub(crate) fn new(consumer: &str, places: &Places<'_>) -> Self {
        Self {
            consumer: consumer.to_owned(),
            plain: places.plain.iter().map(|key| (*key).to_owned()).collect(),
            by_day: places.by_day.map(|(key, day)| (key.to_owned(), day)),
        }
    }

    fn places(&self) -> Places<'_> {
        Places {
            plain: self.plain.iter().map(String::as_str).collect(),
            by_day: self.by_day.as_ref().map(|(key, day)| (key.as_str(), *day)),
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
        let places = self.names.places();
        if places.count() == 0 {
            return Err(Error::Combination(
                "the claim of a batch or of a version has no place for the value of one message; end it with `commit`",
            ));
        }
        let call = Call {
            consumer: &self.names.consumer,
            in_flight: InFlight::Wait,
            persistent: self.lease.persistent,
        };
        let conn = self.lease.connection();
        let storing = transaction::store::<DB>(conn, self.open, call, &places, &json);
        self.span.within(storing).await
    }
}
