//! The pod has ended, or was ended.

use crate::diagnose::objects::{ContainerStatus, Pod, Terminated};
use crate::diagnose::pod;
use crate::diagnose::reason::{Diagnosis, Reason};

/// What ended the pod badly. What ended the whole pod also killed its containers, so it comes first.
/// None of it is final: that is for the Job to say.
pub(super) fn ended(pod: &Pod) -> Option<Diagnosis> {
    disrupted(pod).or_else(|| refused_by_node(pod)).or_else(|| container_ended(pod)).or_else(|| {
        let deleting = pod.metadata.deletion_timestamp.is_some() && pod::phase(pod) != "Succeeded";
        deleting.then(|| deleted(pod))
    })
}

/// A pod that is gone, or going, without a reason of its own.
pub(super) fn deleted(pod: &Pod) -> Diagnosis {
    let lost = || {
        Diagnosis::passing(
            Reason::PodDeleted { pod: pod::name(pod) },
            "find out what deletes pods in the namespace, then run again",
        )
    };
    disrupted(pod).or_else(|| refused_by_node(pod)).or_else(|| container_ended(pod)).unwrap_or_else(lost)
}

/// The cluster took the pod away.
fn disrupted(pod: &Pod) -> Option<Diagnosis> {
    let name = pod::name(pod);
    let status = pod.status.as_ref()?;
    let said = status.message.clone().unwrap_or_default();
    let target = pod::condition(pod, "DisruptionTarget").filter(|condition| condition.status == "True");
    let why = target.and_then(|target| target.reason.as_deref()).unwrap_or_default();
    let message = || {
        if said.is_empty() {
            target.and_then(|target| target.message.clone()).unwrap_or_default()
        } else {
            said.clone()
        }
    };
    Some(match (status.reason.as_deref().unwrap_or_default(), why) {
        ("Evicted", _) => Diagnosis::passing(
            Reason::Evicted { pod: name, message: message() },
            "raise --requests, or choose a node with more room with --node-selector",
        ),
        ("Preempting", _) | (_, "PreemptionByScheduler") => Diagnosis::passing(
            Reason::Preempted { pod: name, message: message() },
            "run again when the more important pods have room",
        ),
        ("NodeLost" | "NodeShutdown" | "Shutdown" | "Terminated", _) | (_, "DeletionByPodGC") => Diagnosis::passing(
            Reason::NodeLost { pod: name, message: message() },
            "run again, or choose another node with --node-selector",
        ),
        (_, "DeletionByTaintManager") => Diagnosis::passing(
            Reason::Evicted { pod: name, message: message() },
            "tolerate the taint with --toleration, or choose another node with --node-selector",
        ),
        (_, "EvictionByEvictionAPI" | "TerminationByKubelet") => Diagnosis::passing(
            Reason::Evicted { pod: name, message: message() },
            "run again when the node is not being drained",
        ),
        _ => return None,
    })
}

/// The kubelet did not take a pod that the scheduler gave it: too little of something by its own count.
fn refused_by_node(pod: &Pod) -> Option<Diagnosis> {
    let status = pod.status.as_ref().filter(|_| pod::phase(pod) == "Failed")?;
    let reason = status.reason.clone().filter(|reason| !reason.is_empty() && reason != "DeadlineExceeded")?;
    let message = status.message.clone().unwrap_or_default();
    let reason = Reason::NodeRefused { pod: pod::name(pod), reason, message };
    Some(Diagnosis::passing(reason, "run again, or choose another node with --node-selector"))
}

/// The first container that ended badly. The agent's counts before those beside it.
fn container_ended(pod: &Pod) -> Option<Diagnosis> {
    let deleting = pod.metadata.deletion_timestamp.is_some();
    pod::containers(pod).find_map(|container| {
        let end = container.state.as_ref()?.terminated.as_ref().filter(|end| end.exit_code != 0)?;
        // A deletion ends a pod by these signals: then it is the deletion that counts.
        let by_deletion = deleting && matches!(end.exit_code, 137 | 143) && end.reason.as_deref() != Some("OOMKilled");
        (!by_deletion).then(|| bad_end(pod, container, end))
    })
}

