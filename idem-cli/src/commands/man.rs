use std::fs;
use std::path::Path;

use clap::CommandFactory as _;
use clap_mangen::Man;
use serde::Serialize;

use crate::args::Cli;
use crate::failure::{Code, Failure};
use crate::report::Report;

#[derive(Serialize)]
struct Page {
    name: String,
    /// Left out where it was written to a file.
    #[serde(skip_serializing_if = "String::is_empty")]
    text: String,
}

#[derive(Serialize)]
struct Document {
    pages: Vec<Page>,
}

/// The main page on stdout, or all of them into a directory.
pub(super) fn run(directory: Option<&Path>) -> Result<Report, Failure> {
    let failed = |error: std::io::Error| Failure::new(Code::Failed, error.to_string());
    let mut command = Cli::command();
    // Gives the subcommands their full names, and the options of every command.
    command.build();
    let mut pages = vec![page(&command, "idem").map_err(failed)?];
    let Some(directory) = directory else {
        let text = pages[0].text.clone();
        return Report::new(text, &Document { pages });
    };
    for subcommand in command.get_subcommands() {
        if subcommand.get_name() != "help" {
            let name = format!("idem-{}", subcommand.get_name());
            pages.push(page(subcommand, &name).map_err(failed)?);
        }
    }
    fs::create_dir_all(directory)
        .and_then(|()| {
            pages
                .iter()
                .try_for_each(|page| fs::write(directory.join(&page.name), &page.text))
        })
        .map_err(|error| {
            let what = format!("{} cannot be written: {error}", directory.display());
            Failure::new(Code::Failed, what).remedy("name a directory that you may write to")
        })?;
    let text = format!(
        "{} man pages written to {}",
        pages.len(),
        directory.display()
    );
    for page in &mut pages {
        page.text.clear();
    }
    Report::new(text, &Document { pages })
}

fn page(command: &clap::Command, name: &str) -> std::io::Result<Page> {
    let mut text = Vec::new();
    // A page is named as people look for it: `man idem-status`.
    let man = Man::new(command.clone().display_name(name.to_owned())).title(name);
    man.render(&mut text)?;
    Ok(Page {
        name: format!("{name}.1"),
        text: String::from_utf8(text).unwrap_or_default(),
    })
}
