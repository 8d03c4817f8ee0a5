//! Objects for the tests of this module, in the shape in which servers send them.

use serde_json::{Value, json};

use crate::diagnose::objects::{Event, Job, Pod};
use crate::diagnose::observed::Observed;

/// UID of the Job.
pub(super) const JOB: &str = "b7f0c0de-5b1c-4c55-9d0e-0a1b2c3d4e5f";

/// The run's Job, with parts replaced: JSON pointer and value.
pub(super) fn job(parts: &[(&str, Value)]) -> Job {
    object(
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "aicr-1", "namespace": "gpu", "uid": JOB, "creationTimestamp": "2026-08-21T14:22:00Z"},
            "spec": {"suspend": false, "ttlSecondsAfterFinished": 3600, "template": {}},
            "status": {"startTime": "2026-08-21T14:22:00Z"},
        }),
        parts,
    )
}

/// A pod of the Job that waits for its node; its UID is its name.
pub(super) fn pod(name: &str, parts: &[(&str, Value)]) -> Pod {
    object(
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "gpu",
                "uid": name,
                "creationTimestamp": "2026-08-21T14:22:01Z",
                "ownerReferences": [{
                    "apiVersion": "batch/v1", "kind": "Job", "name": "aicr-1", "uid": JOB,
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {"containers": [{"name": "aicr", "image": "ghcr.io/nvidia/aicr:v1.1.2"}]},
            "status": {
                "phase": "Pending",
                "containerStatuses": [{
                    "name": "aicr", "image": "ghcr.io/nvidia/aicr:v1.1.2", "imageID": "", "ready": false,
                    "restartCount": 0,
                }],
            },
        }),
        parts,
    )
}

/// An event about the object with this UID.
pub(super) fn event(uid: &str, reason: &str, message: &str, at: &str) -> Event {
    object(
        json!({
            "metadata": {"name": "e", "namespace": "gpu", "uid": format!("{uid} {reason} {at}"), "creationTimestamp": at},
            "involvedObject": {"namespace": "gpu", "uid": uid},
            "reason": reason,
            "message": message,
            "firstTimestamp": at,
            "lastTimestamp": at,
        }),
        &[],
    )
}

pub(super) fn observed(job: Job, pods: Vec<Pod>, events: Vec<Event>) -> Observed {
    let mut observed = Observed { job: Some(job), ..Observed::default() };
    for pod in pods {
        observed.see_pod(pod);
    }
    for event in events {
        observed.see_event(event);
    }
    observed
}

fn object<K: serde::de::DeserializeOwned>(mut value: Value, parts: &[(&str, Value)]) -> K {
    for (pointer, part) in parts {
        set(&mut value, pointer, part.clone());
    }
    serde_json::from_value(value).unwrap()
}

/// Sets what a JSON pointer names. Its parent stands there already.
fn set(root: &mut Value, pointer: &str, part: Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    root.pointer_mut(parent).unwrap()[key] = part;
}
