//! Waiting for the agent: watches, not polling; the Job decides (R20–R22).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event as ClusterEvent, Pod};
use kube::Api;
use kube::api::ResourceExt as _;
use tokio::sync::{mpsc, watch as flag};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::agent::cluster::Cluster;
use crate::agent::created_set::Uid;
use crate::agent::event::{Event, Events};
use crate::agent::logs::{self, Tail};
use crate::agent::manifests::CONTAINER;
use crate::agent::object::ObjectRef;
use crate::agent::watch::{self, Change, Selector};
use crate::diagnose::evidence::Evidence;
use crate::diagnose::{self, Diagnosis, Lost, Observed, Reason, Verdict};
use crate::error::{ApiError, Error};

/// How long the Job may stay unseen by its watch before it is looked for by name.
const UNSEEN: Duration = Duration::from_secs(3);

/// How long the end of the log may take after the Job has ended.
const LOG_DRAIN: Duration = Duration::from_secs(5);

/// How far one watch may be behind another.
const OUT_OF_STEP: Duration = Duration::from_secs(1);

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
                        return self.explained(outcome).await;
                    }
                }
                () = sleep_until(look), if self.observed.job.is_none() && !looked => {
                    looked = true;
                    self.look_for_the_job(deadline).await?;
                }
                () = sleep_until(deadline) => {
                    return Err(self.timed_out(after));
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
            Ok(None) => Err(failed(Diagnosis::of_lost(self.job.to_string(), Lost::Deleted, None))),
            Ok(Some(uid)) if uid != self.uid.as_str() => {
                Err(failed(Diagnosis::of_lost(self.job.to_string(), Lost::Replaced, None)))
            }
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
        let ours = self.uid.as_str();
        match change {
            Change::Broken(error) => return self.say_broken("the Job", &error),
            Change::Listed(jobs) => self.observed.see_job(jobs.into_iter().next(), ours),
            Change::Applied(job) => self.observed.see_job(Some(job), ours),
            Change::Deleted(job) => self.observed.see_job_deleted(job, ours),
        }
        self.broken.remove("the Job");
    }

    fn take_pod(&mut self, change: Change<Pod>) {
        let (uid, is_ours) = (self.uid.clone(), |pod: &Pod, uid: &Uid| diagnose::is_owned_by(pod, uid.as_str()));
        match change {
            Change::Broken(error) => return self.say_broken("the agent's pod", &error),
            Change::Listed(pods) => {
                let ours: Vec<_> = pods.into_iter().filter(|pod| is_ours(pod, &uid)).collect();
                for pod in &ours {
                    self.follow_pod(pod);
                }
                self.observed.see_pods(ours);
            }
            Change::Applied(pod) if is_ours(&pod, &uid) => {
                self.follow_pod(&pod);
                self.observed.see_pod(pod);
            }
            Change::Deleted(pod) if is_ours(&pod, &uid) => self.observed.see_deleted(pod),
            Change::Applied(_) | Change::Deleted(_) => {}
        }
        self.broken.remove("the agent's pod");
    }

    /// Opens a pod's events, and the agent's log once there can be one.
    fn follow_pod(&mut self, pod: &Pod) {
        let name = pod.name_any();
        if self.event_sources.insert(name.clone()) {
            self.watches.follow_events("Pod", &name);
        }
        let (started, ended) = agent_state(pod);
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
        match diagnose::verdict(&self.observed) {
            Some(Verdict::Complete) => return Some(Ok(())),
            Some(Verdict::Failed(why)) => return Some(Err(failed(why))),
            None => {}
        }
        let diagnosis = diagnose::diagnose(&self.observed);
        if self.observed.job.is_some() {
            self.say(diagnosis.as_ref().map_or_else(|| diagnose::state(&self.observed), Diagnosis::to_string));
        }
        let lasting = diagnosis.filter(|diagnosis| !diagnosis.heals)?;
        Some(Err(failed(lasting)))
    }

    /// The watches are not in step: a Job's failure may be seen before the end of its pod, which says why.
    async fn explained(&mut self, outcome: Outcome) -> Outcome {
        let until = Instant::now() + OUT_OF_STEP;
        while let Some(Verdict::Failed(Diagnosis { reason: Reason::JobFailed { .. }, .. })) =
            diagnose::verdict(&self.observed)
        {
            match timeout_at(until, self.watches.receiver.recv()).await {
                Ok(Some(seen)) => self.take(seen),
                Ok(None) | Err(_) => break,
            }
        }
        self.judge().unwrap_or(outcome)
    }

    fn say(&mut self, text: String) {
        if self.said.as_ref() != Some(&text) {
            self.events.emit(Event::Waiting(text.clone()));
            self.said = Some(text);
        }
    }

    fn say_broken(&mut self, what: &'static str, error: &ApiError) {
        let text = format!("the watch of {what} is broken and will be taken up again: {error}");
        if self.broken.get(what) != Some(&text) {
            tracing::debug!("{text}");
            self.broken.insert(what, text);
        }
    }

    fn timed_out(&self, after: Duration) -> Error {
        let (state, next_step) = match diagnose::diagnose(&self.observed) {
            Some(diagnosis) => (diagnosis.to_string(), Some(diagnosis.next_step)),
            None => (diagnose::state(&self.observed), None),
        };
        let waiting_for = self.broken.values().fold(state, |state, broken| format!("{state}; {broken}"));
        Error::TimedOut { after, waiting_for, next_step }
    }

    /// Lets the log come to its end, within bounds: it never decides the outcome.
    async fn drain_log(&mut self) {
        if let Some(mut log) = self.log.take() {
            log.ended.send_replace(true);
            let _ = timeout(LOG_DRAIN, &mut log.task).await;
        }
    }
}

fn failed(why: Diagnosis) -> Error {
    match why.reason {
        Reason::JobLost { .. } => Error::JobLost { reason: why.to_string(), next_step: why.next_step },
        _ => Error::JobFailed { reason: why.to_string(), next_step: why.next_step },
    }
}

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
