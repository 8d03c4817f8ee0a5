//! How fast and how small the plugin is, on a real control plane: `cargo bench`.
//!
//! It prints Markdown, and with `UPDATE_FIGURES=1` it also writes that to `docs/performance.md` and the summary to
//! `README.md`. Names of sections (`cargo bench -- start memory`) leave the others out. It takes some minutes after
//! building.
//!
//! Counts and sizes are exact, or nearly. Times say something only beside others of the same run.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark fails by panicking")]
#![allow(missing_docs, reason = "nobody links it")]
#![allow(unused_imports, reason = "the test bed offers more than a benchmark uses")]

mod binary;
mod figures;
mod instructions;
mod launcher;
mod memory;
mod orphans;
mod round_trips;
mod start;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::ffi::OsString;
use std::process::ExitCode;

use self::figures::{Figures, publish};

/// In the order in which they run: what fills the cluster comes last.
const SECTIONS: [&str; 6] = ["size", "start", "round-trips", "memory", "instructions", "orphans"];

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.next_if(|argument| argument == launcher::FLAG).is_some() {
        return launcher::main(arguments);
    }
    // Cargo adds flags of its own.
    let chosen: Vec<OsString> = arguments.filter(|argument| !argument.to_string_lossy().starts_with('-')).collect();
    if let Some(unknown) = chosen.iter().find(|name| !SECTIONS.iter().any(|section| section == name)) {
        eprintln!("error: there is no section {}; there are {}", unknown.display(), SECTIONS.join(", "));
        return ExitCode::from(2);
    }
    let due = SECTIONS.into_iter().filter(|section| chosen.is_empty() || chosen.iter().any(|name| name == section));
    binary::choose();
    publish(&measure(due), chosen.is_empty());
    ExitCode::SUCCESS
}

#[tokio::main(flavor = "current_thread")]
async fn measure(sections: impl Iterator<Item = &'static str>) -> Figures {
    let mut figures = Figures::default();
    for section in sections {
        eprintln!("measuring: {section}");
        match section {
            "size" => binary::measure(&mut figures),
            "start" => start::measure(&mut figures),
            "round-trips" => round_trips::measure(&mut figures).await,
            "memory" => memory::measure(&mut figures).await,
            "instructions" => instructions::measure(&mut figures).await,
            "orphans" => orphans::measure(&mut figures).await,
            other => unreachable!("no section is called {other}"),
        }
    }
    figures
}
