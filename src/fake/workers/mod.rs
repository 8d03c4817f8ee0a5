//! What works in a cluster beside its API: a Job controller, a scheduler, and nodes.

mod jobs;
mod scheduler;

use std::sync::Arc;

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::EventSource;
use kube::Client;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use super::api::kind::Kind;
use super::api::user::User;
use super::cluster::{Cluster, Inner};
use super::node::{NodeSpec, Nodes};

/// Names of what works here start so; their requests are not in the log.
pub(super) const COMPONENT: &str = "system:kube-";

/// The Job controller, the scheduler and the nodes of a cluster. They stop when this is dropped.
#[derive(Debug)]
pub struct Workers {
    nodes: Nodes,
    cluster: Cluster,
    _controllers: JoinSet<()>,
}

impl Cluster {
    /// Lets Jobs run: their pods are created, scheduled to one of these nodes, and act as their image says.
    ///
    /// An image of `registry.test/NAME:WORDS` acts by its words, joined by `_`: `success`, `slow-2s`, `fail-3`,
    /// `logs-10`, `big-512KiB`, `hang`, `oom`, `evicted`, `never-starts`, `image-pull-backoff`, `no-write` and others.
    /// Any other image is the agent's, and succeeds: it reads what it may, writes a document, and ends.
    ///
    /// # Errors
    /// If a node cannot be registered.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn start_workers(&self, nodes: &[NodeSpec]) -> kube::Result<Workers> {
        let client = self.component("kubelet");
        let cluster = self.clone();
        let connect = move |token: String| {
            // A token that is unknown by now is nobody's.
            let user = cluster.user_of_token(&token).unwrap_or_else(|| User::new("system:anonymous", &[]));
            let client = cluster.client_as(&user);
            async move { client }.boxed()
        };
        let doubles = Nodes::start(client.clone(), Arc::new(connect), self.logs(), 0);
        for node in nodes {
            doubles.add(client.clone(), node).await?;
        }
        let mut controllers = JoinSet::new();
        controllers.spawn(jobs::run(self.inner(), self.component("controller-manager")));
        controllers.spawn(scheduler::run(self.inner(), self.component("scheduler")));
        Ok(Workers { nodes: doubles, cluster: self.clone(), _controllers: controllers })
    }

    fn component(&self, name: &str) -> Client {
        self.client_as(&User::new(&format!("{COMPONENT}{name}"), &["system:masters"]))
    }
}

impl Workers {
    /// Adds a node.
    ///
    /// # Errors
    /// If it cannot be registered.
    pub async fn add_node(&self, node: &NodeSpec) -> kube::Result<()> {
        self.nodes.add(self.cluster.component("kubelet"), node).await
    }

    /// The document that the agent of a Job wrote last, if it came to that.
    #[must_use]
    pub fn document(&self, namespace: &str, job: &str) -> Option<String> {
        self.nodes.document(namespace, job)
    }
}

/// The objects of a kind as they are stored now.
fn objects<K: DeserializeOwned>(cluster: &Inner, kind: &'static Kind) -> Vec<K> {
    let api = cluster.api();
    let stored = api.store().list(kind.resource(), None);
    // What is stored went through this type.
    stored.filter_map(|(_, object)| serde_json::from_value(object.as_ref().clone()).ok()).collect()
}

fn source(component: &str) -> EventSource {
    EventSource { component: Some(component.to_owned()), host: None }
}
