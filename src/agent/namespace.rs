//! The run's Namespace: ensured, never run-owned (R7).

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::Instant;

use crate::agent::cluster::{Cluster, FIELD_MANAGER};
use crate::agent::created_set::Uid;
use crate::agent::event::Events;
use crate::agent::labels::{AICR, MANAGED_BY};
use crate::agent::manifests::Manifest;
use crate::agent::object::{Kind, ObjectRef};
use crate::error::ApiError;

/// What has to be done for the Namespace to be as a run wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It does not exist.
    Absent,
    /// It exists without our label.
    Unlabelled,
    /// It exists with our label.
    Ready,
    /// Another tool manages it.
    ManagedBy(String),
    /// It may not be read: it is taken to exist, and a later 404 says that it does not.
    Unreadable,
}

impl State {
    /// The state of a Namespace that exists.
    pub(crate) fn of(live: &ObjectMeta) -> Self {
        match live.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY)).map(String::as_str) {
            Some(AICR) => Self::Ready,
            Some(other) => Self::ManagedBy(other.to_owned()),
            None => Self::Unlabelled,
        }
    }
}

/// What tells this cluster from every other (R36): the UID of its `kube-system` Namespace, where that may be read.
/// RBAC: `get` on namespaces, where it can be had.
pub(crate) async fn cluster_uid(cluster: &Cluster, deadline: Instant) -> Option<Uid> {
    let live = cluster.metadata(&object("kube-system"), deadline).await.ok()??;
    Uid::new(live.metadata.uid.unwrap_or_default())
}

/// Makes the Namespace exist with our label. RBAC: `create` or `patch` on namespaces, where the state asks for it.
pub(crate) async fn ensure(
    cluster: &Cluster,
    name: &str,
    state: &State,
    deadline: Instant,
    events: &Events,
) -> Result<(), ApiError> {
    match state {
        State::Ready | State::Unreadable => Ok(()),
        State::ManagedBy(other) => {
            events.note(format!("namespace {name} is managed by {other}: its labels are left as they are"));
            Ok(())
        }
        State::Unlabelled => {
            let api: Api<Namespace> = Api::all(cluster.client());
            let label = Patch::Merge(json!({ "metadata": { "labels": { MANAGED_BY: AICR } } }));
            let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
            // The same label once more changes nothing, so this may be repeated.
            cluster
                .repeated(&format!("label Namespace {name}"), deadline, || {
                    api.patch_metadata(name, &parameters, &label)
                })
                .await?;
            events.note(format!("namespace {name} now has the label {MANAGED_BY}={AICR}"));
            Ok(())
        }
        State::Absent => match cluster.create(&manifest(name)).await {
            Ok(_) => {
                events.note(format!("namespace {name} created; it is kept after the run"));
                Ok(())
            }
            // Another run was faster: the namespace is there, which is all that is wanted.
            Err(error) if error.is_already_exists() => Ok(()),
            Err(error) => Err(error),
        },
    }
}

fn object(name: &str) -> ObjectRef {
    ObjectRef::cluster(Kind::Namespace, name)
}

/// The Namespace as a run creates it.
pub(crate) fn manifest(name: &str) -> Manifest {
    let body = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": name, "labels": { MANAGED_BY: AICR } },
    });
    Manifest { object: object(name), body }
}
