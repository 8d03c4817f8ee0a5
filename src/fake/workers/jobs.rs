//! The Job controller: makes a Job's pods, counts how they end, and says when the Job has.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::super::api::kinds::{JOB, POD};
use super::super::api::object::as_map;
use super::super::cluster::Inner;
use super::super::node::event::Events;
use super::{objects, source};

/// Keeps a pod until its end was counted.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// Pause after a pod was refused.
const REFUSED: Duration = Duration::from_secs(1);

/// How far away the next look is if nothing calls for one.
const IDLE: Duration = Duration::from_mins(1);

/// What the controller knows beside what is stored.
struct Controller {
    client: Client,
    /// Pods whose end is in their Job's counts.
    counted: HashSet<String>,
    /// Jobs whose pod was refused, and when to try again.
    refused: HashMap<String, Instant>,
}

/// Works until it is aborted.
pub(super) async fn run(cluster: Arc<Inner>, client: Client) {
    let mut changed = cluster.api().store().subscribe();
    let mut controller = Controller { client, counted: HashSet::new(), refused: HashMap::new() };
    loop {
        changed.borrow_and_update();
        let (jobs, pods) = (objects::<Job>(&cluster, &JOB), objects::<Pod>(&cluster, &POD));
        let mut next = Instant::now() + IDLE;
        for job in &jobs {
            let own: Vec<&Pod> = pods.iter().filter(|pod| is_of(job, pod)).collect();
            next = next.min(controller.reconcile(job, &own).await);
        }
        for pod in pods.iter().filter(|pod| !jobs.iter().any(|job| is_of(job, pod))) {
            controller.release(pod).await;
        }
        tokio::select! {
            result = changed.changed() => if result.is_err() { return },
            () = sleep_until(next) => {}
        }
    }
}

