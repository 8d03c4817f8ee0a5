//! Waiting for the agent: watches, not polling; the Job decides (R20–R22).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::api::ResourceExt as _;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::agent::created_set::Uid;
use crate::agent::event::{Event, Events};
use crate::agent::logs::{self, FollowedLog};
use crate::agent::manifests::CONTAINER;
use crate::agent::object::ObjectRef;
use crate::agent::watch::Change;
use crate::agent::watches::{Seen, Watches};
use crate::diagnose::evidence::Evidence;
use crate::diagnose::objects::{Event as ClusterEvent, Job, Pod};
use crate::diagnose::{self, Diagnosis, Lost, Observed, Reason, Verdict};
use crate::error::{ApiError, Error};

/// How long the Job's watch may be silent where it must have news, before the Job itself is looked at.
const NEWS_DUE: Duration = Duration::from_secs(3);

/// Longest time between two such looks.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// How far one watch may be behind another.
const OUT_OF_STEP: Duration = Duration::from_secs(1);

/// How often the pods are looked for when the Job has ended and their watch is behind.
const CATCH_UPS: usize = 3;

/// Failures in a row after which a broken watch is worth telling.
const WORTH_TELLING: usize = 3;

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
    broken: BTreeMap<Watched, Broken>,
    log: Option<FollowedLog>,
    look: Look,
}

/// What is watched, the weightiest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Watched {
    Job,
    Pods,
    Events,
}

/// A watch that is broken at the moment.
#[derive(Debug)]
struct Broken {
    failures: usize,
    cause: String,
}

/// When to look at the Job itself. Its watch may be silent without being broken, or the Job may have been deleted before
/// its watch had listed it.
#[derive(Debug, Default)]
struct Look {
    due: Option<Instant>,
    pause: Duration,
}

impl Look {
    /// When to look, if news is due.
    fn at(&mut self, is_news_due: bool) -> Option<Instant> {
        if !is_news_due {
            *self = Self::default();
            return None;
        }
        if self.due.is_none() {
            self.put_off();
        }
        self.due
    }

