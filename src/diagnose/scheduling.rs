//! No node takes the pod: the scheduler's word.

use crate::diagnose::objects::Pod;
use crate::diagnose::pod;
use crate::diagnose::reason::{Diagnosis, Reason};

/// What the scheduler found wrong with every node. Nodes come and go, so it may pass.
pub(super) fn unschedulable(pod: &Pod) -> Option<Diagnosis> {
    let condition = pod::condition(pod, "PodScheduled").filter(|condition| condition.status == "False")?;
    let message = condition.message.clone().or_else(|| condition.reason.clone())?;
    let next_step = next_step(&message);
    Some(Diagnosis::passing(Reason::Unschedulable { pod: pod::name(pod), message }, next_step))
}

fn next_step(message: &str) -> &'static str {
    let says = |phrase| message.contains(phrase);
    if says("scheduling gates") {
        "see which controller holds the pod with a scheduling gate"
    } else if says("Insufficient nvidia.com/gpu") {
        "wait until a GPU is free, or leave --require-gpu out"
    } else if says("didn't match Pod's node affinity/selector") && says("untolerated taint") {
        "compare --node-selector and --toleration with the nodes' labels and taints in kubectl describe nodes"
    } else if says("didn't match Pod's node affinity/selector") {
        "compare --node-selector with kubectl get nodes --show-labels"
    } else if says("Insufficient") {
        "wait for room, or lower --requests"
    } else if says("untolerated taint") {
        "tolerate the taint with --toleration; without that flag the agent tolerates all"
    } else {
        "see kubectl get nodes"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::diagnose::diagnose;
    use crate::diagnose::testing::{job, observed, pod};

    #[test]
    fn r24_the_schedulers_sentence_is_told_with_a_next_step() {
        for (reason, message, next_step) in [
            (
                "Unschedulable",
                "0/3 nodes are available: 3 node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
                "tolerate the taint with --toleration; without that flag the agent tolerates all",
            ),
            (
                "Unschedulable",
                "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.",
                "compare --node-selector with kubectl get nodes --show-labels",
            ),
            (
                "Unschedulable",
                "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 node(s) had untolerated taint(s).",
                "compare --node-selector and --toleration with the nodes' labels and taints in kubectl describe nodes",
            ),
            ("Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.", "wait for room, or lower --requests"),
            (
                "Unschedulable",
                "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
                "wait until a GPU is free, or leave --require-gpu out",
            ),
            ("Unschedulable", "no nodes available to schedule pods", "see kubectl get nodes"),
            (
                "SchedulingGated",
                "Scheduling is blocked due to non-empty scheduling gates",
                "see which controller holds the pod with a scheduling gate",
            ),
        ] {
            let condition = json!([{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}]);
            let waiting = pod("aicr-1-x7k2p", &[("/status/conditions", condition)]);
            let diagnosis = diagnose(&observed(job(&[]), vec![waiting], vec![])).unwrap();
            assert_eq!(diagnosis.to_string(), format!("Pod gpu/aicr-1-x7k2p finds no node: {message}"));
            assert_eq!((diagnosis.next_step.as_str(), diagnosis.heals), (next_step, true));
        }
    }

    #[test]
    fn a_pod_that_has_a_node_or_was_not_looked_at_yet_gives_no_diagnosis() {
        let placed = pod("p", &[("/status/conditions", json!([{"type": "PodScheduled", "status": "True"}]))]);
        assert_eq!(diagnose(&observed(job(&[]), vec![placed], vec![])), None);
        assert_eq!(diagnose(&observed(job(&[]), vec![pod("p", &[])], vec![])), None);
    }
}
