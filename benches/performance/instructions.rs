//! The processor's work on what grows with its input: instructions as valgrind counts them, which no load disturbs.
//!
//! Without valgrind this panics; name the other sections then.

use std::time::Duration;

use super::figures::{Figures, row};
use super::support::cli::{Home, Invocation};
use super::support::scene::Scene;

/// Under valgrind all takes some fifty times as long.
const DEADLINE: Duration = Duration::from_mins(5);

const LINES: u64 = 10_000;

pub(crate) async fn measure(figures: &mut Figures) {
    let mut rows = vec![row(["", "instructions"])];
    let mut count = |what: &str, instructions: u64| {
        rows.push(vec![what.to_owned(), thousands(instructions)]);
        instructions
    };
    let start = count("start (`version`)", of(Home::new().aicr(["version"])).await);
    let manifests = ["snapshot", "-n", "bench", "--dry-run=client"];
    let manifests = of(in_vacant_home().aicr(manifests)).await;
    count("to plan a run and show its manifests (`--dry-run=client`), start aside", manifests.saturating_sub(start));

    let plain = count("plain run, document of 15 KiB", run("success", "yaml").await);
    count("for each line of the log", run(&format!("logs-{LINES}"), "yaml").await.saturating_sub(plain) / LINES);
    for format in ["yaml", "json", "table"] {
        let (small, large) = (run("success", format).await, run("big-1MiB", format).await);
        count(&format!("for each KiB of the document, as {format}"), large.saturating_sub(small) / (1024 - 15));
    }

    figures.table(
        "Instructions",
        "What the processor does in user space, as valgrind counts it, on the paths that grow with their input. It \
         compares from day to day, whatever else the machine does.",
        rows,
    );
}

/// A home whose kubeconfig leads nowhere.
fn in_vacant_home() -> Home {
    Home::new().kubeconfig("{apiVersion: v1, kind: Config}")
}

async fn run(script: &str, format: &str) -> u64 {
    let scene = Scene::new("counted").await;
    of(scene.snapshot(script).args(["-o", "out", "--format", format])).await
}

/// The instructions of a command.
pub(crate) async fn of(command: Invocation) -> u64 {
    let counts = tempfile::NamedTempFile::new().unwrap();
    let file = format!("--callgrind-out-file={}", counts.path().display());
    let command = command.under(["valgrind", "--quiet", "--tool=callgrind", &file]);
    command.deadline(DEADLINE).run().await.code(0);
    let counts = std::fs::read_to_string(counts.path()).unwrap();
    let total = counts.lines().find_map(|line| line.strip_prefix("summary: ").or(line.strip_prefix("totals: ")));
    total.and_then(|total| total.trim().parse().ok()).expect("callgrind says a total")
}

/// `1,234,567`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let parts: Vec<&str> = digits.as_bytes().rchunks(3).rev().map(|part| str::from_utf8(part).unwrap()).collect();
    parts.join(",")
}
