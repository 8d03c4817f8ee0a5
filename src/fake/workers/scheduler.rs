//! The scheduler: puts a pod on the first node that it may run on.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference, Pod, Taint, Toleration};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Status;
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::json;

use super::super::api::kinds::{NODE, POD};
use super::super::cluster::Inner;
use super::super::node::event::Events;
use super::{objects, source};

/// Works until it is aborted.
pub(super) async fn run(cluster: Arc<Inner>, client: Client) {
    let mut changed = cluster.api().store().subscribe();
    loop {
        changed.borrow_and_update();
        let (nodes, pods) = (objects::<Node>(&cluster, &NODE), objects::<Pod>(&cluster, &POD));
        for pod in pods.iter().filter(|pod| waits(pod)) {
            place(&client, pod, &nodes).await;
        }
        if changed.changed().await.is_err() {
            return;
        }
    }
}

fn waits(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none()) && pod.metadata.deletion_timestamp.is_none()
}

async fn place(client: &Client, pod: &Pod, nodes: &[Node]) {
    let pods = Api::<Pod>::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let events = Events::of(client.clone(), pod.object_ref(&()), source("default-scheduler"));
    let name = pod.name_any();
    if let Some(node) = nodes.iter().find(|node| obstacle(pod, node).is_none()) {
        let node = node.name_any();
        let binding = Binding {
            metadata: pod.metadata.clone(),
            target: ObjectReference { kind: Some("Node".into()), name: Some(node.clone()), ..Default::default() },
        };
        let bound = pods.create_subresource::<_, Status>("binding", &name, &PostParams::default(), &binding).await;
        if bound.is_ok() {
            let namespace = pod.namespace().unwrap_or_default();
            let message = format!("Successfully assigned {namespace}/{name} to {node}");
            events.normal("", "Scheduled", &message).await;
        }
        return;
    }
    let message = why_nowhere(pod, nodes);
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    if conditions.into_iter().any(|condition| condition.message.as_ref() == Some(&message)) {
        return;
    }
    let condition = json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message });
    let patch = Patch::Strategic(json!({ "status": { "conditions": [condition] } }));
    // The next change brings another attempt.
    let _ = pods.patch_status(&name, &PatchParams::default(), &patch).await;
    events.warning("", "FailedScheduling", &message).await;
}

const SELECTOR: &str = "node(s) didn't match Pod's node affinity/selector";
const CORDONED: &str = "node(s) were unschedulable";

/// Why a pod may not run on a node.
fn obstacle(pod: &Pod, node: &Node) -> Option<String> {
    let (wanted, spec) = (pod.spec.as_ref()?, node.spec.clone().unwrap_or_default());
    if spec.unschedulable == Some(true) {
        return Some(CORDONED.to_owned());
    }
    let labels = node.labels();
    if wanted.node_selector.iter().flatten().any(|(key, value)| labels.get(key) != Some(value)) {
        return Some(SELECTOR.to_owned());
    }
    let tolerations = wanted.tolerations.clone().unwrap_or_default();
    let repels =
        |taint: &&Taint| taint.effect != "PreferNoSchedule" && !tolerations.iter().any(|t| tolerates(t, taint));
    let taint = spec.taints.as_ref()?.iter().find(repels)?;
    let value = taint.value.as_deref().unwrap_or_default();
    Some(format!("node(s) had untolerated taint {{{}: {value}}}", taint.key))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let key = toleration.key.as_deref().unwrap_or_default();
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let exists = toleration.operator.as_deref() == Some("Exists");
    (key.is_empty() && exists || key == taint.key)
        && (effect.is_empty() || effect == taint.effect)
        && (exists || toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default())
}

fn why_nowhere(pod: &Pod, nodes: &[Node]) -> String {
    if nodes.is_empty() {
        return "no nodes available to schedule pods".to_owned();
    }
    let mut obstacles = BTreeMap::<String, usize>::new();
    for obstacle in nodes.iter().filter_map(|node| obstacle(pod, node)) {
        *obstacles.entry(obstacle).or_default() += 1;
    }
    let said: Vec<String> = obstacles.iter().map(|(obstacle, count)| format!("{count} {obstacle}")).collect();
    format!("0/{} nodes are available: {}.", nodes.len(), said.join(", "))
}
