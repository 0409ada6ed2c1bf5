use crate::harm::Conduct;

/// Why it came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("delivery failed: {0}")]
    Delivery(#[from] idem::Error),
    #[error("database failed: {0}")]
    Database(#[from] sqlx::Error),
    #[error("the body failed on purpose")]
    OnPurpose,
    #[error("a duplicate was given the value {0}, which its message never had")]
    WrongReplay(i64),
    #[error("a duplicate was given no value")]
    NoReplay,
}

impl Fault {
    /// A short name of its class.
    pub(crate) fn class(&self) -> String {
        let sqlx = |error: &sqlx::Error| match error {
            sqlx::Error::Database(error) => {
                let number = error
                    .try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>()
                    .map(|error| error.number().to_string());
                let code = number.or_else(|| error.code().map(Into::into));
                code.unwrap_or_default()
            }
            sqlx::Error::Io(_) => "Io".to_owned(),
            sqlx::Error::PoolTimedOut => "PoolTimedOut".to_owned(),
            other => format!("{other:?}").chars().take(40).collect(),
        };
        match self {
            Self::Delivery(idem::Error::Database { step, source }) => {
                format!("{step:?} {}", sqlx(source))
            }
            Self::Delivery(error) => {
                let name = format!("{error:?}");
                name.split(['(', ' ', '{'])
                    .next()
                    .unwrap_or_default()
                    .to_owned()
            }
            Self::Database(error) => format!("body {}", sqlx(error)),
            Self::OnPurpose => "on purpose".to_owned(),
            Self::WrongReplay(_) => "wrong replay".to_owned(),
            Self::NoReplay => "no replay".to_owned(),
        }
    }

    /// Whether the broker should deliver it again, as the library says.
    pub(crate) fn is_transient(&self) -> bool {
        idem::is_transient(self)
    }

    /// Whether a body that behaves so gets this.
    pub(crate) fn comes_of(&self, conduct: Conduct) -> bool {
        match self {
            Self::OnPurpose => conduct == Conduct::Fail,
            Self::Delivery(idem::Error::Aborted(_)) => conduct == Conduct::DropError,
            Self::Delivery(idem::Error::TransactionLost(_)) => {
                matches!(conduct, Conduct::RollBack | Conduct::DropError)
            }
            _ => false,
        }
    }

    /// Whether it may happen to a body that behaves so: what the broker is to deliver again may happen to all, but a transaction is lost
    /// by its body only.
    pub(crate) fn is_expected(&self, conduct: Conduct) -> bool {
        let is_lost = matches!(self, Self::Delivery(idem::Error::TransactionLost(_)));
        self.comes_of(conduct) || self.is_transient() && !is_lost
    }
}
