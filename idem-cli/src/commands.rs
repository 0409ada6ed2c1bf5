mod claim;
mod completions;
mod doctor;
mod forget;
mod man;
mod migrate;
mod partitions;
mod prune;
mod schema;
mod show;
mod status;

use crate::args::{Cli, Command};
use crate::database::{Database, with_pool};
use crate::failure::Failure;
use crate::report::Report;

pub(crate) async fn run(cli: Cli) -> Result<Report, Failure> {
    // What needs no database comes first.
    match &cli.command {
        Command::Schema {
            database,
            by_day,
            upgrade,
            archive,
        } => {
            let part = schema::Part::of(*by_day, *upgrade, *archive);
            return schema::run(*database, part, cli.global.url.as_deref());
        }
        Command::Completions { shell } => return completions::run(*shell),
        Command::Man { directory } => return man::run(directory.as_deref()),
        Command::Prune(args) => prune::check(args)?,
        Command::Doctor { windows } => drop(windows.windows()?),
        Command::Show(args) | Command::Forget { claim: args, .. } => claim::check(args)?,
        _ => {}
    }
    let database = Database::connect(&cli.global).await?;
    let answer = with_pool!(database, pool => match cli.command {
        Command::Migrate { by_day } => migrate::run(pool, &database, by_day).await,
        Command::Status { exact, estimate } => {
            status::run(pool, &database, status::Effort::of(exact, estimate)).await
        }
        Command::Show(args) => show::run(pool, &database, &args).await,
        Command::Forget { claim, yes } => forget::run(pool, &database, &claim, yes).await,
        Command::Prune(args) => prune::run(pool, &database, &args).await,
        Command::Partitions { action, retain, ahead } => {
            partitions::run(&database, action, retain, ahead).await
        }
        Command::Doctor { windows } => doctor::run(pool, &database, &windows).await,
        // Answered above.
        Command::Schema { .. } | Command::Completions { .. } | Command::Man { .. } => {
            Report::new("", &())
        }
    });
    database.close().await;
    answer
}
