//! The binary that is measured, and its size.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::figures::{Figures, in_mebibytes, mebibytes};
use super::support::cli;

/// Builds the binary as it is packaged. That which cargo builds for a benchmark has the features of the test bed's
/// dependencies in it. `KUBECTL_AICR_BINARY` names another, to compare with.
pub(crate) fn choose() {
    cli::use_plugin(std::env::var_os("KUBECTL_AICR_BINARY").map_or_else(build, PathBuf::from));
}

fn build() -> PathBuf {
    let mut build = Command::new(env!("CARGO"));
    build.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--release", "--locked", "--bin", "kubectl-aicr"]);
    build.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let output = build.output().unwrap();
    assert!(output.status.success(), "cargo build: {}", output.status);
    let messages = str::from_utf8(&output.stdout).unwrap().lines();
    let executable = |message: &str| {
        let message: Value = serde_json::from_str(message).unwrap();
        message["executable"].as_str().map(PathBuf::from)
    };
    messages.filter_map(executable).next_back().expect("cargo names what it has built")
}

pub(crate) fn measure(figures: &mut Figures) {
    let bytes = fs::metadata(cli::plugin()).unwrap().len();
    figures.goal("binary", mebibytes(bytes), "8 MiB", in_mebibytes(bytes) <= 8.0, "60 MB");
}
