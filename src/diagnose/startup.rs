//! The pod has a node, but its containers do not come up: volumes, sandbox, configuration.

use kube::api::ResourceExt as _;

use crate::diagnose::image::without_rpc;
use crate::diagnose::objects::{Event, Pod};
use crate::diagnose::observed::{Observed, order};
use crate::diagnose::pod;
use crate::diagnose::reason::{Diagnosis, Reason};

/// What keeps the pod's containers from being created.
pub(super) fn failing(pod: &Pod, observed: &Observed) -> Option<Diagnosis> {
    container_refused(pod)
        .or_else(|| preparation_failing(pod, observed))
        .or_else(|| still_running(pod))
        .or_else(|| node_silent(pod))
}

/// A container that the kubelet could not create from what the pod says.
fn container_refused(pod: &Pod) -> Option<Diagnosis> {
    pod::containers(pod).find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let what = match waiting.reason.as_deref()? {
            "CreateContainerConfigError" => "has a container with an unusable configuration",
            "CreateContainerError" => "has a container that cannot be created",
            "RunContainerError" => "has a container that cannot be run",
            "PreCreateHookError" | "PreStartHookError" | "PostStartHookError" => "has a container whose hook fails",
            "CrashLoopBackOff" => "has a container that crashes again and again",
            _ => return None,
        };
        let message = without_rpc(waiting.message.as_deref().unwrap_or_default());
        let message = format!("{}: {message}", pod::container_name(&container.name));
        Some(judged(pod, what, &message))
    })
}

/// The kubelet's last complaint about what comes before the containers, unless it has got past that.
fn preparation_failing(pod: &Pod, observed: &Observed) -> Option<Diagnosis> {
    let prepares = pod::phase(pod) == "Pending" && pod::node(pod).is_some();
    if !prepares {
        return None;
    }
    let uid = pod.uid().unwrap_or_default();
    let complaint = observed.latest_event(&uid, |event| preparation(event).is_some())?;
    let progress = observed.latest_event(&uid, |event| {
        matches!(event.reason.as_deref(), Some("Pulling" | "Pulled" | "Created" | "Started"))
    });
    if progress.is_some_and(|progress| order(progress) > order(complaint)) {
        return None;
    }
    let message = complaint.message.as_deref().unwrap_or_default();
    let message = message.strip_prefix("Failed to create pod sandbox: ").unwrap_or(message);
    Some(judged(pod, preparation(complaint)?, without_rpc(message)))
}

fn preparation(event: &Event) -> Option<&'static str> {
    Some(match event.reason.as_deref()? {
        "FailedMount" => "cannot mount a volume",
        "FailedAttachVolume" => "cannot attach a volume",
        "FailedCreatePodSandBox" => "gets no sandbox",
        "FailedCreatePodContainer" => "cannot create its cgroups",
        "NetworkNotReady" => "has no network on its node",
        "FailedPrepareDynamicResources" => "cannot have its devices prepared",
        _ => return None,
    })
}

fn judged(pod: &Pod, what: &'static str, message: &str) -> Diagnosis {
    let reason = Reason::NotStarted { pod: pod::name(pod), what, message: message.to_owned() };
    let says = |phrase| message.contains(phrase);
    if says("hostPath type check failed") {
        // The node's own file system: it does not change while the pod waits.
        Diagnosis::lasting(
            reason,
            "the node has no such path: on Talos run with --os talos, else use --privileged=false",
        )
    } else if says("image will run as root") {
        Diagnosis::lasting(reason, "the image's user is root: use an image that is not, or --privileged")
    } else if says("no runtime for") || says("RuntimeHandler") {
        Diagnosis::passing(reason, "the node's container runtime does not know that handler: check --runtime-class")
    } else {
        Diagnosis::passing(
            reason,
            "see the kubelet on the node; a run with --keep-job leaves the pod for kubectl describe pod",
        )
    }
}

/// A container that someone put beside the agent and that does not end with it.
fn still_running(pod: &Pod) -> Option<Diagnosis> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let state = |name: &str| pod::containers(pod).find(|one| one.name == name)?.state.as_ref();
    let agent = state(crate::agent::manifests::CONTAINER)?.terminated.as_ref()?;
    let other = statuses.iter().find(|one| one.state.as_ref().is_some_and(|state| state.running.is_some()))?;
    (agent.exit_code == 0).then(|| {
        let reason = Reason::StillRunning { pod: pod::name(pod), container: pod::container_name(&other.name) };
        Diagnosis::passing(reason, "keep the injector away from the pod, or have it inject a native sidecar")
    })
}

