//! No connection: each cause has its message, and exit code 3.

use std::io::Write as _;
use std::net::TcpListener;

use tempfile::TempDir;

use crate::db::Db;
use crate::run::run;

/// The server's part of a URL: user, host and port.
fn server(url: &str) -> (String, String) {
    let (scheme, rest) = url.split_once("://").unwrap();
    let authority = rest.split(['/', '?']).next().unwrap();
    let address = authority.rsplit('@').next().unwrap();
    (scheme.to_owned(), address.to_owned())
}

fn fails(url: &str, parts: &[&str]) {
    for command in [&["status"][..], &["migrate", "--json"], &["doctor"]] {
        let arguments = [command, &["--url", url, "--connect-timeout", "1s"]].concat();
        run(&arguments).fails(3, parts);
    }
}

#[test]
fn nobody_listens() {
    // Nobody else gets the port while it is bound, and nobody listens once it is not.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    for (scheme, name) in [
        ("postgres", "PostgreSQL"),
        ("mysql", "MySQL or MariaDB"),
        ("mariadb", "MySQL or MariaDB"),
    ] {
        let url = format!("{scheme}://u:geheim@{address}/db");
        let what = format!("no {name} answers at {address}");
        fails(&url, &[&what, "hint: start it, or correct host and port"]);
    }
    let socket = "postgres://u:geheim@%2Fnowhere/db";
    fails(socket, &["no PostgreSQL answers at /nowhere"]);
}

#[test]
fn no_such_host() {
    for scheme in ["postgres", "mysql"] {
        let url = format!("{scheme}://u:geheim@nowhere.invalid/db");
        fails(
            &url,
            &[
                "nowhere.invalid",
                "cannot be reached",
                "correct host and port",
            ],
        );
    }
}

#[test]
fn somebody_listens_and_does_not_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    for scheme in ["postgres", "mysql"] {
        let url = format!("{scheme}://u:geheim@{address}/db");
        let address = address.to_string();
        fails(
            &url,
            &[&address, "has not answered in 1s", "--connect-timeout"],
        );
    }
}

#[test]
fn something_else_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // Whoever wants to hear something else has hung up.
            stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").ok();
        }
    });
    let url = format!("postgres://u:geheim@{address}/db");
    fails(
        &url,
        &["does not speak as PostgreSQL does", "scheme and port"],
    );
}

#[tokio::test]
async fn wrong_login() {
    for (db, name) in [
        (Db::postgres().await, "PostgreSQL"),
        (Db::mysql().await, "MySQL or MariaDB"),
    ] {
        let (scheme, address) = server(&db.url);
        let url = format!("{scheme}://idem_nobody:geheim@{address}/postgres");
        let what = format!("{name} at {address} refuses the user `idem_nobody`");
        fails(&url, &[&what, "correct user and password"]);
    }
}

#[tokio::test]
async fn no_such_database() {
    for (db, user, name) in [
        (Db::postgres().await, "postgres", "PostgreSQL"),
        (Db::mysql().await, "root", "MySQL or MariaDB"),
    ] {
        let (scheme, address) = server(&db.url);
        let url = format!("{scheme}://{user}@{address}/idem_nowhere");
        let what = format!("{name} at {address} has no database `idem_nowhere`");
        fails(&url, &[&what, "correct the name at the end of the URL"]);
    }
}

#[test]
fn no_such_file() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("app.db");
    let file = path.display();
    let what = format!("there is no file `{file}`");
    fails(&format!("sqlite:{file}"), &[&what, "?mode=rwc"]);
    assert!(!path.exists(), "it was not created by the way");
    let nowhere = directory.path().join("nowhere/app.db");
    fails(
        &format!("sqlite:{}?mode=rwc", nowhere.display()),
        &["there is no file"],
    );
    std::fs::write(
        &path,
        "this is a letter, and no database, and it is long enough to have a header. ".repeat(20),
    )
    .unwrap();
    fails(
        &format!("sqlite:{file}"),
        &["is no database of SQLite", "correct the path"],
    );
}
