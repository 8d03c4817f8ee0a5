//! The double's kubelet: takes the pods bound to its nodes from creation to deletion.

use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures::StreamExt;
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions, WatchEvent, WatchParams},
};
use tokio::{
    sync::{mpsc, watch},
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    Cluster,
    container::{Acting, killed},
    status::{self, ContainerState},
};

/// Pause before anything is tried again.
const PAUSE: Duration = Duration::from_millis(200);

/// The pods of the nodes, by UID.
pub(super) struct Kubelet {
    cluster: Arc<Cluster>,
    pods: HashMap<String, Worker>,
}

/// The task that acts for one pod, and how it learns of the pod's deletion.
struct Worker {
    pod: Arc<Pod>,
    deletion: watch::Sender<Option<Duration>>,
    task: AbortHandle,
}

impl Kubelet {
    /// Works until it is aborted.
    pub(super) async fn run(cluster: Arc<Cluster>) {
        let api = Api::<Pod>::all(cluster.client.clone());
        let mut kubelet = Self { cluster, pods: HashMap::new() };
        loop {
            // It ends when the API server is away or has forgotten our place: begin anew.
            let Err(_) = kubelet.follow(&api).await;
            sleep(PAUSE).await;
        }
    }

    /// Takes in the pods as they are and then each change.
    async fn follow(&mut self, api: &Api<Pod>) -> kube::Result<Infallible> {
        const BOUND: &str = "spec.nodeName!=";
        let list = api.list(&ListParams::default().fields(BOUND)).await?;
        let listed: HashSet<_> = list.items.iter().filter_map(ResourceExt::uid).collect();
        let gone: Vec<_> = self.pods.keys().filter(|uid| !listed.contains(*uid)).cloned().collect();
        for uid in &gone {
            self.forget(uid);
        }
        let mut version = list.metadata.resource_version.unwrap_or_default();
        for pod in list.items {
            self.see(pod);
        }
        loop {
            let mut changes = pin!(api.watch(&WatchParams::default().fields(BOUND), &version).await?);
            while let Some(change) = changes.next().await {
                match change? {
                    WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                        version = pod.resource_version().unwrap_or_default();
                        self.see(pod);
                    }
                    WatchEvent::Deleted(pod) => {
                        version = pod.resource_version().unwrap_or_default();
                        self.forget(&pod.uid().unwrap_or_default());
                    }
                    WatchEvent::Bookmark(mark) => version = mark.metadata.resource_version,
                    WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
                }
            }
        }
    }

    fn see(&mut self, pod: Pod) {
        let grace = pod.metadata.deletion_timestamp.as_ref().map(|_| {
            let seconds = pod.metadata.deletion_grace_period_seconds.unwrap_or_default();
            Duration::from_secs(seconds.unsigned_abs())
        });
        let worker = self.pods.entry(pod.uid().unwrap_or_default()).or_insert_with(|| {
            let pod = Arc::new(pod);
            let (deletion, receiver) = watch::channel(None);
            let task = tokio::spawn(live(Arc::clone(&self.cluster), Arc::clone(&pod), receiver)).abort_handle();
            Worker { pod, deletion, task }
        });
        // Only a change counts: each status on the way would begin the grace period anew.
        worker.deletion.send_if_modified(|known| {
            let changed = grace.is_some() && *known != grace;
            if changed {
                *known = grace;
            }
            changed
        });
    }

    fn forget(&mut self, uid: &str) {
        if let Some(worker) = self.pods.remove(uid) {
            worker.task.abort();
            let pod = &worker.pod;
            self.cluster.logs.remove(&pod.namespace().unwrap_or_default(), &pod.name_any());
        }
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.pods.values().for_each(|worker| worker.task.abort());
    }
}

/// A pod's life on its node.
async fn live(cluster: Arc<Cluster>, pod: Arc<Pod>, mut deletion: watch::Receiver<Option<Duration>>) {
    let term = CancellationToken::new();
    let (sender, mut changes) = mpsc::unbounded_channel();
    let containers = || pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut states: Vec<_> = containers().map(|_| ContainerState::waiting("ContainerCreating", "")).collect();
    let started = Timestamp::now();

    report(&cluster, &pod, started, &states).await;
    let mut acting = JoinSet::new();
    for (index, container) in containers().cloned().enumerate() {
        let log = cluster.logs.of(&pod.namespace().unwrap_or_default(), &pod.name_any(), &container.name);
        let (cluster, pod) = (Arc::clone(&cluster), Arc::clone(&pod));
        let (term, states) = (term.clone(), sender.clone());
        acting.spawn(Acting { cluster, pod, index, container, log, term, states }.act());
    }
    let mut kill_at = None;
    while !states.iter().all(ContainerState::is_terminated) {
        tokio::select! {
            Some((index, state)) = changes.recv() => {
                states[index] = state;
                while let Ok((index, state)) = changes.try_recv() {
                    states[index] = state;
                }
            }
            Ok(()) = deletion.changed() => {
                // A later delete may shorten the grace period.
                if let Some(grace) = *deletion.borrow_and_update() {
                    term.cancel();
                    kill_at = Some(Instant::now() + grace);
                }
                continue;
            }
            () = sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some() => {
                acting.shutdown().await;
                for state in states.iter_mut().filter(|state| !state.is_terminated()) {
                    *state = ContainerState::Terminated(killed());
                }
            }
        }
        report(&cluster, &pod, started, &states).await;
    }
    // The receiver fails once the pod is forgotten, and then there is nothing to delete.
    if deletion.wait_for(Option::is_some).await.is_ok() {
        delete(&cluster, &pod).await;
    }
}

/// Brings the pod's status up to date, however long the API server is away.
async fn report(cluster: &Cluster, pod: &Pod, started: Timestamp, states: &[ContainerState]) {
    let api = Api::<Pod>::namespaced(cluster.client.clone(), &pod.namespace().unwrap_or_default());
    let patch = Patch::Strategic(status::patch(pod, started, states));
    while let Err(e) = api.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await {
        if is_final(&e) {
            break;
        }
        sleep(PAUSE).await;
    }
}

/// Deletes the pod for good: it has ended.
async fn delete(cluster: &Cluster, pod: &Pod) {
    let api = Api::<Pod>::namespaced(cluster.client.clone(), &pod.namespace().unwrap_or_default());
    let preconditions = Preconditions { uid: pod.uid(), ..Preconditions::default() };
    let now = DeleteParams::default().grace_period(0).preconditions(preconditions);
    while let Err(e) = api.delete(&pod.name_any(), &now).await {
        if is_final(&e) {
            break;
        }
        sleep(PAUSE).await;
    }
}

/// Whether another attempt would fail alike: the pod is gone or is another one.
fn is_final(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 429)
}
