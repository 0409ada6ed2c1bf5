//! From a URL to what sqlx connects with. What is in a URL may be a password, so that no message repeats it.

use std::fmt;
use std::str::FromStr;

use sqlx::mysql::MySqlConnectOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

use crate::args::Kind;
use crate::failure::Failure;

const FORMS: &str = "write postgres://USER:PASSWORD@HOST:PORT/DATABASE, mysql:// or mariadb:// likewise, or sqlite:PATH";

/// Where the database is, as messages name it.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    /// Host and port, or the file.
    pub(crate) place: String,
    pub(crate) user: Option<String>,
    pub(crate) database: Option<String>,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.database, &self.user) {
            (Some(database), _) | (None, Some(database)) => {
                write!(f, "`{database}` at {}", self.place)
            }
            (None, None) => write!(f, "`{}`", self.place),
        }
    }
}

pub(crate) enum Options {
    Postgres(PgConnectOptions),
    MySql(MySqlConnectOptions),
    Sqlite(SqliteConnectOptions),
}

/// The database that a URL is for, by its scheme.
pub(crate) fn kind(url: Option<&str>) -> Result<Kind, Failure> {
    let url = url.map(str::trim).filter(|url| !url.is_empty());
    let Some(url) = url else {
        return Err(Failure::usage("no database is given")
            .remedy(format!("set DATABASE_URL, or pass --url: {FORMS}")));
    };
    let Some((scheme, _)) = url.split_once(':') else {
        let what = "the database's URL has no scheme, so that nobody can tell which database it is";
        return Err(Failure::usage(what).remedy(format!(
            "{FORMS}; a file of SQLite needs `sqlite:` before its path"
        )));
    };
    // What other ecosystems write: jdbc:postgresql:, postgresql+asyncpg:, mysql2:.
    let (scheme, is_foreign) = match scheme.split_once('+') {
        Some((scheme, _)) => (scheme, true),
        None => (scheme, false),
    };
    let kind = match scheme.to_lowercase().as_str() {
        "postgres" | "postgresql" => Kind::Postgres,
        "mysql" | "mariadb" => Kind::Mysql,
        "sqlite" => Kind::Sqlite,
        "jdbc" => {
            let what = "this is a URL of Java's JDBC, whose user and password stand elsewhere";
            return Err(Failure::usage(what).remedy(FORMS));
        }
        // Before the colon there may be anything, a password included.
        unknown if is_name(unknown) => {
            let what = format!("no database is known by the URL's scheme `{unknown}:`");
            let nearest = match unknown {
                "mysql2" | "mysqlx" => "mysql://",
                "sqlite3" | "file" => "sqlite:",
                "psql" | "pg" | "pgsql" | "cockroachdb" => "postgres://",
                _ => return Err(Failure::usage(what).remedy(FORMS)),
            };
            return Err(Failure::usage(what).remedy(format!("write `{nearest}` instead")));
        }
        _ => return Err(Failure::usage("the database's URL has no scheme").remedy(FORMS)),
    };
    if is_foreign {
        let what = "the URL's scheme names a driver of another language after its `+`";
        return Err(Failure::usage(what).remedy(format!("write `{scheme}://` instead")));
    }
    Ok(kind)
}

fn is_name(scheme: &str) -> bool {
    scheme.len() <= 16 && scheme.chars().all(|c| c.is_ascii_alphanumeric())
}

pub(crate) fn parse(url: Option<&str>) -> Result<(Target, Options), Failure> {
    let kind = kind(url)?;
    let url = url.unwrap_or_default().trim();
    if kind == Kind::Sqlite {
        let options = SqliteConnectOptions::from_str(url).map_err(|fault| malformed(&fault))?;
        let target = Target {
            kind,
            place: options.get_filename().display().to_string(),
            user: None,
            database: None,
        };
        return Ok((target, Options::Sqlite(options)));
    }
    let Some((_, rest)) = url.split_once("://") else {
        return Err(Failure::usage("the database's URL lacks `//` after its scheme").remedy(FORMS));
    };
    check_password(rest)?;
    if kind == Kind::Postgres {
        let options = PgConnectOptions::from_str(url).map_err(|fault| malformed(&fault))?;
        let options = match options.get_application_name() {
            Some(_) => options,
            None => options.application_name("idem"),
        };
        let target = Target {
            kind,
            place: place(options.get_socket(), options.get_host(), options.get_port()),
            user: Some(options.get_username().to_owned()),
            database: options.get_database().map(str::to_owned),
        };
        Ok((target, Options::Postgres(options)))
    } else {
        let options = MySqlConnectOptions::from_str(url).map_err(|fault| malformed(&fault))?;
        if options.get_database().is_none() {
            let what = "the database's URL names a server and no database on it";
            return Err(
                Failure::usage(what).remedy("put its name at the end: mysql://HOST:3306/DATABASE")
            );
        }
        let target = Target {
            kind,
            place: place(options.get_socket(), options.get_host(), options.get_port()),
            user: Some(options.get_username().to_owned()),
            database: options.get_database().map(str::to_owned),
        };
        Ok((target, Options::MySql(options)))
    }
}

