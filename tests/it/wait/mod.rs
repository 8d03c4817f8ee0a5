//! Waiting lasts: whatever breaks meanwhile, the Job decides, and the agent's lines are shown once and in order (R20–R23).

mod faults;
mod job;
mod logs;
mod outage;

use k8s_openapi::api::batch::v1::Job;

use crate::support::{
    cli::Outcome,
    proxy::{When, get},
    scene::Scene,
    wait::until,
};

/// The agent's lines as a run showed them.
fn agent_lines(ran: &Outcome) -> Vec<String> {
    ran.stderr().lines().filter_map(|line| line.strip_prefix("agent | ")).map(str::to_owned).collect()
}

/// What an agent that logs `count` numbered lines is to show.
fn lines_of(scene: &Scene, count: usize) -> Vec<String> {
    let written = format!("snapshot written to cm://{0}/aicr-agent-snapshot-{1}", scene.namespace.name, scene.run_id);
    std::iter::once("collecting the configuration of the node".to_owned())
        .chain((1..=count).map(|number| format!("line {number} of {count}")))
        .chain(std::iter::once(written))
        .collect()
}

fn job_name(scene: &Scene) -> String {
    format!("aicr-{}", scene.run_id)
}

/// Waits until the Job has completed on the cluster, whatever the run knows of it.
async fn job_completes(scene: &Scene) {
    let jobs = scene.api::<Job>();
    let mut existed = false;
    until("the Job to complete", async || match jobs.get_opt(&job_name(scene)).await.ok()? {
        Some(job) => {
            existed = true;
            job.status?.completion_time.map(|_| ())
        }
        // The run has even deleted it.
        None => existed.then_some(()),
    })
    .await;
}

const JOBS: &str = "/apis/batch/v1/namespaces/*/jobs";
const PODS: &str = "/api/v1/namespaces/*/pods";
const EVENTS: &str = "/api/v1/namespaces/*/events";
const LOG: &str = "/api/v1/namespaces/*/pods/*/log";

/// The watches at a path.
fn watch(path: &str) -> When {
    get(path).query("watch=true")
}

/// The lists at a path.
fn list(path: &str) -> When {
    get(path).matching(|entry| !entry.is_stream())
}
