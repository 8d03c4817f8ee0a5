//! What the cluster showed of a run that failed, kept before cleanup takes it away (R24). Pure.

use kube::api::ResourceExt as _;
use serde::Serialize;

use crate::diagnose::objects::{ContainerState, Event, Job, Pod};
use crate::diagnose::observed::{Observed, order};

/// Events shown, the last ones. Their number has no bound on the server.
const EVENTS: usize = 10;

/// Pod status, events and the log's tail of a failed run, each as a line to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// Conditions of the Job that are true.
    pub job: Vec<String>,
    /// Phase, node and containers of each pod.
    pub pods: Vec<String>,
    /// The last events about the Job and its pods, oldest first.
    pub events: Vec<String>,
    /// The last lines of the agent's log, oldest first.
    pub log: Vec<String>,
}

impl Evidence {
    pub(crate) fn of(observed: &Observed, log: Vec<String>) -> Self {
        let gone = observed.gone.iter().filter(|gone| !observed.pods.contains_key(&gone.uid().unwrap_or_default()));
        let mut events: Vec<&Event> = observed.events.values().collect();
        events.sort_by_key(|event| order(event));
        Self {
            job: observed.job.iter().flat_map(job).collect(),
            pods: observed
                .pods
                .values()
                .flat_map(pod)
                .chain(gone.map(|pod| format!("{}: deleted", pod.name_any())))
                .collect(),
            events: events.iter().skip(events.len().saturating_sub(EVENTS)).map(|seen| event(seen)).collect(),
            log,
        }
    }

    /// Whether there is nothing to show.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn job(job: &Job) -> Vec<String> {
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .filter(|condition| condition.status == "True")
        .map(|condition| sentence(&condition.type_, condition.reason.as_deref(), condition.message.as_deref()))
        .collect()
}

fn pod(pod: &Pod) -> Vec<String> {
    let name = pod.name_any();
    let Some(status) = &pod.status else { return vec![format!("{name}: no status yet")] };
    let phase = status.phase.as_deref().unwrap_or("no phase yet");
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("no node");
    let state = sentence(phase, status.reason.as_deref(), status.message.as_deref());
    let mut lines = vec![format!("{name} on {node}: {state}")];
    let unmet = status.conditions.iter().flatten().filter(|condition| condition.status == "False");
    lines.extend(unmet.filter(|condition| condition.message.is_some()).map(|condition| {
        let state = sentence(&condition.type_, condition.reason.as_deref(), condition.message.as_deref());
        format!("{name} condition not met: {state}")
    }));
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    lines.extend(containers.filter_map(|container| {
        let state = container_state(container.state.as_ref()?)?;
        Some(format!("{name} container {}: {state}", container.name))
    }));
    lines
}

fn container_state(state: &ContainerState) -> Option<String> {
    if let Some(ended) = &state.terminated {
        let code = format!("ended with exit code {}", ended.exit_code);
        Some(sentence(&code, ended.reason.as_deref(), ended.message.as_deref()))
    } else if let Some(waiting) = &state.waiting {
        Some(sentence("waiting", waiting.reason.as_deref(), waiting.message.as_deref()))
    } else {
        state.running.as_ref().map(|_| "running".to_owned())
    }
}

fn event(event: &Event) -> String {
    let about = &event.involved_object;
    let about = [about.kind.as_deref(), about.name.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let count = event.series.as_ref().and_then(|series| series.count).or(event.count).unwrap_or(1);
    let times = if count > 1 { format!(" ({count} times)") } else { String::new() };
    let type_ = event.type_.as_deref().unwrap_or("Normal");
    format!("{type_}{times} {}", sentence(&about, event.reason.as_deref(), event.message.as_deref()))
}

/// `what (reason): message`, as far as there is one.
fn sentence(what: &str, reason: Option<&str>, message: Option<&str>) -> String {
    let given = |text: Option<&str>| text.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
    let reason = given(reason).map_or_else(String::new, |reason| format!(" ({reason})"));
    let message = given(message).map_or_else(String::new, |message| format!(": {message}"));
    format!("{what}{reason}{message}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn r24_evidence_holds_what_the_cluster_said_of_job_pod_container_and_events() {
        let mut observed = Observed {
            job: serde_json::from_value(json!({ "status": { "conditions": [
                { "type": "FailureTarget", "status": "False" },
                { "type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "it failed" },
            ] } }))
            .ok(),
            ..Observed::default()
        };
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "aicr-1-x", "uid": "u" },
            "spec": { "nodeName": "gpu-1", "containers": [] },
            "status": {
                "phase": "Failed", "reason": "Evicted", "message": "low on memory",
                "conditions": [{ "type": "Ready", "status": "False", "reason": "PodFailed", "message": "not ready" }],
                "containerStatuses": [{
                    "name": "aicr", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                    "state": { "terminated": { "exitCode": 137, "reason": "OOMKilled" } },
                }],
            },
        }))
        .unwrap();
        observed.pods.insert("u".to_owned(), pod);
        for (uid, count, at) in [("b", 3, "2026-08-21T14:22:35Z"), ("a", 1, "2026-08-21T14:22:33Z")] {
            let event = json!({
                "metadata": { "uid": uid }, "type": "Warning", "reason": "FailedMount", "message": format!("event {uid}"),
                "involvedObject": { "kind": "Pod", "name": "aicr-1-x" }, "count": count, "lastTimestamp": at,
            });
            observed.see_event(serde_json::from_value(event).unwrap());
        }
        let evidence = Evidence::of(&observed, vec!["last line".to_owned()]);
        assert_eq!(
            evidence,
            Evidence {
                job: vec!["Failed (BackoffLimitExceeded): it failed".to_owned()],
                pods: vec![
                    "aicr-1-x on gpu-1: Failed (Evicted): low on memory".to_owned(),
                    "aicr-1-x condition not met: Ready (PodFailed): not ready".to_owned(),
                    "aicr-1-x container aicr: ended with exit code 137 (OOMKilled)".to_owned(),
                ],
                events: vec![
                    "Warning Pod aicr-1-x (FailedMount): event a".to_owned(),
                    "Warning (3 times) Pod aicr-1-x (FailedMount): event b".to_owned(),
                ],
                log: vec!["last line".to_owned()],
            }
        );
    }

    #[test]
    fn r24_nothing_observed_is_nothing_to_show() {
        assert!(Evidence::of(&Observed::default(), Vec::new()).is_empty());
    }
}
