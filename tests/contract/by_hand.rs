//! The attribute's arguments without the attribute: `Delivery::once` and `Delivery::claim`.

use super::*;

/// The ways to ask for what an argument of the attribute asks for; the promises are the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Way {
    /// The attribute with the argument.
    Attribute,
    /// `Delivery::once`.
    Once,
    /// `Delivery::claim`.
    Claim,
}

pub(crate) const WAYS: [Way; 3] = [Way::Attribute, Way::Once, Way::Claim];

impl Way {
    /// Delivers on these terms to a body of one effect; the attribute has a handler of its own in each file.
    pub(crate) async fn deliver<'c>(
        self,
        source: impl idem::Source<'c, Database = Db>,
        delivery: Delivery<'_>,
        message: &str,
        body: Body,
    ) -> Result<Outcome<u64>, Fail> {
        if self == Way::Once {
            return delivery
                .once(source, async |tx: &mut Conn| {
                    effect(tx, message).await?;
                    body.end()
                })
                .await;
        }
        match delivery.claim(source).await? {
            Claimed::Fresh(mut claim) => {
                let done = effect(&mut claim, message).await.map_err(Fail::from);
                match done.and_then(|()| body.end()) {
                    Ok(value) => {
                        claim.commit().await?;
                        Ok(Outcome::Processed(value))
                    }
                    Err(error) => {
                        claim.rollback().await;
                        Err(error)
                    }
                }
            }
            Claimed::Duplicate => Ok(Outcome::Duplicate),
            Claimed::Stale => Ok(Outcome::Stale),
            Claimed::Replayed(_) => unreachable!("not asked for"),
        }
    }
}
