//! Doubles of a cluster's nodes: one kubelet for all of them, whose containers act by the script that their image
//! names. They work with nothing but a client, so that they serve on a real API server, too.

mod agent;
mod container;
mod document;
pub(super) mod event;
mod kubelet;
mod script;
mod status;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use futures::future::BoxFuture;
use k8s_openapi::api::{
    authentication::v1::TokenRequest,
    core::v1::{Node, Pod, ServiceAccount},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::task::AbortHandle;

pub use super::logs::Logs;

/// The nodes of a cluster. They stop acting when this value is dropped.
#[derive(Debug)]
pub struct Nodes {
    cluster: Arc<Cluster>,
    port: u16,
    kubelet: AbortHandle,
}

/// Gives a client for a bearer token.
pub type Connect = Arc<dyn Fn(String) -> BoxFuture<'static, Client> + Send + Sync>;

/// What the double knows of its cluster.
pub(super) struct Cluster {
    client: Client,
    connect: Connect,
    logs: Arc<Logs>,
    documents: Mutex<HashMap<(String, String), String>>,
}

/// A node to register: accepted by the scheduler, with room for anything.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    name: String,
    labels: BTreeMap<String, String>,
    taints: Vec<serde_json::Value>,
}

impl NodeSpec {
    /// A node of that name, with the labels that every node has.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let labels = [("hostname", name), ("os", "linux"), ("arch", "amd64")];
        let labels = labels.map(|(key, value)| (format!("kubernetes.io/{key}"), value.to_owned()));
        Self { name: name.to_owned(), labels: labels.into(), taints: Vec::new() }
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds a taint; the effect is `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    #[must_use]
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        self.taints.push(json!({ "key": key, "value": value, "effect": effect }));
        self
    }
}

impl Nodes {
    /// Starts the kubelet. It writes container logs into `logs`, which whoever listens on `port` serves.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn start(client: Client, connect: Connect, logs: Arc<Logs>, port: u16) -> Self {
        let cluster = Arc::new(Cluster { client, connect, logs, documents: Mutex::default() });
        let kubelet = tokio::spawn(kubelet::Kubelet::run(Arc::clone(&cluster))).abort_handle();
        Self { cluster, port, kubelet }
    }

    /// Registers a node.
    ///
    /// # Errors
    /// If the API server refuses it.
    pub async fn add(&self, client: Client, spec: &NodeSpec) -> kube::Result<()> {
        let capacity = json!({
            "cpu": "10k",
            "memory": "100Ti",
            "ephemeral-storage": "100Ti",
            "pods": "100k",
            "nvidia.com/gpu": "1k",
        });
        let conditions = [("Ready", "True"), ("MemoryPressure", "False"), ("DiskPressure", "False")];
        let conditions = conditions.map(|(kind, status)| json!({ "type": kind, "status": status }));
        let node = json!({
            "metadata": { "name": spec.name, "labels": spec.labels },
            "status": {
                "capacity": capacity,
                "allocatable": capacity,
                "conditions": conditions,
                "addresses": [
                    { "type": "InternalIP", "address": "127.0.0.1" },
                    { "type": "Hostname", "address": spec.name },
                ],
                "daemonEndpoints": { "kubeletEndpoint": { "Port": self.port } },
                "nodeInfo": {
                    "architecture": "amd64",
                    "bootID": "",
                    "containerRuntimeVersion": "containerd://2.1.4",
                    "kernelVersion": "6.8.0-79-generic",
                    "kubeProxyVersion": "",
                    "kubeletVersion": "v1.36.3",
                    "machineID": "",
                    "operatingSystem": "linux",
                    "osImage": "Ubuntu 24.04.3 LTS",
                    "systemUUID": "",
                },
            },
        });
        let nodes = Api::<Node>::all(client);
        let node = serde_json::from_value(node).map_err(kube::Error::SerdeError)?;
        nodes.create(&PostParams::default(), &node).await?;
        // Every node is created with the taint `not-ready`, which the node
        // lifecycle controller would take away.
        let taints = Patch::Merge(json!({ "spec": { "taints": spec.taints } }));
        nodes.patch(&spec.name, &PatchParams::default(), &taints).await.map(drop)
    }

    /// Removes a node.
    ///
    /// # Errors
    /// If the API server refuses it.
    pub async fn remove(&self, client: Client, name: &str) -> kube::Result<()> {
        let nodes = Api::<Node>::all(client);
        nodes.delete(name, &DeleteParams::default()).await.map(drop)
    }

    /// The document that the agent of a Job sent last, if it came to that.
    #[must_use]
    pub fn document(&self, namespace: &str, job: &str) -> Option<String> {
        self.cluster.documents().get(&(namespace.to_owned(), job.to_owned())).cloned()
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.kubelet.abort();
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}

impl Cluster {
    /// Remembers what the agent of a pod's Job is about to write.
    fn wrote(&self, pod: &Pod, document: &str) {
        let job = pod.labels().get("batch.kubernetes.io/job-name").cloned().unwrap_or_default();
        self.documents().insert((pod.namespace().unwrap_or_default(), job), document.to_owned());
    }

    fn documents(&self) -> std::sync::MutexGuard<'_, HashMap<(String, String), String>> {
        self.documents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A token of a `ServiceAccount`.
///
/// # Errors
/// If the API server refuses it.
pub async fn token(client: &Client, namespace: &str, account: &str, request: &TokenRequest) -> kube::Result<String> {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
    let answer: TokenRequest = accounts.create_subresource("token", account, &PostParams::default(), request).await?;
    Ok(answer.status.and_then(|status| status.token).unwrap_or_default())
}
