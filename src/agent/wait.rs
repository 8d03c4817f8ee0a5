//! Waiting for the agent: watches, not polling; the Job decides (R20–R22).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event as ClusterEvent, Pod};
use kube::Api;
use kube::api::ResourceExt as _;
use tokio::sync::{mpsc, watch as flag};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, sleep_until, timeout};

use crate::agent::cluster::Cluster;
use crate::agent::created_set::Uid;
use crate::agent::event::{Event, Events};
use crate::agent::logs::{self, Tail};
use crate::agent::manifests::CONTAINER;
use crate::agent::object::ObjectRef;
use crate::agent::watch::{self, Change, Selector};
use crate::diagnose::evidence::Evidence;
use crate::diagnose::{self, Diagnosis, Observed, Verdict};
use crate::error::{ApiError, Error};

/// How long the Job may stay unseen by its watch before it is looked for by name.
const UNSEEN: Duration = Duration::from_secs(3);

/// How long the end of the log may take after the Job has ended.
const LOG_DRAIN: Duration = Duration::from_secs(5);

/// What the watches of a run see.
#[derive(Debug)]
enum Seen {
    Job(Box<Change<Job>>),
    Pod(Box<Change<Pod>>),
    Event(Box<Change<ClusterEvent>>),
}

/// The open watches of a run. They end when this is dropped.
#[derive(Debug)]
pub(crate) struct Watches {
    cluster: Cluster,
    namespace: String,
    sender: mpsc::UnboundedSender<Seen>,
    receiver: mpsc::UnboundedReceiver<Seen>,
    tasks: Vec<AbortHandle>,
}

impl Drop for Watches {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Watches {
    /// Opens the watches of a Job, of pods that may be its, and of its events. The Job need not exist yet.
    /// RBAC in the namespace: `list` and `watch` on jobs, pods and, where they can be had, events.
    pub(crate) fn open(cluster: &Cluster, namespace: &str, job: &str) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut watches =
            Self { cluster: cluster.clone(), namespace: namespace.to_owned(), sender, receiver, tasks: Vec::new() };
        let by_name = Selector { fields: Some(format!("metadata.name={job}")), labels: None };
        watches.follow("the Job", by_name, Seen::Job);
        // The Job controller sets this label on its pods on every version; it narrows and proves nothing (R22).
        let of_job = Selector { labels: Some(format!("job-name={job}")), fields: None };
        watches.follow("pods", of_job, Seen::Pod);
        watches.follow_events("Job", job);
        watches
    }

    /// Adds the events about one object.
    fn follow_events(&mut self, kind: &str, name: &str) {
        let fields = format!("involvedObject.kind={kind},involvedObject.name={name}");
        self.follow("events", Selector { fields: Some(fields), labels: None }, Seen::Event);
    }

    fn follow<K>(&mut self, what: &'static str, selector: Selector, seen: fn(Box<Change<K>>) -> Seen)
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug
            + Send
            + 'static,
    {
        let api: Api<K> = Api::namespaced(self.cluster.client(), &self.namespace);
        let (cluster, sender) = (self.cluster.clone(), self.sender.clone());
        let task = tokio::spawn(async move {
            watch::follow(cluster, api, what, selector, |change| {
                // A receiver that is gone has dropped the watches.
                let _ = sender.send(seen(Box::new(change)));
            })
            .await;
        });
        self.tasks.push(task.abort_handle());
    }
}

/// The agent's log while it is followed.
#[derive(Debug)]
struct FollowedLog {
    ended: flag::Sender<bool>,
    task: JoinHandle<()>,
}

impl Drop for FollowedLog {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a run waits for, and what it knows.
#[derive(Debug)]
pub(crate) struct Wait {
    watches: Watches,
    job: ObjectRef,
    uid: Uid,
    events: Events,
    observed: Observed,
    /// The Job as it stands, whether or not it is ours.
    standing: Option<Uid>,
    seen: bool,
    event_sources: BTreeSet<String>,
    said: Option<String>,
    broken: BTreeMap<&'static str, String>,
    log: Option<FollowedLog>,
    log_started: bool,
    tail: Tail,
}

/// How a wait ended that did not fail.
pub(crate) type Outcome = Result<(), Error>;

impl Wait {
    /// Waits for the Job that the server gave this UID.
    pub(crate) fn new(watches: Watches, job: ObjectRef, uid: Uid, events: Events) -> Self {
        Self {
            watches,
            job,
            uid,
            events,
            observed: Observed::default(),
            standing: None,
            seen: false,
            event_sources: BTreeSet::new(),
            said: None,
            broken: BTreeMap::new(),
            log: None,
            log_started: false,
            tail: Tail::default(),
        }
    }

