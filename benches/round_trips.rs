//! What a user waits for: the time of each phase of a plain run as the round trip to the API server grows.
//!
//! `cargo bench --bench round_trips` on a real control plane, behind a proxy that delays each request; about a minute
//! after building. Times of one run compare with each other, not with those of another day.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark fails by panicking")]
#![allow(missing_docs, reason = "nobody links it")]
#![allow(unused_imports, reason = "the test bed offers more than a benchmark uses")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use support::{bed::Bed, proxy::Proxy, scene::Scene};

/// Injected round trips, in milliseconds.
const ROUND_TRIPS: [u32; 4] = [0, 20, 50, 100];

/// Runs for each, of which the median counts.
const RUNS: usize = 5;

/// Phases before the agent has the word; the rest of a run is mostly its own time.
const PHASES: [&str; 2] = ["preflight", "deploy"];

/// One run as measured.
struct Measured {
    seconds: [f64; 2],
    requests: usize,
    handshakes: usize,
}

async fn measure(round_trip: Duration) -> Measured {
    let proxy = Proxy::before(Bed::shared().await).rtt(round_trip).start().await;
    let scene = Scene::behind("bench", &proxy).await;
    let namespaces = Api::<Namespace>::all(scene.client.clone());
    let label = Patch::Merge(json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": "aicr" } } }));
    namespaces.patch(&scene.namespace.name, &PatchParams::default(), &label).await.unwrap();
    scene.snapshot("success").args(["-q", "-o", "out.yaml", "--report", "report.json"]).run().await.code(0);
    let report: Value = serde_json::from_str(&scene.home.read("report.json")).unwrap();
    let phases = report["phases"].as_array().unwrap();
    let seconds = |name: &str| phases.iter().find(|phase| phase["name"] == name).unwrap()["seconds"].as_f64().unwrap();
    Measured { seconds: PHASES.map(seconds), requests: proxy.requests().len(), handshakes: proxy.handshakes() }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    println!("round trip   preflight   in round trips   deploy   in round trips   requests   TLS handshakes");
    let mut base = None;
    for millis in ROUND_TRIPS {
        let round_trip = Duration::from_millis(millis.into());
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            runs.push(measure(round_trip).await);
        }
        let seconds: [f64; 2] = [0, 1].map(|phase| median(runs.iter().map(|run| run.seconds[phase]).collect()));
        let base = *base.get_or_insert(seconds);
        // What the server and the client themselves take is what they take without a round trip.
        let trips = |phase: usize| match millis {
            0 => "-".to_owned(),
            _ => format!("{:.1}", (seconds[phase] - base[phase]) / round_trip.as_secs_f64()),
        };
        println!(
            "{millis:>7} ms {:>8.0} ms {:>16} {:>5.0} ms {:>16} {:>10} {:>16}",
            seconds[0] * 1e3,
            trips(0),
            seconds[1] * 1e3,
            trips(1),
            runs[0].requests,
            runs[0].handshakes,
        );
    }
}
