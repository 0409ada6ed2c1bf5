//! `prove` as its readers run it: one handler passes, and what is wrong with the others is named.
#![allow(clippy::expect_used, reason = "a test that cannot go on fails")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use idem_tests::examples::{build, text};

static PROVE: LazyLock<PathBuf> = LazyLock::new(|| build(&["prove", "--features", "prove"]));

#[test]
fn prove_tells_right_from_wrong() {
    let output = Command::new(&*PROVE).output().expect("it starts");
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    let (right, rest) = stdout.split_once("\n\ndrops_an_error: ").expect(stdout);
    let (drops_an_error, mails) = rest.split_once("\nmails: ").expect(stdout);
    assert!(
        right.starts_with("right: the handler has its effect once, in "),
        "{stdout}"
    );
    assert!(
        drops_an_error.contains("\n- write 2 refused by the database: statements: 1 -> 0\n"),
        "{stdout}"
    );
    assert_eq!(drops_an_error.matches("\n- ").count(), 1, "{stdout}");
    assert!(
        mails.contains("\n- failed before commit and redelivered: mails: 1 -> 2\n"),
        "{stdout}"
    );
    assert!(
        stderr.lines().all(|line| line.starts_with("ignored: ")),
        "{stderr}"
    );
}