/// The node's kubelet has not been heard of for a while: only the pod's readiness is taken back then.
fn node_silent(pod: &Pod) -> Option<Diagnosis> {
    let is = |kind: &str, status: &str| {
        pod::condition(pod, kind).filter(|condition| condition.status == status).map(|condition| &condition.reason)
    };
    let silent =
        pod::phase(pod) == "Running" && is("ContainersReady", "True").is_some() && is("Ready", "False")?.is_none();
    silent.then(|| {
        let node = pod::node(pod).unwrap_or_default();
        let reason = Reason::NodeLost { pod: pod::name(pod), message: format!("node {node} does not answer") };
        Diagnosis::passing(reason, "see kubectl describe node, or choose another with --node-selector")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::diagnose::diagnose;
    use crate::diagnose::testing::{event, job, observed, pod};

    const POD: &str = "aicr-1-x7k2p";

    fn creating(extra: &[(&str, Value)]) -> Pod {
        let mut parts = vec![
            ("/spec/nodeName", json!("node-1")),
            ("/status/containerStatuses/0/state", json!({"waiting": {"reason": "ContainerCreating"}})),
        ];
        parts.extend(extra.iter().cloned());
        pod(POD, &parts)
    }

    fn at(second: u8, reason: &str, message: &str) -> Event {
        event(POD, reason, message, &format!("2026-08-21T14:22:{second:02}Z"))
    }

    #[test]
    fn r24_what_comes_before_the_containers_is_told_in_the_kubelets_words() {
        for (reason, message, told, heals) in [
            (
                "FailedMount",
                r#"MountVolume.SetUp failed for volume "run-systemd" : hostPath type check failed: /run/systemd is not a directory"#,
                r#"cannot mount a volume: MountVolume.SetUp failed for volume "run-systemd" : hostPath type check failed: /run/systemd is not a directory"#,
                false,
            ),
            (
                "FailedAttachVolume",
                r#"Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) other"#,
                r#"cannot attach a volume: Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) other"#,
                true,
            ),
            (
                "FailedCreatePodSandBox",
                r#"Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for "nvidia" is configured"#,
                r#"gets no sandbox: failed to get sandbox runtime: no runtime for "nvidia" is configured"#,
                true,
            ),
            (
                "NetworkNotReady",
                "network is not ready: container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady",
                "has no network on its node: network is not ready: container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady",
                true,
            ),
        ] {
            let diagnosis = diagnose(&observed(job(&[]), vec![creating(&[])], vec![at(1, reason, message)])).unwrap();
            assert_eq!(diagnosis.to_string(), format!("Pod gpu/{POD} {told}"));
            assert_eq!(diagnosis.heals, heals, "{message}");
        }
    }

    #[test]
    fn a_complaint_that_the_kubelet_got_past_is_not_told() {
        let failed = at(1, "FailedMount", "no");
        let pulling = at(2, "Pulling", "Pulling image \"x\"");
        let told = |pod, events| diagnose(&observed(job(&[]), vec![pod], events));
        assert!(told(creating(&[]), vec![failed.clone()]).is_some());
        assert_eq!(told(creating(&[]), vec![failed.clone(), pulling.clone()]), None);
        let again = at(3, "FailedMount", "again");
        assert!(told(creating(&[]), vec![pulling, again]).is_some());
        let running =
            [("/status/phase", json!("Running")), ("/status/containerStatuses/0/state", json!({"running": {}}))];
        assert_eq!(told(creating(&running), vec![failed]), None);
    }

    #[test]
    fn r24_a_container_that_cannot_be_created_is_told_in_the_kubelets_words() {
        for (reason, message, told, heals) in [
            (
                "CreateContainerConfigError",
                "container has runAsNonRoot and image will run as root (pod: \"aicr-1-x7k2p_gpu(1)\", container: aicr)",
                "has a container with an unusable configuration: the agent: container has runAsNonRoot and image will run as root (pod: \"aicr-1-x7k2p_gpu(1)\", container: aicr)",
                false,
            ),
            (
                "CreateContainerConfigError",
                "secret \"token\" not found",
                "has a container with an unusable configuration: the agent: secret \"token\" not found",
                true,
            ),
            (
                "CreateContainerError",
                "rpc error: code = DeadlineExceeded desc = context deadline exceeded",
                "has a container that cannot be created: the agent: context deadline exceeded",
                true,
            ),
            (
                "RunContainerError",
                "failed to start containerd task",
                "has a container that cannot be run: the agent: failed to start containerd task",
                true,
            ),
        ] {
            let state = json!({"waiting": {"reason": reason, "message": message}});
            let waiting = creating(&[("/status/containerStatuses/0/state", state)]);
            let diagnosis = diagnose(&observed(job(&[]), vec![waiting], vec![])).unwrap();
            assert_eq!(diagnosis.to_string(), format!("Pod gpu/{POD} {told}"));
            assert_eq!(diagnosis.heals, heals, "{message}");
        }
    }

    #[test]
    fn r24_a_container_beside_the_agent_that_runs_on_is_named() {
        let beside = |agent_code: i32| {
            creating(&[
                ("/status/phase", json!("Running")),
                (
                    "/status/containerStatuses",
                    json!([
                        {"name": "istio-proxy", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}},
                        {"name": "aicr", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                         "state": {"terminated": {"exitCode": agent_code}}},
                    ]),
                ),
            ])
        };
        let diagnosis = diagnose(&observed(job(&[]), vec![beside(0)], vec![])).unwrap();
        assert_eq!(
            diagnosis.to_string(),
            format!(
                "the agent in Pod gpu/{POD} has ended well, but container istio-proxy runs on and keeps the Job from completing"
            )
        );
        assert!(matches!(
            diagnose(&observed(job(&[]), vec![beside(1)], vec![])).unwrap().reason,
            Reason::Crashed { code: 1, .. }
        ));
    }

    #[test]
    fn r24_a_node_that_does_not_answer_is_named() {
        let conditions = |ready: Value| {
            creating(&[
                ("/status/phase", json!("Running")),
                ("/status/containerStatuses/0/state", json!({"running": {}})),
                ("/status/conditions", json!([{"type": "ContainersReady", "status": "True"}, ready])),
            ])
        };
        let told = |ready| diagnose(&observed(job(&[]), vec![conditions(ready)], vec![]));
        let silent = told(json!({"type": "Ready", "status": "False"})).unwrap();
        assert_eq!(silent.to_string(), format!("Pod gpu/{POD} has lost its node: node node-1 does not answer"));
        assert!(silent.heals);
        assert_eq!(told(json!({"type": "Ready", "status": "True"})), None);
        assert_eq!(told(json!({"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady"})), None);
    }
}