    /// Puts the next look off, longer each time.
    fn put_off(&mut self) {
        self.pause = (self.pause * 2).clamp(NEWS_DUE, LOOK_AGAIN);
        self.due = Some(Instant::now() + self.pause);
    }
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
            look: Look::default(),
        }
    }

    /// Waits until the Job has ended, was lost, cannot succeed, or the deadline has passed.
    pub(crate) async fn run(&mut self, deadline: Instant, after: Duration) -> Outcome {
        loop {
            let look = self.look.at(self.observed.job.is_none() || self.observed.is_job_due());
            tokio::select! {
                biased;
                seen = self.watches.next() => {
                    self.take(seen)?;
                    // What came at once is judged at once.
                    while let Some(seen) = self.watches.at_hand() {
                        self.take(seen)?;
                    }
                    if let Some(outcome) = self.judge() {
                        return self.finish(outcome, deadline).await;
                    }
                }
                () = sleep_until(deadline) => return Err(self.timed_out(after)),
                () = sleep_until(look.unwrap_or(deadline)), if look.is_some() => {
                    self.watches.look_up(&self.job);
                    self.look.put_off();
                }
            }
        }
    }

    /// What was seen, for the case that the run fails.
    pub(crate) async fn evidence(&self) -> Evidence {
        let mut log = self.log.as_ref().map(FollowedLog::last_lines).unwrap_or_default();
        // A log that could not be followed may be readable once the container has ended.
        if log.is_empty()
            && let Some(followed) = &self.log
        {
            log = logs::last_lines(self.watches.cluster(), &self.watches.api(), followed.pod()).await;
        }
        Evidence::of(&self.observed, log)
    }

    /// Takes what was seen into account. Fails if that proves that the Job is not there any more.
    fn take(&mut self, seen: Seen) -> Outcome {
        match seen {
            Seen::Job(change) => self.take_job(*change),
            Seen::Pod(change) => self.take_pod(*change),
            Seen::Event(change) => self.take_event(*change),
            Seen::LookedUp(standing) => return self.take_looked_up(*standing),
        }
        Ok(())
    }

    fn take_looked_up(&mut self, standing: Result<Option<Job>, ApiError>) -> Outcome {
        let lost = |how| Err(failed(Diagnosis::of_lost(self.job.to_string(), how, None)));
        match standing {
            Ok(None) => return lost(Lost::Deleted),
            Ok(Some(job)) if job.metadata.uid.as_deref() != Some(self.uid.as_str()) => return lost(Lost::Replaced),
            Ok(Some(job)) => self.observed.see_job(Some(job), self.uid.as_str()),
            // A watch that is broken as well says so itself.
            Err(error) => tracing::debug!(%error, "the Job could not be looked up"),
        }
        Ok(())
    }

    fn take_job(&mut self, change: Change<Job>) {
        let ours = self.uid.as_str();
        match change {
            Change::Broken(error) => return self.note_broken(Watched::Job, &error),
            Change::Listed(jobs) => self.observed.see_job(jobs.into_iter().next(), ours),
            Change::Applied(job) => self.observed.see_job(Some(job), ours),
            Change::Deleted(job) => self.observed.see_job_deleted(job, ours),
        }
        self.broken.remove(&Watched::Job);
    }

    fn take_pod(&mut self, change: Change<Pod>) {
        let is_ours = |pod: &Pod| diagnose::is_owned_by(pod, self.uid.as_str());
        match change {
            Change::Broken(error) => return self.note_broken(Watched::Pods, &error),
            Change::Listed(pods) => self.observed.see_pods(pods.into_iter().filter(is_ours).collect()),
            Change::Applied(pod) if is_ours(&pod) => self.observed.see_pod(pod),
            Change::Deleted(pod) if is_ours(&pod) => self.observed.see_deleted(pod),
            Change::Applied(_) | Change::Deleted(_) => {}
        }
        self.broken.remove(&Watched::Pods);
        self.follow_pods();
    }

    /// Follows the events of each pod, and the log of the one that counts once there can be one. A Job that was suspended
    /// and resumed has another pod.
    fn follow_pods(&mut self) {
        for pod in self.observed.pods.values() {
            if self.event_sources.insert(pod.name_any()) {
                self.watches.follow_events("Pod", &pod.name_any());
            }
        }
        let newest = self.observed.newest_pod();
        let (has_started, has_ended) = newest.map_or((false, true), agent_state);
        if let Some(pod) = newest.map(Pod::name_any).filter(|_| has_started)
            && self.log.as_ref().is_none_or(|log| log.pod() != pod)
        {
            let (cluster, api, events) = (self.watches.cluster().clone(), self.watches.api(), self.events.clone());
            self.log = Some(FollowedLog::start(cluster, api, pod, events));
        }
        if let Some(log) = self.log.as_ref().filter(|_| has_ended) {
            log.container_has_ended();
        }
    }

    fn take_event(&mut self, change: Change<ClusterEvent>) {
        match change {
            Change::Broken(error) => return self.note_broken(Watched::Events, &error),
            Change::Listed(events) => events.into_iter().for_each(|event| self.observed.see_event(event)),
            Change::Applied(event) => self.observed.see_event(event),
            Change::Deleted(_) => {}
        }
        self.broken.remove(&Watched::Events);
    }

    /// Whether the wait is over, and how; says what it waits for when that changed.
    fn judge(&mut self) -> Option<Outcome> {
        match diagnose::verdict(&self.observed) {
            Some(Verdict::Complete) => return Some(Ok(())),
            Some(Verdict::Failed(why)) => return Some(Err(failed(why))),
            None => {}
        }
        let diagnosis = diagnose::diagnose(&self.observed);
        // Without events the diagnosis is blind there, and the wait is not.
        let mut broken = self.broken.iter().filter(|(watched, _)| **watched != Watched::Events);
        let broken = broken.find(|(_, broken)| broken.failures >= WORTH_TELLING).map(|(_, broken)| broken);
        if self.observed.job.is_some() || broken.is_some() {
            self.say(self.waiting_for(diagnosis.as_ref(), broken));
        }
        let lasting = diagnosis.filter(|diagnosis| !diagnosis.heals)?;
        Some(Err(failed(lasting)))
    }

    /// Lets what belongs to the Job's end come in: how its pod ended, and the end of the log. Neither decides.
    async fn finish(&mut self, outcome: Outcome, deadline: Instant) -> Outcome {
        if diagnose::verdict(&self.observed).is_none() {
            return outcome;
        }
        self.catch_up().await;
        if let Some(log) = &mut self.log {
            log.drain(deadline).await;
        }
        self.judge().unwrap_or(outcome)
    }

    /// The watches are not in step, and the pods' one may be broken: a Job's end may be seen before that of its pod,
    /// which says why, and whose log is to be shown.
    async fn catch_up(&mut self) {
        for _ in 0..CATCH_UPS {
            let until = Instant::now() + OUT_OF_STEP;
            while !self.observed.is_job_due() {
                match timeout_at(until, self.watches.next()).await {
                    // The Job has ended: whether it still stands does not matter.
                    Ok(seen) => drop(self.take(seen)),
                    Err(_) => break,
                }
            }
            if self.observed.is_job_due() {
                return;
            }
            if let Ok(Ok(pods)) = timeout(OUT_OF_STEP, self.watches.list_pods()).await {
                self.take_pod(Change::Listed(pods));
                return;
            }
        }
    }

    fn say(&mut self, text: String) {
        if self.said.as_ref() != Some(&text) {
            self.events.emit(Event::Waiting(text.clone()));
            self.said = Some(text);
        }
    }

    fn note_broken(&mut self, watched: Watched, error: &ApiError) {
        tracing::debug!(%error, "a watch is broken and will be taken up again");
        let failures = self.broken.get(&watched).map_or(0, |broken| broken.failures) + 1;
        self.broken.insert(watched, Broken { failures, cause: error.to_string() });
    }

    /// What the run waits for, and what keeps it from seeing that.
    fn waiting_for(&self, diagnosis: Option<&Diagnosis>, broken: Option<&Broken>) -> String {
        let state = diagnosis.map_or_else(|| diagnose::state(&self.observed), Diagnosis::to_string);
        match broken {
            Some(broken) => format!("{state}; this may have changed: {}", broken.cause),
            None => state,
        }
    }

    fn timed_out(&self, after: Duration) -> Error {
        let diagnosis = diagnose::diagnose(&self.observed);
        let waiting_for = self.waiting_for(diagnosis.as_ref(), self.broken.values().next());
        let cut_off = self.broken.contains_key(&Watched::Job);
        let cut_off = cut_off.then(|| "see whether the API server answers: kubectl get --raw /readyz".to_owned());
        let next_step = cut_off.or_else(|| diagnosis.map(|diagnosis| diagnosis.next_step));
        Error::TimedOut { after, waiting_for, next_step }
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
