//! The most memory that a run takes, by the size of its document and the length of its log.

use super::figures::{Figures, in_mebibytes, mebibytes, row};
use super::launcher::launch;
use super::support::{cli::Home, scene::Scene};

/// Runs of each kind, of which the largest counts.
const RUNS: usize = 3;

/// The agent's scripts and what they are.
const DOCUMENTS: [(&str, &str); 3] =
    [("big-1KiB", "a document of 2 KiB"), ("big-100KiB", "a document of 100 KiB"), ("big-1MiB", "a document of 1 MiB")];
const LOGS: [(usize, &str); 3] = [(0, "no log lines"), (1_000, "1,000 log lines"), (100_000, "100,000 log lines")];

const GOAL: f64 = 12.0;

pub(crate) async fn measure(figures: &mut Figures) {
    let least = least().await;
    let mut rows = vec![row(["run with", "peak memory", "bytes of the document", "bytes of the log shown"])];
    for (script, name) in DOCUMENTS {
        let run = largest(script, 0).await;
        assert!(run.peak > least, "the launcher takes {least} bytes itself");
        rows.push(run.row(name));
        if script == "big-1MiB" {
            run.goal(figures, name);
        }
    }
    for (lines, name) in LOGS {
        let run = largest(&format!("logs-{lines}"), lines).await;
        rows.push(run.row(name));
        if lines == 100_000 {
            run.goal(figures, name);
        }
    }
    figures.table(
        "Memory",
        "The most memory that was resident at one time, the binary's own pages included; the largest of three runs.",
        rows,
    );
}

/// What a run took and gave.
struct Run {
    peak: u64,
    document: usize,
    log: usize,
}

impl Run {
    fn row(&self, name: &str) -> Vec<String> {
        vec![name.to_owned(), mebibytes(self.peak), self.document.to_string(), self.log.to_string()]
    }

    fn goal(&self, figures: &mut Figures, name: &str) {
        let met = in_mebibytes(self.peak) <= GOAL;
        figures.goal(format!("peak memory with {name}"), mebibytes(self.peak), format!("{GOAL} MiB"), met, "46 MiB");
    }
}

/// Of less memory than this the launcher cannot tell: it is its own.
async fn least() -> u64 {
    let (_, used) = launch(Home::new().program("true", [""; 0])).await;
    used.peak
}

async fn largest(script: &str, lines: usize) -> Run {
    let mut largest = None::<Run>;
    for _ in 0..RUNS {
        let scene = Scene::new("memory").await;
        let (ran, used) = launch(scene.snapshot(script).args(["-o", "out.yaml"])).await;
        ran.code(0);
        let (shown, document) = (ran.stderr(), scene.home.read("out.yaml"));
        let log: Vec<&str> = shown.lines().filter(|line| line.starts_with("agent | ")).collect();
        assert!(log.len() >= lines, "{ran}");
        assert_eq!(document, scene.document());
        let log = log.iter().map(|line| line.len() + 1).sum();
        let run = Run { peak: used.peak, document: document.len(), log };
        if largest.as_ref().is_none_or(|largest| run.peak > largest.peak) {
            largest = Some(run);
        }
    }
    largest.unwrap()
}