    /// Waits until the Job has ended, was lost, cannot succeed, or the deadline has passed.
    pub(crate) async fn run(&mut self, deadline: Instant, after: Duration) -> Outcome {
        let look = Instant::now() + UNSEEN;
        let mut looked = false;
        loop {
            tokio::select! {
                biased;
                Some(seen) = self.watches.receiver.recv() => {
                    self.take(seen);
                    // What came at once is judged at once.
                    while let Ok(seen) = self.watches.receiver.try_recv() {
                        self.take(seen);
                    }
                    if let Some(outcome) = self.judge() {
                        self.drain_log().await;
                        return outcome;
                    }
                }
                () = sleep_until(look), if !self.seen && !looked => {
                    looked = true;
                    self.look_for_the_job(deadline).await?;
                }
                () = sleep_until(deadline) => {
                    return Err(Error::TimedOut { after, waiting_for: self.waiting_for() });
                }
            }
        }
    }

    /// What was seen, for the case that the run fails.
    pub(crate) async fn evidence(&self) -> Evidence {
        let pod = self.observed.pods.values().next().map(Pod::name_any);
        let mut log = self.tail.lines();
        // A log that could not be followed may be readable once the container has ended.
        if log.is_empty()
            && let Some(pod) = pod.filter(|_| self.log_started)
        {
            let api = Api::namespaced(self.watches.cluster.client(), &self.watches.namespace);
            log = logs::last_lines(&self.watches.cluster, &api, &pod).await;
        }
        Evidence::of(&self.observed, log)
    }

    /// A Job that is deleted before its watch has listed it is never seen, and nothing would ever be.
    async fn look_for_the_job(&self, deadline: Instant) -> Outcome {
        let live = self.watches.cluster.metadata(&self.job, deadline).await;
        match live.map(|live| live.and_then(|live| live.metadata.uid)) {
            Ok(None) => Err(self.lost("was deleted by someone else")),
            Ok(Some(uid)) if uid != self.uid.as_str() => Err(self.lost(REPLACED)),
            // A watch that is broken at the moment says so itself.
            Ok(Some(_)) | Err(_) => Ok(()),
        }
    }

    fn take(&mut self, seen: Seen) {
        match seen {
            Seen::Job(change) => self.take_job(*change),
            Seen::Pod(change) => self.take_pod(*change),
            Seen::Event(change) => self.take_event(*change),
        }
    }

    fn take_job(&mut self, change: Change<Job>) {
        let standing = match change {
            Change::Broken(error) => return self.say_broken("the Job", &error),
            Change::Listed(jobs) => jobs.into_iter().next(),
            Change::Applied(job) => Some(job),
            Change::Deleted(_) => None,
        };
        self.broken.remove("the Job");
        self.standing = standing.as_ref().and_then(|job| Uid::new(job.uid().unwrap_or_default()));
        if self.standing.as_ref() == Some(&self.uid) {
            self.seen = true;
            self.observed.job = standing;
        }
    }

    fn take_pod(&mut self, change: Change<Pod>) {
        match change {
            Change::Broken(error) => return self.say_broken("the agent's pod", &error),
            Change::Listed(pods) => {
                let listed: BTreeSet<_> = pods.iter().filter_map(Pod::uid).collect();
                self.observed.pods.retain(|uid, _| listed.contains(uid));
                for pod in pods {
                    self.take_live_pod(pod);
                }
            }
            Change::Applied(pod) => self.take_live_pod(pod),
            Change::Deleted(pod) => {
                if diagnose::is_owned_by(&pod, self.uid.as_str()) {
                    self.observed.see_deleted(pod);
                }
            }
        }
        self.broken.remove("the agent's pod");
    }

