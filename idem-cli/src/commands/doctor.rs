use std::fmt::Write as _;

use idem::Severity;
use serde::Serialize;
use sqlx::Pool;

use crate::args::WindowArgs;
use crate::database::Database;
use crate::failure::{Code, Failure};
use crate::report::Report;
use crate::store::Store;
use crate::terminal::Style;
use crate::text;

#[derive(Serialize)]
struct Document<'f> {
    /// No error among the findings.
    is_healthy: bool,
    findings: Vec<Finding<'f>>,
}

#[derive(Serialize)]
struct Finding<'f> {
    /// `error`, `warning` or `note`.
    severity: &'static str,
    check: &'f str,
    what: &'f str,
    remedy: &'f str,
}

const NO_WINDOWS: Finding<'static> = Finding {
    severity: "note",
    check: "windows",
    what: "the windows that the handlers of your program give are not known here, so that nothing is said of claims that should be gone",
    remedy: "pass them as to `idem prune`: `idem doctor --retain 7d --redelivery 4d`; or call `idem::doctor` in the program",
};

pub(super) async fn run<DB: Store>(
    pool: &Pool<DB>,
    database: &Database,
    windows: &WindowArgs,
) -> Result<Report, Failure> {
    let explain = database.explain("SELECT on processed_messages");
    let report = idem::doctor_with(pool, &windows.windows()?)
        .await
        .map_err(|error| explain(error.into()))?;
    let findings: Vec<Finding<'_>> = report
        .findings
        .iter()
        // Whether they have windows, the program knows.
        .filter(|finding| !windows.is_empty() || finding.check != "growth")
        .map(|finding| Finding {
            severity: severity(finding.severity),
            check: finding.check,
            what: &finding.what,
            remedy: &finding.remedy,
        })
        .chain(windows.is_empty().then_some(NO_WINDOWS))
        .collect();
    let mut out = String::new();
    for finding in &findings {
        let name = format!("{:<7}", finding.severity);
        let name = match finding.severity {
            "error" => Style::Red.paint(&name),
            "warning" => Style::Yellow.paint(&name),
            _ => Style::Bold.paint(&name),
        };
        let what = text::shown(finding.what);
        writeln!(out, "{name} {}: {what}", finding.check).ok();
        if !finding.remedy.is_empty() {
            writeln!(out, "        -> {}", text::shown(finding.remedy)).ok();
        }
    }
    if report.is_healthy() {
        out.push_str(&Style::Green.paint("healthy"));
        out.push_str(match findings.len() {
            0 => ": nothing found",
            _ => ": no error among these",
        });
    }
    let document = Document {
        is_healthy: report.is_healthy(),
        findings,
    };
    let code = if report.is_healthy() {
        Code::Done
    } else {
        Code::No
    };
    Ok(Report::new(out, &document)?.code(code))
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}
