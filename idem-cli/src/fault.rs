//! What a database's error means to an operator, by its code.

use std::error::Error;
use std::io::ErrorKind;
use std::path::Path;

use sqlx::error::DatabaseError;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::postgres::PgDatabaseError;
use sqlx::sqlite::SqliteError;

use crate::args::Kind;
use crate::failure::{Code, Failure};
use crate::url::Target;

/// As far as the operator's next step differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Login,
    NoDatabase,
    TooMany,
    NotReady,
    NoTable,
    NotAllowed,
    ReadOnly,
    Locked,
    NotADatabase,
    Other,
}

/// PostgreSQL's own words end in a line of its source, which is nobody's here.
fn words(error: &dyn DatabaseError) -> String {
    match error.try_downcast_ref::<PgDatabaseError>() {
        Some(error) => format!("{} ({})", error.message(), error.code()),
        None => error.to_string(),
    }
}

const TLS: &str = "`?sslrootcert=FILE` (MySQL: `ssl-ca`) in the URL names your own CA; `?sslmode=` (MySQL: `ssl-mode`) says how strict to be; \
             an `idem` built without its feature `tls` has none";

/// Why no connection came about.
pub(crate) fn of_connecting(error: &sqlx::Error, target: &Target) -> Failure {
    let (name, place) = (target.kind.name(), &target.place);
    let failure = |what: String| Failure::new(Code::NoConnection, what);
    match error {
        sqlx::Error::Io(io) => of_io(io, target),
        sqlx::Error::Tls(why) => {
            failure(format!("{name} at {place}: TLS failed: {why}")).remedy(TLS)
        }
        sqlx::Error::Database(error) => of_refusal(&**error, target),
        sqlx::Error::Protocol(why) => failure(format!(
            "what answers at {place} does not speak as {name} does: {why}"
        ))
        .remedy("look at the URL's scheme and port"),
        other => failure(format!("{name} at {place}: {other}")),
    }
}

fn of_refusal(error: &dyn DatabaseError, target: &Target) -> Failure {
    let (name, place) = (target.kind.name(), &target.place);
    let user = target.user.as_deref().unwrap_or_default();
    let database = target.database.as_deref().unwrap_or(user);
    let failure = |what: String| Failure::new(Code::NoConnection, what);
    let why = words(error);
    match fault(error) {
            Fault::Login => failure(format!("{name} at {place} refuses the user `{user}`: {why}"))
                .remedy("correct user and password in --url or DATABASE_URL (in a password, `@` is written `%40`, `/` `%2F`)"),
            Fault::NoDatabase => failure(format!("{name} at {place} has no database `{database}`: {why}"))
                .remedy("correct the name at the end of the URL, or create the database"),
            Fault::NotAllowed if target.kind != Kind::Sqlite => failure(format!(
                "{name} at {place} does not let the user `{user}` into the database `{database}`: {why}"
            ))
            .remedy("correct the URL, or let an administrator grant it"),
            Fault::TooMany => failure(format!("{name} at {place} takes no more connections: {why}"))
                .remedy("close some, or wait; `idem` needs up to three"),
            Fault::NotReady => failure(format!("{name} at {place} is starting up or shutting down: {why}"))
                .remedy("wait a moment"),
            Fault::NotADatabase => failure(format!("`{place}` is no database of SQLite: {why}"))
                .remedy("correct the path in --url or DATABASE_URL"),
            _ if target.kind == Kind::Sqlite && !Path::new(place).exists() => failure(format!("there is no file `{place}`: {why}")).remedy(
                "correct the path in --url or DATABASE_URL; with `?mode=rwc` behind it, the file is created",
            ),
            _ if target.kind == Kind::Sqlite => failure(format!("SQLite cannot open `{place}`: {why}")).remedy(
                "give yourself the right to read and write the file and its directory, or correct the path in --url or DATABASE_URL",
            ),
            _ => failure(format!("{name} at {place}: {why}")),
    }
}

fn of_io(error: &std::io::Error, target: &Target) -> Failure {
    let (name, place) = (target.kind.name(), &target.place);
    let failure = |what| Failure::new(Code::NoConnection, what);
    match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::NotFound => {
            failure(format!("no {name} answers at {place}: {error}"))
                .remedy("start it, or correct host and port in --url or DATABASE_URL")
        }
        ErrorKind::UnexpectedEof
        | ErrorKind::BrokenPipe
        | ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted => failure(format!(
            "what answers at {place} does not speak as {name} does, or hung up: {error}"
        ))
        .remedy("look at the URL's scheme and port, and at the server's log"),
        // Certificates, and what is no TLS at all.
        ErrorKind::InvalidData => failure(format!(
            "no trust could be set up with {name} at {place}: {error}"
        ))
        .remedy(TLS),
        // A name that cannot be looked up has no kind of its own.
        _ => failure(format!("{name} at {place} cannot be reached: {error}"))
            .remedy("correct host and port in --url or DATABASE_URL"),
    }
}

