use sqlx::Pool;

use super::RIGHTS;
use crate::args::PruneArgs;
use crate::database::Database;
use crate::failure::Failure;
use crate::store::{self, Store};
use crate::{terminal, text};

/// A slip in a name would leave the consumer that was meant to the default window, which may be shorter.
pub(super) async fn check<DB: Store>(
    pool: &Pool<DB>,
    shape: &store::Shape,
    database: &Database,
    args: &PruneArgs,
) -> Result<(), Failure> {
    const CONSUMERS: usize = 1000;
    let mut known = Vec::new();
    for table in shape.tables() {
        let names = DB::consumer_names(pool, table, CONSUMERS).await;
        known.extend(names.map_err(|error| database.explain(RIGHTS)(error.into()))?);
    }
    if known.len() >= CONSUMERS {
        return Ok(());
    }
    let unnamed: Vec<String> = known
        .iter()
        .filter(|name| args.windows.consumers().all(|named| named != name.as_str()))
        .cloned()
        .collect();
    for named in args.windows.consumers() {
        if known.iter().any(|name| name == named) {
            continue;
        }
        if let Some(meant) = text::nearest(named, &unnamed) {
            return Err(Failure::usage(format!(
                "the consumer `{}` has no claims, and `{}`, which is named nowhere, has: nothing is removed, since its claims may go too early",
                text::shown(named),
                text::shown(meant)
            ))
            .remedy(format!("write `{}` if you mean that one; if not, give it a window too", text::shown(meant))));
        }
        terminal::note(format_args!(
            "note: the consumer `{}` has no claims",
            text::shown(named)
        ));
    }
    Ok(())
}
