//! How long the plugin takes to start, beside kubectl.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use super::figures::{Figures, median};
use super::support::{
    built,
    cli::{self, Home},
};

/// Starts of each program, one program after the other: what starts right after kubectl has ended, even `true`, takes a
/// millisecond longer.
const STARTS: usize = 101;

pub(crate) fn measure(figures: &mut Figures) {
    let home = Home::new();
    let kubectl = built::kubectl();
    let starts =
        |program: &Path, arguments: &[&str]| median((0..STARTS).map(|_| time(&home, program, arguments)).collect());
    let (ours, theirs) = (starts(cli::plugin(), &["version"]), starts(&kubectl, &["version", "--client"]));
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
