//! The double of the cluster's nodes: one kubelet for all of them.

mod agent;
mod container;
mod event;
mod kubelet;
mod logs;
mod status;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

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

pub(crate) use logs::Logs;

/// The nodes of a bed. They stop acting when this value is dropped.
pub(crate) struct Nodes {
    cluster: Arc<Cluster>,
    port: u16,
    kubelet: AbortHandle,
}

/// What the double knows of its cluster.
pub(super) struct Cluster {
    client: Client,
    server: String,
    ca: String,
    logs: Arc<Logs>,
    documents: Mutex<HashMap<(String, String), String>>,
}

/// A node to register: accepted by the scheduler, with room for anything.
#[derive(Clone, Debug)]
pub(crate) struct NodeSpec {
    name: String,
    labels: BTreeMap<String, String>,
    taints: Vec<serde_json::Value>,
}

impl NodeSpec {
    pub(crate) fn new(name: &str) -> Self {
        let labels = [("hostname", name), ("os", "linux"), ("arch", "amd64")];
        let labels = labels.map(|(key, value)| (format!("kubernetes.io/{key}"), value.to_owned()));
        Self { name: name.to_owned(), labels: labels.into(), taints: Vec::new() }
    }

    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        self.taints.push(json!({ "key": key, "value": value, "effect": effect }));
        self
    }
}

impl Nodes {
    /// Starts the kubelet, which serves logs on a port of its own.
    pub(crate) fn start(client: Client, server: &str, ca: &str, logs: Arc<Logs>, port: u16) -> Self {
        let cluster = Arc::new(Cluster {
            client,
            server: server.to_owned(),
            ca: ca.to_owned(),
            logs,
            documents: Mutex::default(),
        });
        let kubelet = tokio::spawn(kubelet::Kubelet::run(Arc::clone(&cluster))).abort_handle();
        Self { cluster, port, kubelet }
    }

    /// Registers a node.
    pub(crate) async fn add(&self, client: Client, spec: &NodeSpec) {
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
        let node = serde_json::from_value(node).expect("a valid node");
        nodes.create(&PostParams::default(), &node).await.expect("the node is registered");
        // Every node is created with the taint `not-ready`, which the node
        // lifecycle controller would take away.
        let taints = Patch::Merge(json!({ "spec": { "taints": spec.taints } }));
        nodes.patch(&spec.name, &PatchParams::default(), &taints).await.expect("the node is made ready");
    }

    /// Removes a node.
    pub(crate) async fn remove(&self, client: Client, name: &str) {
        let nodes = Api::<Node>::all(client);
        nodes.delete(name, &DeleteParams::default()).await.expect("the node is removed");
    }

    /// The document that the agent of a Job sent last, if it came to that.
    pub(crate) fn document(&self, namespace: &str, job: &str) -> Option<String> {
        self.cluster.documents().get(&(namespace.to_owned(), job.to_owned())).cloned()
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.kubelet.abort();
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
pub(crate) async fn token(
    client: &Client,
    namespace: &str,
    account: &str,
    request: &TokenRequest,
) -> kube::Result<String> {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
    let answer: TokenRequest = accounts.create_subresource("token", account, &PostParams::default(), request).await?;
    Ok(answer.status.and_then(|status| status.token).unwrap_or_default())
}
