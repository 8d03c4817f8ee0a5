//! What a run without trouble is waiting for.

use kube::api::ResourceExt as _;

use crate::diagnose::observed::Observed;
use crate::diagnose::{job, pod};

/// The stage that the Job has reached, for a person who waits.
pub(crate) fn state(observed: &Observed) -> String {
    let Some(run) = &observed.job else { return "the Job has not been seen yet".to_owned() };
    let Some(one) = observed.newest_pod() else { return format!("{} has no pod yet", job::name(run)) };
    let name = pod::name(one);
    let Some(node) = pod::node(one) else { return format!("{name} has no node yet") };
    let agent = pod::containers(one).next().and_then(|agent| agent.state.as_ref());
    if agent.is_some_and(|agent| agent.running.is_some()) {
        return format!("the agent runs in {name} on node {node}");
    }
    if agent.is_some_and(|agent| agent.terminated.is_some()) {
        return format!("the agent in {name} has ended; {} has not yet", job::name(run));
    }
    let uid = one.uid().unwrap_or_default();
    let last = observed.latest_event(&uid, |event| {
        matches!(event.reason.as_deref(), Some("Pulling" | "Pulled" | "Created" | "Started"))
    });
    match last.filter(|event| event.reason.as_deref() == Some("Pulling")).and_then(|event| event.message.as_deref()) {
        Some(pulling) => format!("{name} on node {node}: {pulling}"),
        None => format!("{name} is being started on node {node}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::diagnose::testing::{event, job, observed, pod};

    #[test]
    fn every_stage_has_its_sentence() {
        let node = ("/spec/nodeName", json!("node-1"));
        let placed = pod("p", std::slice::from_ref(&node));
        let agent = |state: serde_json::Value| pod("p", &[node.clone(), ("/status/containerStatuses/0/state", state)]);
        let pulling = event("p", "Pulling", "Pulling image \"x:1\"", "2026-08-21T14:22:33Z");
        let pulled = event("p", "Pulled", "Successfully pulled image \"x:1\" in 1s", "2026-08-21T14:22:34Z");
        assert_eq!(state(&Observed::default()), "the Job has not been seen yet");
        for (pods, events, text) in [
            (vec![], vec![], "Job gpu/aicr-1 has no pod yet"),
            (vec![pod("p", &[])], vec![], "Pod gpu/p has no node yet"),
            (vec![placed.clone()], vec![], "Pod gpu/p is being started on node node-1"),
            (vec![placed.clone()], vec![pulling.clone()], "Pod gpu/p on node node-1: Pulling image \"x:1\""),
            (vec![placed.clone()], vec![pulling, pulled], "Pod gpu/p is being started on node node-1"),
            (vec![agent(json!({"running": {}}))], vec![], "the agent runs in Pod gpu/p on node node-1"),
            (
                vec![agent(json!({"terminated": {"exitCode": 0}}))],
                vec![],
                "the agent in Pod gpu/p has ended; Job gpu/aicr-1 has not yet",
            ),
        ] {
            assert_eq!(state(&observed(job(&[]), pods, events)), text);
        }
    }
}