    fn take_live_pod(&mut self, pod: Pod) {
        if !diagnose::is_owned_by(&pod, self.uid.as_str()) {
            return;
        }
        let name = pod.name_any();
        if self.event_sources.insert(name.clone()) {
            self.watches.follow_events("Pod", &name);
        }
        let (started, ended) = agent_state(&pod);
        if started && !self.log_started {
            self.log_started = true;
            let (sender, receiver) = flag::channel(false);
            let api = Api::namespaced(self.watches.cluster.client(), &self.watches.namespace);
            let (cluster, events, tail) = (self.watches.cluster.clone(), self.events.clone(), self.tail.clone());
            let task = tokio::spawn(logs::follow(cluster, api, name, receiver, events, tail));
            self.log = Some(FollowedLog { ended: sender, task });
        }
        if let Some(log) = &self.log
            && ended
        {
            log.ended.send_replace(true);
        }
        self.observed.pods.insert(pod.uid().unwrap_or_default(), pod);
    }

    fn take_event(&mut self, change: Change<ClusterEvent>) {
        match change {
            // Without events the diagnosis is blind there, and the wait is not.
            Change::Broken(error) => return self.say_broken("events", &error),
            Change::Listed(events) => events.into_iter().for_each(|event| self.observed.see_event(event)),
            Change::Applied(event) => self.observed.see_event(event),
            Change::Deleted(_) => {}
        }
        self.broken.remove("events");
    }

    /// Whether the wait is over, and how; says what it waits for when that changed.
    fn judge(&mut self) -> Option<Outcome> {
        if self.seen && self.standing.as_ref() != Some(&self.uid) {
            let what = if self.standing.is_some() { REPLACED } else { "was deleted by someone else" };
            return Some(Err(self.lost(what)));
        }
        let diagnosis = diagnose::diagnose(&self.observed);
        match self.observed.job.as_ref().and_then(diagnose::verdict) {
            Some(Verdict::Complete) => return Some(Ok(())),
            Some(Verdict::Failed { reason, message }) => {
                let reason = diagnosis.map_or_else(|| format!("{reason}: {message}"), |said| said.to_string());
                return Some(Err(self.failed(reason)));
            }
            None => {}
        }
        let diagnosis = diagnosis?;
        self.say(&diagnosis);
        (!diagnosis.heals()).then(|| Err(self.failed(diagnosis.to_string())))
    }

    fn say(&mut self, diagnosis: &Diagnosis) {
        let key = diagnosis.key();
        if self.said.as_ref() != Some(&key) {
            self.said = Some(key);
            self.events.emit(Event::Waiting(diagnosis.to_string()));
        }
    }

    fn say_broken(&mut self, what: &'static str, error: &ApiError) {
        let text = format!("the watch of {what} is broken and will be taken up again: {error}");
        if self.broken.get(what) != Some(&text) {
            tracing::debug!("{text}");
            self.broken.insert(what, text);
        }
    }

    fn waiting_for(&self) -> String {
        let state = diagnose::diagnose(&self.observed)
            .map_or_else(|| format!("{} has not ended", self.job), |diagnosis| diagnosis.to_string());
        self.broken.values().fold(state, |state, broken| format!("{state}; {broken}"))
    }

    fn lost(&self, what: &str) -> Error {
        Error::JobLost { job: self.job.clone(), what: what.to_owned() }
    }

    fn failed(&self, reason: String) -> Error {
        Error::JobFailed { job: self.job.clone(), reason }
    }

    /// Lets the log come to its end, within bounds: it never decides the outcome.
    async fn drain_log(&mut self) {
        if let Some(mut log) = self.log.take() {
            log.ended.send_replace(true);
            let _ = timeout(LOG_DRAIN, &mut log.task).await;
        }
    }
}

const REPLACED: &str = "was replaced by another Job of the same name";

/// Whether the agent's container has started, and whether it has ended.
fn agent_state(pod: &Pod) -> (bool, bool) {
    let state = pod
        .status
        .iter()
        .flat_map(|status| status.container_statuses.iter().flatten())
        .find(|container| container.name == CONTAINER)
        .and_then(|container| container.state.as_ref());
    let ended = state.is_some_and(|state| state.terminated.is_some());
    (ended || state.is_some_and(|state| state.running.is_some()), ended)
}