/// Why a statement failed, which needs these rights.
pub(crate) fn explain(
    error: &(dyn Error + 'static),
    target: &Target,
    rights: &'static str,
) -> Failure {
    // The cause, if the library has put words of its own before it.
    let found = chain(error).find_map(|error| error.downcast_ref::<sqlx::Error>());
    let database = chain(error).find_map(|error| error.downcast_ref::<Box<dyn DatabaseError>>());
    let database = match found {
        Some(sqlx::Error::Database(error)) => Some(error),
        _ => database,
    };
    let Some(database) = database else {
        return match found {
            Some(sqlx::Error::Io(io)) => of_io(io, target),
            Some(sqlx::Error::PoolTimedOut) => Failure::new(
                Code::NoConnection,
                "the database gave no further connection in time",
            )
            .remedy("`idem` needs up to three; --connect-timeout waits longer"),
            _ => Failure::new(Code::Failed, in_full(error)),
        };
    };
    let who = match &target.user {
        Some(user) => format!("the user `{user}`"),
        None => format!("`{}`", target.place),
    };
    let why = words(&**database);
    match fault(&**database) {
        Fault::NotAllowed if target.kind == Kind::Sqlite => {
            Failure::new(Code::NotAllowed, format!("{who} may not be changed: {why}")).remedy(READ_ONLY_FILE)
        }
        Fault::NotAllowed => Failure::new(Code::NotAllowed, format!("{who} may not do this: {why}"))
            .remedy(format!("this command needs {rights}; let the table's owner or an administrator grant it, or do it")),
        Fault::ReadOnly if target.kind == Kind::Sqlite => {
            Failure::new(Code::NotAllowed, format!("{who} cannot be written: {why}")).remedy(READ_ONLY_FILE)
        }
        Fault::ReadOnly => Failure::new(Code::NotAllowed, format!("the server at {} is read-only: {why}", target.place))
            .remedy("connect to the primary; or, if the user's transactions are read-only by default, to another user"),
        Fault::NoTable => Failure::new(Code::NoTable, format!("a table or column is missing: {why}"))
            .remedy("run `idem migrate`"),
        Fault::Locked => Failure::new(Code::Busy, format!("somebody else holds what this needs: {why}"))
            .remedy("nothing was changed; try again in a moment"),
        Fault::TooMany | Fault::NotReady | Fault::Login | Fault::NoDatabase => {
            let what = format!("{} at {}: {why}", target.kind.name(), target.place);
            Failure::new(Code::NoConnection, what)
        }
        Fault::NotADatabase => Failure::new(
            Code::NoConnection,
            format!("`{}` is no database of SQLite: {why}", target.place),
        )
        .remedy("correct the path in --url or DATABASE_URL"),
        Fault::Other => Failure::new(Code::Failed, in_full(error)),
    }
}

const READ_ONLY_FILE: &str = "give yourself the right to write the file and its directory, and take `mode=ro` and `immutable` out of the URL";

/// An error with its causes, each once.
fn in_full(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    for cause in chain(error).map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn chain<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (**error).source())
}

fn fault(error: &dyn DatabaseError) -> Fault {
    if let Some(error) = error.try_downcast_ref::<PgDatabaseError>() {
        of_postgres(error)
    } else if let Some(error) = error.try_downcast_ref::<MySqlDatabaseError>() {
        of_mysql(error)
    } else if let Some(error) = error.try_downcast_ref::<SqliteError>() {
        of_sqlite(error)
    } else {
        Fault::Other
    }
}

/// <https://www.postgresql.org/docs/current/errcodes-appendix.html>
fn of_postgres(error: &PgDatabaseError) -> Fault {
    match error.code() {
        // invalid_authorization_specification (no such role, or pg_hba.conf), invalid_password
        "28000" | "28P01" => Fault::Login,
        "3D000" => Fault::NoDatabase,
        "53300" => Fault::TooMany,
        "57P01" | "57P02" | "57P03" => Fault::NotReady,
        "42P01" | "42703" | "3F000" => Fault::NoTable,
        "42501" => Fault::NotAllowed,
        "25006" => Fault::ReadOnly,
        // lock_not_available; the statement was cancelled by a time-out; deadlock
        "55P03" | "57014" | "40P01" | "40001" => Fault::Locked,
        _ => Fault::Other,
    }
}

/// <https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html>
fn of_mysql(error: &MySqlDatabaseError) -> Fault {
    match error.number() {
        1045 | 1698 | 1862 | 3118 | 4151 => Fault::Login,
        1049 => Fault::NoDatabase,
        1040 | 1203 | 1226 => Fault::TooMany,
        1053 => Fault::NotReady,
        1146 | 1054 => Fault::NoTable,
        1044 | 1142 | 1143 | 1227 | 1370 => Fault::NotAllowed,
        1290 | 1792 | 1836 => Fault::ReadOnly,
        1205 | 1213 | 3572 => Fault::Locked,
        _ => Fault::Other,
    }
}

/// The low byte is the code, the rest says more: <https://www.sqlite.org/rescode.html>
fn of_sqlite(error: &SqliteError) -> Fault {
    let code = DatabaseError::code(error).and_then(|code| code.parse::<i32>().ok());
    match code.map(|code| code & 0xff) {
        // SQLITE_PERM, SQLITE_AUTH
        Some(3 | 23) => Fault::NotAllowed,
        // SQLITE_BUSY, SQLITE_LOCKED
        Some(5 | 6) => Fault::Locked,
        Some(8) => Fault::ReadOnly,
        Some(26) => Fault::NotADatabase,
        _ => Fault::Other,
    }
}
