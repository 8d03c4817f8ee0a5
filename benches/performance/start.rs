//! How long the plugin takes to start, beside kubectl.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use super::figures::{Figures, median};
use super::support::{
    built,
    cli::{self, Home},
};

/// Starts of each program; they take turns.
const STARTS: usize = 101;

pub(crate) fn measure(figures: &mut Figures) {
    let home = Home::new();
    let kubectl = built::kubectl();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        ours.push(time(&home, cli::plugin(), &["version"]));
        theirs.push(time(&home, &kubectl, &["version", "--client"]));
    }
    let (ours, theirs) = (median(ours), median(theirs));
    figures.goal(
        "start, as a part of `kubectl version --client`'s time",
        format!("{:.2} ({:.1} ms of {:.0} ms)", ours / theirs, ours * 1e3, theirs * 1e3),
        "3 ms",
        ours <= 3e-3,
        "21 ms",
    );
}

fn time(home: &Home, program: &Path, arguments: &[&str]) -> f64 {
    let mut command = std::process::Command::new(program);
    command.args(arguments).env_clear().env("HOME", home.path()).stdin(Stdio::null()).stdout(Stdio::null());
    let started = Instant::now();
    let status = command.status().unwrap();
    let seconds = started.elapsed().as_secs_f64();
    assert!(status.success(), "{}: {status}", program.display());
    seconds
}
