use sqlx::Pool;

use super::claim;
use crate::args::ClaimArgs;
use crate::database::Database;
use crate::failure::{Code, Failure};
use crate::report::Report;
use crate::store::Store;
use crate::terminal;

pub(super) async fn run<DB: Store>(
    pool: &Pool<DB>,
    database: &Database,
    args: &ClaimArgs,
) -> Result<Report, Failure> {
    let found = claim::find(pool, database, args).await?;
    if found.claims.is_empty() {
        terminal::note(claim::not_found(&found));
        return Ok(Report::new("", &found)?.code(Code::No));
    }
    Report::new(claim::text(&found), &found)
}
