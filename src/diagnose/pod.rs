//! What the themes need to know of a pod.

use kube::api::ResourceExt as _;

use crate::agent::manifests::CONTAINER;
use crate::diagnose::objects::{Condition, ContainerStatus, Pod};

/// Whether the Job with this UID controls the pod (R22).
pub(crate) fn is_owned_by(pod: &Pod, job_uid: &str) -> bool {
    pod.owner_references()
        .iter()
        .any(|owner| owner.controller == Some(true) && owner.kind == "Job" && owner.uid == job_uid)
}

/// `Pod namespace/name`
pub(super) fn name(pod: &Pod) -> String {
    format!("Pod {}/{}", pod.namespace().unwrap_or_default(), pod.name_any())
}

/// How a container is spoken of: one is the agent, the others were put beside it.
pub(super) fn container_name(container: &str) -> String {
    if container == CONTAINER { "the agent".to_owned() } else { format!("container {container}") }
}

/// The states of the pod's containers, the agent's first: it is what the run waits for.
pub(super) fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.as_ref();
    let main = move || status.and_then(|status| status.container_statuses.as_ref()).into_iter().flatten();
    let init = status.and_then(|status| status.init_container_statuses.as_ref()).into_iter().flatten();
    let agent = main().filter(|container| container.name == CONTAINER);
    agent.chain(init).chain(main().filter(|container| container.name != CONTAINER))
}

pub(super) fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a Condition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

pub(super) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

pub(super) fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|node| !node.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::diagnose::testing::{JOB, pod};

    #[test]
    fn r22_only_the_controlling_owner_with_the_jobs_uid_makes_a_pod_ours() {
        let owned =
            |owner: serde_json::Value| is_owned_by(&pod("p", &[("/metadata/ownerReferences", json!([owner]))]), JOB);
        let as_owner = |kind: &str, uid: &str, controller: bool| {
            owned(
                json!({"apiVersion": "batch/v1", "kind": kind, "name": "aicr-1", "uid": uid, "controller": controller}),
            )
        };
        assert!(is_owned_by(&pod("p", &[]), JOB));
        assert!(as_owner("Job", JOB, true));
        assert!(!as_owner("Job", JOB, false));
        assert!(!as_owner("Job", "another-uid", true));
        assert!(!as_owner("ReplicaSet", JOB, true));
        assert!(!owned(json!({"apiVersion": "batch/v1", "kind": "Job", "name": "aicr-1", "uid": JOB})));
        let labelled =
            pod("p", &[("/metadata/ownerReferences", json!([])), ("/metadata/labels", json!({"job-name": "aicr-1"}))]);
        assert!(!is_owned_by(&labelled, JOB));
    }
}
