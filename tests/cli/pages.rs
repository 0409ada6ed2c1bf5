//! Completions, man pages, and what the README shows.

use std::process::Command;

use idem_tests::examples::text;
use tempfile::TempDir;

use crate::run::run;

#[test]
fn completions_are_there_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell]).done();
        assert!(script.contains("drop-expired"), "{shell}");
        let json = run(&["completions", shell, "--json"]).json();
        assert_eq!(json["shell"], shell);
        assert_eq!(json["script"], script);
    }
    // What the shell itself makes of it.
    let mut bash = Command::new("bash");
    let script = run(&["completions", "bash"]).done();
    let bash = bash.args(["-n", "-c", &script]).output().unwrap();
    assert!(bash.status.success(), "{}", text(&bash.stderr));
}

#[test]
fn man_pages_are_there_for_each_command() {
    let page = run(&["man"]).done();
    assert!(page.contains(".TH idem 1"), "{page}");
    assert!(page.contains("Exit codes"), "{page}");
    assert!(page.contains("idem\\-status(1)"), "{page}");
    let directory = TempDir::new().unwrap();
    let pages = directory.path().join("man1");
    let written = run(&["man", pages.to_str().unwrap()]).done();
    assert!(written.starts_with("11 man pages written to"), "{written}");
    for command in [
        "",
        "-schema",
        "-migrate",
        "-status",
        "-show",
        "-forget",
        "-prune",
        "-partitions",
        "-doctor",
        "-completions",
        "-man",
    ] {
        let page = std::fs::read_to_string(pages.join(format!("idem{command}.1"))).unwrap();
        assert!(
            page.contains(&format!(".TH idem{command} 1")),
            "{command}: {page}"
        );
    }
    let json = run(&["man", "--json"]).json();
    assert_eq!(json["pages"][0]["name"], "idem.1");
    let nowhere = run(&["man", "/dev/null/man1"]);
    nowhere.fails(8, &["/dev/null/man1 cannot be written", "hint: "]);
}

/// Each line is one that the program takes.
#[test]
fn the_readme_shows_commands_that_exist() {
    let readme = include_str!("../../README.md");
    let section = readme.split("## The command line\n").nth(1).unwrap();
    let block = section.split("```").nth(1).unwrap();
    let lines: Vec<&str> = block
        .lines()
        .filter_map(|line| line.strip_prefix("idem "))
        .map(|line| line.split('#').next().unwrap().trim())
        .collect();
    assert!(lines.len() >= 8, "{lines:?}");
    for line in lines {
        let mut arguments: Vec<&str> = line.split_whitespace().collect();
        // Read from left to right, so that what is wrong before it is told.
        arguments.push("--help");
        run(&arguments).done();
    }
}