/// A `/`, `?` or `#` in a password ends the part of the URL that it stands in: what is behind would be taken for the database, and be shown.
fn check_password(rest: &str) -> Result<(), Failure> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    if behind.contains('@') && !authority.contains('@') {
        let what = "the database's URL has its `@` behind a `/`, `?` or `#`, so that the user, password and host cannot be told apart";
        return Err(Failure::usage(what).remedy(
            "in a password write `%2F` for `/`, `%3F` for `?`, `%23` for `#`, `%40` for `@` and `%25` for `%`",
        ));
    }
    Ok(())
}

fn place(socket: Option<&std::path::PathBuf>, host: &str, port: u16) -> String {
    match socket {
        Some(socket) => socket.display().to_string(),
        None => format!("{host}:{port}"),
    }
}

/// sqlx's own words may hold parts of the URL's parameters, and no password.
fn malformed(fault: &sqlx::Error) -> Failure {
    let why = match fault {
        sqlx::Error::Configuration(why) => why.to_string(),
        other => other.to_string(),
    };
    Failure::usage(format!("the database's URL cannot be read: {why}")).remedy(format!(
        "{FORMS}; in a password write `%2F` for `/`, `%3F` for `?`, `%23` for `#`, `%40` for `@` and `%25` for `%`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_url_is_said_and_its_password_is_not() {
        for (url, what) in [
            ("", "no database is given"),
            ("   ", "no database is given"),
            ("app-secret.db", "has no scheme"),
            ("/var/lib/secret/app.db", "has no scheme"),
            ("user:secret@host/db", "scheme `user:`"),
            ("mongodb://secret@h/db", "scheme `mongodb:`"),
            ("mysql2://u:secret@h/db", "scheme `mysql2:`"),
            ("jdbc:postgresql://h/db?password=secret", "JDBC"),
            ("postgresql+asyncpg://u:secret@h/db", "another language"),
            ("postgres:u:secret@h/db", "lacks `//`"),
            ("postgres://u:secret/secret@h/db", "cannot be told apart"),
            ("postgres://u:12?secret@h/db", "cannot be told apart"),
            ("postgres://u:12/secret@h/db", "cannot be told apart"),
            ("mysql://u:1#secret@h/db", "cannot be told apart"),
            ("postgres://u:secret@h:port/db", "cannot be read"),
            ("postgres://u:secret@h/db?sslmode=maybe", "cannot be read"),
            ("sqlite:app.db?mode=maybe", "cannot be read"),
            ("mysql://u:secret@h", "no database on it"),
        ] {
            let failure = parse(Some(url)).err().map(|failure| failure.to_string());
            let failure = failure.unwrap_or_default();
            assert!(failure.contains(what), "{url}: {failure}");
            assert!(failure.contains("hint: "), "{url}: {failure}");
            assert!(!failure.contains("secret"), "{url}: {failure}");
        }
    }

    #[test]
    fn urls_of_each_database_are_read() {
        for (url, kind, place) in [
            ("postgres://u:p%2Fw@h:1/db", Kind::Postgres, "h:1"),
            ("postgresql:///db?host=/run/pg", Kind::Postgres, "/run/pg"),
            ("mysql://u@h/db", Kind::Mysql, "h:3306"),
            ("mariadb://u:p@h/db", Kind::Mysql, "h:3306"),
            ("sqlite:app.db", Kind::Sqlite, "app.db"),
            ("sqlite:///var/app.db?mode=ro", Kind::Sqlite, "/var/app.db"),
        ] {
            let target = parse(Some(url)).map(|(target, _)| (target.kind, target.place));
            assert_eq!(target.ok(), Some((kind, place.to_owned())), "{url}");
        }
    }
}
