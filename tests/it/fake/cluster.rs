//! A cluster in memory with a run's namespace in it, and what stands there.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use kubectl_aicr::fake::{Cluster, NodeSpec, Workers};
use kubectl_aicr::{Config, Deployer};
use kubectl_aicr::{Fate, Removal};
use serde_json::json;

pub(super) const NAMESPACE: &str = "gpu-operator";

/// Kinds of a run's objects.
const KINDS: [(&str, &str); 7] = [
    ("batch", "Job"),
    ("", "ServiceAccount"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("", "ConfigMap"),
];

/// An empty cluster with [`NAMESPACE`].
pub(super) async fn cluster() -> Cluster {
    let cluster = Cluster::new();
    let namespaces = Api::<Namespace>::all(cluster.client());
    let namespace = serde_json::from_value(json!({ "metadata": { "name": NAMESPACE } })).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    cluster
}

pub(super) async fn workers(cluster: &Cluster) -> Workers {
    cluster.start_workers(&[NodeSpec::new("worker-1")]).await.unwrap()
}

pub(super) fn config(script: &str) -> Config {
    Config::new(NAMESPACE).image(format!("registry.test/aicr:{script}")).cleanup_timeout(Duration::from_secs(10))
}

pub(super) fn deployer(cluster: &Cluster, script: &str) -> Deployer {
    Deployer::new(cluster.client(), config(script)).unwrap()
}

/// What stands on the cluster of any run: `Kind name`.
pub(super) async fn standing(client: &Client) -> Vec<String> {
    let mut found = Vec::new();
    for (group, kind) in KINDS {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
        let all = Api::<DynamicObject>::all_with(client.clone(), &resource);
        let of_runs = ListParams::default().labels("app.kubernetes.io/name=aicr");
        found.extend(all.list(&of_runs).await.unwrap().iter().map(|object| format!("{kind} {}", object.name_any())));
    }
    found
}

pub(super) async fn assert_clean(cluster: &Cluster, what: &str) {
    let left = standing(&cluster.client()).await;
    assert!(left.is_empty(), "{what}: left on the cluster: {left:#?}");
}

/// Fails if cleanup left something.
#[track_caller]
pub(super) fn assert_nothing_left(removals: &[Removal], what: &str) {
    let left: Vec<_> = removals.iter().filter(|removal| !matches!(removal.fate, Fate::Deleted | Fate::Gone)).collect();
    assert!(left.is_empty(), "{what}: {left:#?}");
}
