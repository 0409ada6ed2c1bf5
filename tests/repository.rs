//! The repository checks itself: versions agree, documents are true, files stay small, and the library brings no crates of its own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .current_dir(root())
        .args(arguments)
        .args(["--offline", "--locked"])
        .output()
        .expect("cargo");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn packages() -> Vec<Value> {
    // What other platforms need was not downloaded.
    let rustc = Command::new("rustc").arg("-vV").output().expect("rustc");
    let version = String::from_utf8(rustc.stdout).unwrap();
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .unwrap();
    let arguments = [
        "metadata",
        "--format-version",
        "1",
        "--filter-platform",
        host,
    ];
    let metadata: Value = serde_json::from_str(&cargo(&arguments)).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn package<'p>(packages: &'p [Value], name: &str) -> &'p Value {
    packages
        .iter()
        .find(|package| package["name"] == name)
        .unwrap_or_else(|| panic!("{name} is among the packages"))
}

#[test]
fn the_oldest_rust_is_sqlxs() {
    let packages = packages();
    let sqlx = &package(&packages, "sqlx")["rust_version"];
    for ours in [
        "idem-sqlx",
        "idem-macros",
        "idem-runtime",
        "idem-duration",
        "idem-cli",
    ] {
        assert_eq!(&package(&packages, ours)["rust_version"], sqlx, "{ours}");
    }
    let minor = sqlx.as_str().unwrap().trim_end_matches(".0");
    assert!(read("README.md").contains(&format!("The oldest Rust is sqlx's: {minor}.")));
}

#[test]
fn versions_agree() {
    let packages = packages();
    let version = package(&packages, "idem-sqlx")["version"].as_str().unwrap();
    for ours in ["idem-macros", "idem-runtime", "idem-duration"] {
        assert_eq!(package(&packages, ours)["version"], version, "{ours}");
        let pinned = format!("{ours} = {{ version = \"={version}\"");
        assert!(read("Cargo.toml").contains(&pinned), "{pinned}");
    }
    assert!(read("CHANGELOG.md").contains(&format!("## [{version}]")));
    let minor = version.rsplit_once('.').unwrap().0;
    assert!(read("README.md").contains(&format!("idem-sqlx = \"{minor}\"")));
}

#[test]
fn the_readme_shows_the_table_that_migrate_creates() {
    let table = idem::sql::POSTGRES.replace("IF NOT EXISTS ", "");
    assert!(read("README.md").contains(table.trim()), "{table}");
}

#[test]
fn every_example_is_run_and_named() {
    let packages = packages();
    let targets = package(&packages, "idem-examples")["targets"]
        .as_array()
        .unwrap();
    let tests: String = fs::read_dir(root().join("tests"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("examples") && name.ends_with(".rs")
        })
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let documents = read("README.md") + &read("CHANGELOG.md");
    let examples: Vec<&str> = targets
        .iter()
        .map(|target| target["name"].as_str().unwrap())
        .collect();
    assert!(examples.len() >= 4, "{examples:?}");
    for example in examples {
        assert!(
            tests.contains(&format!("\"{example}\"")),
            "a test runs {example}"
        );
        assert!(documents.contains(example), "a document names {example}");
    }
}

#[test]
fn links_in_the_readme_lead_somewhere() {
    let readme = read("README.md");
    for link in readme.split("](").skip(1) {
        let link = &link[..link.find(')').unwrap()];
        if !link.starts_with("http") && !link.starts_with('#') {
            assert!(root().join(link).exists(), "{link}");
        }
    }
}

/// Each statement of the chapter names its test.
#[test]
fn the_tests_that_the_chapter_on_clusters_names_exist() {
    let mut files = Vec::new();
    sources(&root().join("tests"), &mut files);
    let tests: String = files
        .iter()
        .map(|file| fs::read_to_string(file).unwrap())
        .collect();
    let chapter = read("src/clusters.md");
    let is_test = |name: &&str| {
        let words = ["p1_", "p2_", "p3_", "p4_", "p5_", "limit_", "doctor_"];
        words.iter().any(|start| name.starts_with(start))
    };
    let named: Vec<&str> = chapter.split('`').filter(is_test).collect();
    assert!(named.len() >= 20, "{named:?}");
    for name in named {
        assert!(tests.contains(&format!("fn {name}(")), "{name}");
    }
}

/// What a user with `features = ["postgres"]` builds beyond sqlx.
#[test]
fn the_library_brings_no_crates_of_its_own() {
    let tree = cargo(&[
        "tree",
        "-p",
        "idem-sqlx",
        "--no-default-features",
        "--features",
        "postgres",
        "-e",
        "normal",
        "--prefix",
        "depth",
    ]);
    let allowed = [
        "idem-sqlx",
        "idem-macros",
        "idem-runtime",
        "idem-duration",
        // Has no dependencies, and lists the program's handlers.
        "inventory",
        "sqlx",
        "sqlx-core",
        "syn",
        "quote",
        "proc-macro2",
        "unicode-ident",
        "thiserror",
        "thiserror-impl",
    ];
    let mut below_sqlx: Option<usize> = None;
    let mut others = BTreeSet::new();
    for line in tree.lines() {
        let digits = line.chars().take_while(char::is_ascii_digit).count();
        let depth: usize = line[..digits].parse().unwrap();
        let name = line[digits..].split(' ').next().unwrap();
        if below_sqlx.is_some_and(|sqlx| depth > sqlx) {
            continue;
        }
        below_sqlx = matches!(name, "sqlx" | "sqlx-core").then_some(depth);
        if !allowed.contains(&name) {
            others.insert(name);
        }
    }
    assert!(tree.contains("sqlx-postgres"), "{tree}");
    assert!(
        !tree.contains("tokio v") && !tree.contains("rustls"),
        "no runtime, no TLS: {tree}"
    );
    assert_eq!(others, BTreeSet::new());
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_source_file_is_long() {
    let mut files = Vec::new();
    for directory in [
        "idem-macros/src",
        "idem-runtime/src",
        "idem-duration/src",
        "idem-cli/src",
        "src",
    ] {
        sources(&root().join(directory), &mut files);
    }
    assert!(files.len() > 15);
    for file in files {
        let lines = fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines <= 320, "{}: {lines} lines", file.display());
    }
}
