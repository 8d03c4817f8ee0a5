//! What a user waits for: how much longer a plain run takes as the round trip to the API server grows.

use std::time::Duration;

use serde_json::Value;

use super::figures::{Figures, median};
use super::support::{
    bed::Bed,
    proxy::{Entry, Proxy, waves},
    scene::Scene,
};

/// Injected round trips, in milliseconds.
const ROUND_TRIPS: [u32; 4] = [0, 20, 50, 100];

/// Runs for each, of which the median counts.
const RUNS: usize = 5;

/// The phases of a run but the handing over, which asks for nothing.
const PHASES: [&str; 5] = ["preflight", "deploy", "wait", "fetch", "cleanup"];

/// The agent's own time: long enough for the watches to open.
const SCRIPT: &str = "slow-1s";

/// One run, or what is in the middle of several. By phase where there are five.
struct Run {
    seconds: [f64; 5],
    requests: [f64; 5],
    handshakes: f64,
    waves_to_job: f64,
    waves: f64,
}

pub(crate) async fn measure(figures: &mut Figures) {
    let mut medians = Vec::new();
    for millis in ROUND_TRIPS {
        let round_trip = Duration::from_millis(millis.into());
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            runs.push(run(round_trip).await);
        }
        medians.push(Run::median(&runs));
    }
    summarize(figures, &medians);

    let columns = ROUND_TRIPS.map(|millis| format!("{millis} ms"));
    let mut rows = vec![[vec!["phase".to_owned()], columns.to_vec()].concat()];
    for (phase, name) in PHASES.iter().enumerate() {
        rows.push(cells(name, &medians, |run| (run.seconds[phase], run.requests[phase])));
    }
    rows.push(cells("all but the wait", &medians, |run| {
        let without_wait = |values: &[f64; 5]| values.iter().sum::<f64>() - values[2];
        (without_wait(&run.seconds), without_wait(&run.requests))
    }));
    let handshakes = medians.iter().map(|run| format!("{}", run.handshakes)).collect();
    rows.push([vec!["TLS handshakes".to_owned()], handshakes].concat());
    figures.table(
        "Round trips",
        "How long each phase of a plain run takes without an injected round trip, and how many round trips longer it \
         takes with one; in parentheses its requests. The wait holds the agent's own time, and the cleanup the Job's \
         termination. Medians of five runs each.",
        rows,
    );
}

/// A row: a time where there is no round trip, and else what that time has grown by, in round trips.
fn cells(name: &str, runs: &[Run], of: impl Fn(&Run) -> (f64, f64)) -> Vec<String> {
    let (base, _) = of(&runs[0]);
    let cells = runs.iter().zip(ROUND_TRIPS).map(|(run, millis)| {
        let (seconds, requests) = of(run);
        match millis {
            0 => format!("{:.0} ms ({requests})", seconds * 1e3),
            _ => format!("{:+.1} ({requests})", (seconds - base) * 1e3 / f64::from(millis)),
        }
    });
    std::iter::once(name.to_owned()).chain(cells).collect()
}

/// Waves are counted where they stand apart best.
fn summarize(figures: &mut Figures, medians: &[Run]) {
    let last = medians.last().unwrap();
    let (to_job, all) = (last.waves_to_job, last.waves);
    figures.goal("sequential round trips to the Job's creation", format!("{to_job}"), "4", to_job <= 4.0, "17");
    figures.goal("sequential round trips in all", format!("{all}"), "8", all <= 8.0, "28");
    let handshakes = last.handshakes;
    figures.goal("TLS handshakes", format!("{handshakes}"), "2", handshakes <= 2.0, "");
    let requests = last.requests.iter().sum::<f64>();
    figures.fact("requests", format!("{requests}"), "33");
}

impl Run {
    fn median(runs: &[Self]) -> Self {
        let of = |value: &dyn Fn(&Self) -> f64| median(runs.iter().map(value).collect());
        let by_phase = |values: fn(&Self) -> &[f64; 5]| std::array::from_fn(|phase| of(&|run| values(run)[phase]));
        Self {
            seconds: by_phase(|run| &run.seconds),
            requests: by_phase(|run| &run.requests),
            handshakes: of(&|run| run.handshakes),
            waves_to_job: of(&|run| run.waves_to_job),
            waves: of(&|run| run.waves),
        }
    }
}

/// A run in a namespace that exists and has our label.
#[expect(clippy::cast_precision_loss, reason = "small counts")]
async fn run(round_trip: Duration) -> Run {
    let proxy = Proxy::before(Bed::shared().await).rtt(round_trip).start().await;
    let scene = Scene::behind("bench", &proxy).await;
    scene.adopt_namespace().await;
    scene.snapshot(SCRIPT).args(["-q", "-o", "out.yaml", "--report", "report.json"]).run().await.code(0);
    let report: Value = serde_json::from_str(&scene.home.read("report.json")).unwrap();
    let phases = report["phases"].as_array().unwrap();
    let seconds = |name: &str| phases.iter().find(|phase| phase["name"] == name).unwrap()["seconds"].as_f64().unwrap();
    let entries = proxy.requests();
    let sequential: Vec<Entry> = entries.iter().filter(|entry| entry.holds_up_the_run()).cloned().collect();
    let waves = waves(&sequential);
    let to_job = waves.iter().position(|wave| wave.iter().any(creates_job)).expect("a Job was created");
    Run {
        seconds: PHASES.map(seconds),
        requests: by_phase(&entries).map(|count| count as f64),
        handshakes: proxy.handshakes() as f64,
        waves_to_job: (to_job + 1) as f64,
        waves: waves.len() as f64,
    }
}

fn creates_job(entry: &Entry) -> bool {
    entry.is_write() && entry.method == "POST" && entry.target().resource == "jobs"
}

/// How many requests belong to each of the phases.
fn by_phase(entries: &[Entry]) -> [usize; 5] {
    let mut counts = [0; 5];
    let (mut writes, mut deletes) = (false, false);
    for entry in entries {
        writes |= entry.is_write();
        deletes |= entry.method == "DELETE";
        let phase = match () {
            () if deletes => "cleanup",
            () if !entry.holds_up_the_run() => "wait",
            () if !writes => "preflight",
            () if entry.is_write() => "deploy",
            () => "fetch",
        };
        counts[PHASES.iter().position(|name| *name == phase).unwrap()] += 1;
    }
    counts
}