fn is_of(job: &Job, pod: &Pod) -> bool {
    let uid = job.metadata.uid.as_deref();
    pod.owner_references().iter().any(|owner| owner.controller == Some(true) && Some(owner.uid.as_str()) == uid)
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

fn has_ended(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

fn count(pods: &[&Pod], counts: impl Fn(&Pod) -> bool) -> i32 {
    i32::try_from(pods.iter().filter(|pod| counts(pod)).count()).unwrap_or(i32::MAX)
}

fn is_true(status: &JobStatus, kind: &str) -> bool {
    status.conditions.iter().flatten().any(|condition| condition.type_ == kind && condition.status == "True")
}

fn set(status: &mut JobStatus, kind: &str, value: &str, reason: &str, message: &str) {
    let conditions = status.conditions.get_or_insert_default();
    if conditions.iter().any(|condition| condition.type_ == kind && condition.status == value) {
        return;
    }
    conditions.retain(|condition| condition.type_ != kind);
    let now = Some(Time(Timestamp::now()));
    conditions.push(JobCondition {
        type_: kind.to_owned(),
        status: value.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: now.clone(),
        last_transition_time: now,
    });
}

impl Controller {
    /// Brings a Job a step further, and says when to look again.
    async fn reconcile(&mut self, job: &Job, pods: &[&Pod]) -> Instant {
        let idle = Instant::now() + IDLE;
        let old = job.status.clone().unwrap_or_default();
        if job.metadata.deletion_timestamp.is_some() || is_true(&old, "Complete") || is_true(&old, "Failed") {
            for pod in pods.iter().filter(|pod| has_ended(pod) || is_terminating(pod)) {
                self.release(pod).await;
            }
            return idle;
        }
        let spec = job.spec.clone().unwrap_or_default();
        let mut status = self.counted(&old, pods);
        let suspended = spec.suspend == Some(true);
        let deadline = if suspended { None } else { deadline(job, &mut status) };
        judge(job, &mut status, deadline);
        let ends = is_true(&status, "FailureTarget") || is_true(&status, "Complete") || is_true(&status, "Failed");
        if status != old {
            self.write(job, &status).await;
        }
        for pod in pods.iter().filter(|pod| has_ended(pod) || is_terminating(pod)) {
            self.release(pod).await;
        }
        let active: Vec<&&Pod> = pods.iter().filter(|pod| !has_ended(pod) && !is_terminating(pod)).collect();
        if ends || suspended {
            for pod in active {
                let _ = self.pods(job).delete(&pod.name_any(), &DeleteParams::default()).await;
            }
            return idle;
        }
        let wanted = spec.completions.unwrap_or(1) - status.succeeded.unwrap_or_default();
        let wanted = wanted.min(spec.parallelism.unwrap_or(1));
        let next = self.fill(job, wanted - i32::try_from(active.len()).unwrap_or(i32::MAX)).await;
        next.min(deadline.map_or(idle, |left| Instant::now() + left))
    }

    /// The status with what its pods show, each end counted once.
    fn counted(&mut self, old: &JobStatus, pods: &[&Pod]) -> JobStatus {
        let mut status = old.clone();
        let (mut succeeded, mut failed) = (old.succeeded.unwrap_or_default(), old.failed.unwrap_or_default());
        for pod in pods.iter().filter(|pod| has_ended(pod) || is_terminating(pod)) {
            if self.counted.insert(pod.uid().unwrap_or_default()) {
                *(if phase(pod) == "Succeeded" { &mut succeeded } else { &mut failed }) += 1;
            }
        }
        let some = |count: i32| (count > 0).then_some(count);
        status.succeeded = some(succeeded);
        status.failed = some(failed);
        status.active = some(count(pods, |pod| !has_ended(pod) && !is_terminating(pod)));
        status.terminating = Some(count(pods, |pod| !has_ended(pod) && is_terminating(pod)));
        status.ready = Some(count(pods, |pod| phase(pod) == "Running" && !is_terminating(pod)));
        status.uncounted_terminated_pods.get_or_insert_default();
        status
    }

    /// Creates as many pods, one of them now if there is reason to wait.
    async fn fill(&mut self, job: &Job, missing: i32) -> Instant {
        let uid = job.uid().unwrap_or_default();
        if let Some(at) = self.refused.get(&uid).filter(|at| **at > Instant::now()) {
            return *at;
        }
        self.refused.remove(&uid);
        let events = Events::of(self.client.clone(), job.object_ref(&()), source("job-controller"));
        for _ in 0..missing {
            match self.pods(job).create(&PostParams::default(), &pod(job)).await {
                Ok(pod) => events.normal("", "SuccessfulCreate", &format!("Created pod: {}", pod.name_any())).await,
                Err(error) => {
                    let cause = match error {
                        kube::Error::Api(status) => status.message,
                        other => other.to_string(),
                    };
                    events.warning("", "FailedCreate", &format!("Error creating: {cause}")).await;
                    let again = Instant::now() + REFUSED;
                    self.refused.insert(uid, again);
                    return again;
                }
            }
        }
        Instant::now() + IDLE
    }

    async fn write(&self, job: &Job, status: &JobStatus) {
        let jobs = Api::<Job>::namespaced(self.client.clone(), &job.namespace().unwrap_or_default());
        let mut patch = json!({ "metadata": { "uid": job.metadata.uid }, "status": status });
        // A count of nothing is left out, and must replace what stood there.
        for count in ["active", "succeeded", "failed"] {
            as_map(&mut patch["status"]).entry(count).or_insert(Value::Null);
        }
        // The next look writes what could not be written now.
        let _ = jobs.patch_status(&job.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await;
    }

    /// Lets a pod go whose end is counted, or whose Job is gone.
    async fn release(&self, pod: &Pod) {
        if !pod.finalizers().iter().any(|finalizer| finalizer == TRACKING) {
            return;
        }
        let rest: Vec<&String> = pod.finalizers().iter().filter(|finalizer| *finalizer != TRACKING).collect();
        let patch = json!({ "metadata": { "uid": pod.metadata.uid, "finalizers": rest } });
        let pods = Api::<Pod>::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        let _ = pods.patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await;
    }

    fn pods(&self, job: &Job) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &job.namespace().unwrap_or_default())
    }
}

/// How much of a Job's time is left. The time begins with the first look at it.
fn deadline(job: &Job, status: &mut JobStatus) -> Option<Duration> {
    let started = status.start_time.get_or_insert_with(|| Time(Timestamp::now())).0;
    let allowed = job.spec.as_ref()?.active_deadline_seconds?;
    let passed = Timestamp::now().duration_since(started).unsigned_abs();
    Some(Duration::from_secs(allowed.unsigned_abs()).saturating_sub(passed))
}

/// Finds out whether a Job has ended.
fn judge(job: &Job, status: &mut JobStatus, left: Option<Duration>) {
    let spec = job.spec.clone().unwrap_or_default();
    if spec.suspend == Some(true) {
        set(status, "Suspended", "True", "JobSuspended", "Job suspended");
        return;
    }
    if is_true(status, "Suspended") {
        set(status, "Suspended", "False", "JobResumed", "Job resumed");
    }
    let busy = status.active.unwrap_or_default() + status.terminating.unwrap_or_default() > 0;
    if status.succeeded.unwrap_or_default() >= spec.completions.unwrap_or(1) {
        let message = "Reached expected number of succeeded pods";
        set(status, "SuccessCriteriaMet", "True", "CompletionsReached", message);
        set(status, "Complete", "True", "CompletionsReached", message);
        status.completion_time.get_or_insert_with(|| Time(Timestamp::now()));
        return;
    }
    let target = status.conditions.iter().flatten().find(|condition| condition.type_ == "FailureTarget");
    let failure = if let Some(target) = target {
        Some((target.reason.clone().unwrap_or_default(), target.message.clone().unwrap_or_default()))
    } else if status.failed.unwrap_or_default() > spec.backoff_limit.unwrap_or(6) {
        Some(("BackoffLimitExceeded".to_owned(), "Job has reached the specified backoff limit".to_owned()))
    } else if left.is_some_and(|left| left.is_zero()) {
        Some(("DeadlineExceeded".to_owned(), "Job was active longer than specified deadline".to_owned()))
    } else {
        None
    };
    if let Some((reason, message)) = failure {
        set(status, "FailureTarget", "True", &reason, &message);
        // It has failed for good once nothing of it runs any more.
        if !busy {
            set(status, "Failed", "True", &reason, &message);
        }
    }
}

/// A pod of a Job.
fn pod(job: &Job) -> Pod {
    let template = job.spec.clone().unwrap_or_default().template;
    let mut pod = Pod { metadata: template.metadata.unwrap_or_default(), spec: template.spec, status: None };
    pod.metadata.generate_name = Some(format!("{}-", job.name_any()));
    pod.metadata.owner_references = Some(job.controller_owner_ref(&()).into_iter().collect());
    pod.metadata.finalizers = Some(vec![TRACKING.to_owned()]);
    for owner in pod.metadata.owner_references.iter_mut().flatten() {
        owner.block_owner_deletion = Some(true);
    }
    pod
}
