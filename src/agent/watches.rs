//! The open watches of a run, all seen in one place.

use std::fmt::Debug;

use kube::Api;
use kube::api::Resource;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::agent::cluster::Cluster;
use crate::agent::object::ObjectRef;
use crate::agent::watch::{self, Change, Selector};
use crate::diagnose::objects::{Event as ClusterEvent, Job, Pod};
use crate::error::ApiError;

/// What the watches of a run see.
#[derive(Debug)]
pub(crate) enum Seen {
    Job(Box<Change<Job>>),
    Pod(Box<Change<Pod>>),
    Event(Box<Change<ClusterEvent>>),
    /// The answer to [`Watches::look_up`]: what stands at the Job's name.
    LookedUp(Box<Result<Option<Job>, ApiError>>),
}

/// The open watches of a run. They end when this is dropped.
#[derive(Debug)]
pub(crate) struct Watches {
    cluster: Cluster,
    namespace: String,
    job: String,
    sender: mpsc::UnboundedSender<Seen>,
    receiver: mpsc::UnboundedReceiver<Seen>,
    tasks: JoinSet<()>,
}

impl Watches {
    /// Opens the watches of a Job, of pods that may be its, and of its events. The Job need not exist yet.
    /// RBAC in the namespace: `list` and `watch` on jobs, pods and, where they can be had, events.
    pub(crate) fn open(cluster: &Cluster, namespace: &str, job: &str) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let (cluster, namespace, job) = (cluster.clone(), namespace.to_owned(), job.to_owned());
        let mut watches = Self { cluster, namespace, job, sender, receiver, tasks: JoinSet::new() };
        let by_name = Selector { fields: Some(format!("metadata.name={}", watches.job)), labels: None };
        watches.follow("the Job", by_name, Seen::Job);
        watches.follow("pods", watches.pods(), Seen::Pod);
        watches.follow_events("Job", &watches.job.clone());
        watches
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.cluster.client(), &self.namespace)
    }

    /// The next thing seen.
    pub(crate) async fn next(&mut self) -> Seen {
        match self.receiver.recv().await {
            Some(seen) => seen,
            // Never: a sender lives in `self`.
            None => std::future::pending().await,
        }
    }

    /// What was seen already.
    pub(crate) fn at_hand(&mut self) -> Option<Seen> {
        self.receiver.try_recv().ok()
    }

    /// Adds the events about one object.
    pub(crate) fn follow_events(&mut self, kind: &str, name: &str) {
        let fields = format!("involvedObject.kind={kind},involvedObject.name={name}");
        self.follow("events", Selector { fields: Some(fields), labels: None }, Seen::Event);
    }

    /// Reads the Job once, beside its watch. RBAC: `get` on the Job.
    pub(crate) fn look_up(&mut self, job: &ObjectRef) {
        let (cluster, sender, job) = (self.cluster.clone(), self.sender.clone(), job.clone());
        self.tasks.spawn(async move {
            let standing = cluster.get(&job, Instant::now()).await;
            // A receiver that is gone has dropped the watches.
            let _ = sender.send(Seen::LookedUp(Box::new(standing)));
        });
    }

    /// Reads the pods once, beside their watch. RBAC: `list` on pods.
    pub(crate) async fn list_pods(&self) -> Result<Vec<Pod>, ApiError> {
        let (pods, _) = watch::list(&self.cluster, &self.api(), "pods", &self.pods()).await?;
        Ok(pods)
    }

    /// The Job controller sets this label on its pods on every version; it narrows and proves nothing (R22).
    fn pods(&self) -> Selector {
        Selector { labels: Some(format!("job-name={}", self.job)), fields: None }
    }

    fn follow<K>(&mut self, what: &'static str, selector: Selector, seen: fn(Box<Change<K>>) -> Seen)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + Debug
            + Send
            + 'static,
    {
        let (cluster, api, sender) = (self.cluster.clone(), self.api(), self.sender.clone());
        self.tasks.spawn(async move {
            watch::follow(cluster, api, what, selector, |change| {
                // A receiver that is gone has dropped the watches.
                let _ = sender.send(seen(Box::new(change)));
            })
            .await;
        });
    }
}