fn bad_end(pod: &Pod, container: &ContainerStatus, end: &Terminated) -> Diagnosis {
    let (name, code) = (pod::name(pod), end.exit_code);
    let message = end.message.as_deref().unwrap_or_default().trim().to_owned();
    let container = pod::container_name(&container.name);
    match end.reason.as_deref().unwrap_or_default() {
        "OOMKilled" => Diagnosis::passing(
            Reason::OutOfMemory { pod: name, container, code },
            "give it more with --limits memory=…",
        ),
        "StartError" | "ContainerCannotRun" => Diagnosis::passing(
            Reason::NotRunnable { pod: name, container, code, message },
            "check that --image is an aicr image for the node's architecture",
        ),
        "ContainerStatusUnknown" => Diagnosis::passing(
            Reason::NodeLost { pod: name, message },
            "run again, or choose another node with --node-selector",
        ),
        _ => Diagnosis::passing(
            Reason::Crashed { pod: name, container, code, message },
            "read the agent's last lines; --debug has it say more",
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::diagnose::diagnose;
    use crate::diagnose::observed::Observed;
    use crate::diagnose::testing::{job, observed, pod};

    const POD: &str = "aicr-1-x7k2p";

    fn told(pod: Pod) -> String {
        let diagnosis = diagnose(&observed(job(&[]), vec![pod], vec![])).unwrap();
        assert!(diagnosis.heals, "only the Job can call an ended pod final: {diagnosis:?}");
        diagnosis.to_string()
    }

    fn terminated(end: &Value) -> Pod {
        pod(
            POD,
            &[("/status/phase", json!("Failed")), ("/status/containerStatuses/0/state", json!({"terminated": end}))],
        )
    }

    #[test]
    fn r24_a_crash_is_told_with_its_exit_code_and_signal() {
        for (code, text) in [
            (1, "exit code 1"),
            (139, "exit code 139 (SIGSEGV)"),
            (137, "exit code 137 (SIGKILL)"),
            (159, "exit code 159 (signal 31)"),
            (255, "exit code 255"),
        ] {
            let crash = terminated(&json!({"exitCode": code, "reason": "Error", "startedAt": "2026-08-21T14:22:33Z"}));
            assert_eq!(told(crash), format!("the agent in Pod gpu/{POD} ended with {text}"));
        }
        let crash = terminated(&json!({"exitCode": 2, "reason": "Error", "message": "bad flag\n"}));
        assert_eq!(told(crash), format!("the agent in Pod gpu/{POD} ended with exit code 2: bad flag"));
    }

    #[test]
    fn r24_memory_and_a_missing_command_have_reasons_of_their_own() {
        let killed = terminated(&json!({"exitCode": 137, "reason": "OOMKilled"}));
        assert_eq!(
            told(killed),
            format!("the agent in Pod gpu/{POD} ran out of memory and was killed (exit code 137)")
        );
        let message = r#"failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "aicr": executable file not found in $PATH"#;
        let missing = terminated(&json!({"exitCode": 128, "reason": "StartError", "message": message}));
        assert_eq!(told(missing), format!("the agent in Pod gpu/{POD} could not be run (exit code 128): {message}"));
    }

    #[test]
    fn r24_what_ended_the_whole_pod_counts_before_its_containers() {
        let killed = json!({"terminated": {"exitCode": 137, "reason": "Error"}});
        let with = |status: Value| {
            let mut status = status;
            status["containerStatuses"] = json!([{"name": "aicr", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": killed}]);
            pod(POD, &[("/status", status)])
        };
        let target = |reason: &str, message: &str| {
            with(json!({"phase": "Failed", "conditions":
                [{"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}]}))
        };
        let evicted = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 42Mi.";
        assert_eq!(
            told(with(json!({"phase": "Failed", "reason": "Evicted", "message": evicted}))),
            format!("Pod gpu/{POD} was evicted: {evicted}")
        );
        assert_eq!(
            told(target("PreemptionByScheduler", "default-scheduler: preempting to accommodate a higher priority pod")),
            format!("Pod gpu/{POD} was preempted: default-scheduler: preempting to accommodate a higher priority pod")
        );
        assert_eq!(
            told(target("EvictionByEvictionAPI", "Eviction API: evicting")),
            format!("Pod gpu/{POD} was evicted: Eviction API: evicting")
        );
        assert_eq!(
            told(target("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")),
            format!("Pod gpu/{POD} was evicted: Taint manager: deleting due to NoExecute taint")
        );
        assert_eq!(
            told(target("DeletionByPodGC", "PodGC: node no longer exists")),
            format!("Pod gpu/{POD} has lost its node: PodGC: node no longer exists")
        );
        let shutdown = "Pod was terminated in response to imminent node shutdown.";
        assert_eq!(
            told(with(json!({"phase": "Failed", "reason": "Terminated", "message": shutdown}))),
            format!("Pod gpu/{POD} has lost its node: {shutdown}")
        );
        let unexpected = "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0, which is unexpected";
        assert_eq!(
            told(pod(
                POD,
                &[("/status", json!({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": unexpected}))]
            )),
            format!("Pod gpu/{POD} was refused by its node (UnexpectedAdmissionError): {unexpected}")
        );
    }

    #[test]
    fn r24_a_deleted_pod_is_told_as_deleted_and_not_as_crashed() {
        let text = format!("Pod gpu/{POD} was deleted by someone else");
        let deletion = ("/metadata/deletionTimestamp", json!("2026-08-21T14:22:33Z"));
        assert_eq!(told(pod(POD, std::slice::from_ref(&deletion))), text);
        let killed = pod(
            POD,
            &[
                deletion.clone(),
                ("/status/phase", json!("Failed")),
                ("/status/containerStatuses/0/state", json!({"terminated": {"exitCode": 143, "reason": "Error"}})),
            ],
        );
        assert_eq!(told(killed.clone()), text);
        let mut gone = Observed { job: Some(job(&[])), ..Observed::default() };
        gone.see_deleted(killed);
        assert_eq!(diagnose(&gone).unwrap().to_string(), text);
        let crashed = pod(
            POD,
            &[
                deletion,
                ("/status/phase", json!("Failed")),
                ("/status/containerStatuses/0/state", json!({"terminated": {"exitCode": 3, "reason": "Error"}})),
            ],
        );
        assert_eq!(told(crashed), format!("the agent in Pod gpu/{POD} ended with exit code 3"));
    }

    #[test]
    fn r24_the_agents_end_counts_before_that_of_a_container_beside_it() {
        let both = pod(
            POD,
            &[
                ("/status/phase", json!("Failed")),
                (
                    "/status/containerStatuses",
                    json!([
                        {"name": "a-sidecar", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                         "state": {"terminated": {"exitCode": 143}}},
                        {"name": "aicr", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                         "state": {"terminated": {"exitCode": 7}}},
                    ]),
                ),
            ],
        );
        assert_eq!(told(both), format!("the agent in Pod gpu/{POD} ended with exit code 7"));
    }
}
