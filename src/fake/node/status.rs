//! A pod's status as a kubelet reports it.

use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use serde_json::{Value, json};

/// Where a container stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ContainerState {
    Waiting { reason: String, message: String },
    Running { since: Timestamp },
    Terminated(Termination),
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Termination {
    pub(super) code: i32,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) started: Option<Timestamp>,
    pub(super) finished: Timestamp,
    /// Why the kubelet evicted the pod, if it did.
    pub(super) evicted: Option<String>,
}

impl ContainerState {
    pub(super) fn waiting(reason: &str, message: &str) -> Self {
        Self::Waiting { reason: reason.to_owned(), message: message.to_owned() }
    }

    pub(super) fn is_terminated(&self) -> bool {
        matches!(self, Self::Terminated(_))
    }

    fn json(&self) -> Value {
        match self {
            Self::Waiting { reason, message } if message.is_empty() => json!({ "waiting": { "reason": reason } }),
            Self::Waiting { reason, message } => json!({ "waiting": { "reason": reason, "message": message } }),
            Self::Running { since } => json!({ "running": { "startedAt": seconds(*since) } }),
            Self::Terminated(end) => json!({ "terminated": {
                "exitCode": end.code,
                "reason": end.reason,
                "message": (!end.message.is_empty()).then_some(&end.message),
                "startedAt": end.started.map(seconds),
                "finishedAt": seconds(end.finished),
            }}),
        }
    }
}

/// The patch that brings a pod's status up to date. It names the UID, so that
/// it never meets another pod of that name.
pub(super) fn patch(pod: &Pod, started: Timestamp, states: &[ContainerState]) -> Value {
    let running = states.iter().any(|state| matches!(state, ContainerState::Running { .. }));
    let eviction = states.iter().find_map(|state| match state {
        ContainerState::Terminated(end) => end.evicted.as_deref(),
        _ => None,
    });
    let phase = phase(states, eviction.is_some());
    let (ready, why) = match phase {
        "Running" => (running, None),
        "Succeeded" => (false, Some("PodCompleted")),
        "Failed" => (false, Some("PodFailed")),
        _ => (false, Some("ContainersNotReady")),
    };
    let condition = |kind: &str, is: bool, why: Option<&str>| {
        let is = if is { "True" } else { "False" };
        json!({ "type": kind, "status": is, "reason": why, "lastTransitionTime": seconds(Timestamp::now()) })
    };
    let containers: Vec<Value> = images(pod)
        .zip(states)
        .map(|((name, image), state)| {
            let running = matches!(state, ContainerState::Running { .. });
            let ran = !matches!(state, ContainerState::Waiting { .. });
            json!({
                "name": name,
                "image": image,
                "imageID": if ran { format!("{image}@sha256:{:064x}", 1) } else { String::new() },
                "containerID": ran.then(|| format!("containerd://{:064x}", 1)),
                "ready": running,
                "started": running,
                "restartCount": 0,
                "state": state.json(),
            })
        })
        .collect();
    let host_network = pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true);
    let ip = if host_network { "127.0.0.1" } else { "10.244.0.10" };
    json!({
        "metadata": { "uid": pod.metadata.uid },
        "status": {
            "phase": phase,
            "reason": eviction.map(|_| "Evicted"),
            "message": eviction,
            "startTime": seconds(started),
            "hostIP": "127.0.0.1",
            "podIP": (phase != "Pending").then_some(ip),
            "podIPs": (phase != "Pending").then(|| json!([{ "ip": ip }])),
            "conditions": [
                condition("PodReadyToStartContainers", running, None),
                condition("Initialized", true, None),
                condition("ContainersReady", ready, why),
                condition("Ready", ready, why),
            ],
            "containerStatuses": containers,
        },
    })
}

fn phase(states: &[ContainerState], evicted: bool) -> &'static str {
    let failed = |state: &ContainerState| matches!(state, ContainerState::Terminated(end) if end.code != 0);
    if evicted {
        "Failed"
    } else if states.iter().all(ContainerState::is_terminated) {
        if states.iter().any(failed) { "Failed" } else { "Succeeded" }
    } else if states.iter().any(|state| matches!(state, ContainerState::Waiting { .. })) {
        "Pending"
    } else {
        "Running"
    }
}

fn images(pod: &Pod) -> impl Iterator<Item = (&str, &str)> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.map(|container| (container.name.as_str(), container.image.as_deref().unwrap_or_default()))
}

/// Kubernetes keeps whole seconds.
fn seconds(time: Timestamp) -> String {
    format!("{time:.0}")
}
