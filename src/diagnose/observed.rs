//! Everything known of a run's Job at one moment.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use kube::api::ResourceExt as _;

use crate::diagnose::objects::{Event, Job, Pod};
use crate::diagnose::pod::phase;

/// What the watches of a run have shown so far. Only objects that are the run's own belong in here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    /// The run's Job as it was seen last.
    pub(crate) job: Option<Job>,
    /// Set when the run's Job stands there no more.
    pub(super) lost: Option<Lost>,
    /// Pods that the Job controls, by UID.
    pub(crate) pods: BTreeMap<String, Pod>,
    /// The pod that was deleted last: on a deadline it is gone before the Job says so.
    pub(crate) gone: Option<Pod>,
    pub(super) events: BTreeMap<String, Event>,
}

/// How a Job ceased to stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Its deletion was seen.
    Deleted,
    /// It was there, and later was not.
    Vanished,
    /// Another Job has its name.
    Replaced,
}

impl Observed {
    /// Takes the Job that stands at the run's name now, if one does. `ours` is the UID of the run's own.
    pub(crate) fn see_job(&mut self, standing: Option<Job>, ours: &str) {
        match standing {
            Some(job) if job.metadata.uid.as_deref() == Some(ours) => {
                // The server lets nobody take a deletion back.
                self.lost = job.metadata.deletion_timestamp.is_some().then_some(Lost::Deleted);
                self.job = Some(job);
            }
            // A watch may first show what stood there before.
            _ if self.job.is_none() => {}
            Some(_) => self.lost = Some(Lost::Replaced),
            None => self.lost = Some(Lost::Vanished),
        }
    }

    /// Takes a Job's deletion, with the state that it had at the end: it may have been removed because it had ended.
    pub(crate) fn see_job_deleted(&mut self, job: Job, ours: &str) {
        if job.metadata.uid.as_deref() == Some(ours) {
            self.job = Some(job);
            self.lost = Some(Lost::Deleted);
        }
    }

    /// Takes all pods that there are now.
    pub(crate) fn see_pods(&mut self, listed: Vec<Pod>) {
        let listed: BTreeMap<_, _> = listed.into_iter().map(|pod| (pod.uid().unwrap_or_default(), pod)).collect();
        let before = std::mem::replace(&mut self.pods, listed);
        // What was deleted while no watch was open keeps the state that was seen last.
        self.gone =
            before.into_iter().rfind(|(uid, _)| !self.pods.contains_key(uid)).map(|(_, pod)| pod).or(self.gone.take());
    }

    /// Takes a pod as it is now.
    pub(crate) fn see_pod(&mut self, pod: Pod) {
        self.pods.insert(pod.uid().unwrap_or_default(), pod);
    }

    /// Takes a pod's deletion.
    pub(crate) fn see_deleted(&mut self, pod: Pod) {
        self.pods.remove(&pod.uid().unwrap_or_default());
        self.gone = Some(pod);
    }

    /// Takes an event, or its repetition.
    pub(crate) fn see_event(&mut self, event: Event) {
        self.events.insert(event.uid().unwrap_or_default(), event);
    }

    /// The pod that counts: a Job replaces one that is being deleted.
    pub(crate) fn newest_pod(&self) -> Option<&Pod> {
        self.pods
            .values()
            .max_by_key(|pod| (pod.metadata.deletion_timestamp.is_none(), &pod.metadata.creation_timestamp))
    }

    /// Whether the Job's end is to be expected: its pod has ended, or is gone.
    pub(crate) fn is_job_due(&self) -> bool {
        self.newest_pod().map_or(self.gone.is_some(), |pod| matches!(phase(pod), "Succeeded" | "Failed"))
    }

    /// The newest event about the object with this UID that `wanted` picks.
    pub(super) fn latest_event(&self, uid: &str, wanted: impl Fn(&Event) -> bool) -> Option<&Event> {
        self.events
            .values()
            .filter(|event| event.involved_object.uid.as_deref() == Some(uid) && wanted(event))
            .max_by_key(|event| order(event))
    }
}

/// The order in which the server took events. Their times do not give it: some have whole seconds only.
pub(super) fn order(event: &Event) -> (Option<u64>, Option<Timestamp>) {
    (event.resource_version().and_then(|version| version.parse().ok()), last_seen(event))
}

/// When an event happened last.
pub(super) fn last_seen(event: &Event) -> Option<Timestamp> {
    let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let first = event.event_time.as_ref().map(|time| time.0);
    let created = event.metadata.creation_timestamp.as_ref().map(|time| time.0);
    series.max(last).max(first).max(created)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::testing::{event, pod};

    #[test]
    fn a_pod_that_vanished_between_two_lists_is_remembered() {
        let mut observed = Observed::default();
        observed.see_pods(vec![pod("old", &[])]);
        observed.see_pods(vec![pod("new", &[])]);
        assert_eq!(observed.gone.as_ref().map(Pod::name_any).as_deref(), Some("old"));
        assert_eq!(observed.newest_pod().map(Pod::name_any).as_deref(), Some("new"));
        observed.see_pods(vec![pod("new", &[])]);
        assert_eq!(observed.gone.as_ref().map(Pod::name_any).as_deref(), Some("old"));
    }

    #[test]
    fn the_newest_event_of_the_same_object_counts() {
        let mut observed = Observed::default();
        observed.see_event(event("a", "Failed", "older", "2026-08-21T14:00:00Z"));
        observed.see_event(event("a", "Failed", "newer", "2026-08-21T14:00:05Z"));
        observed.see_event(event("b", "Failed", "another object", "2026-08-21T14:00:09Z"));
        let mut repeated = event("a", "Failed", "again", "2026-08-21T13:00:00Z");
        repeated.series = Some(
            serde_json::from_value(serde_json::json!({"count": 3, "lastObservedTime": "2026-08-21T14:00:07.000001Z"}))
                .unwrap(),
        );
        let text = |observed: &Observed| observed.latest_event("a", |_| true).and_then(|event| event.message.clone());
        assert_eq!(text(&observed).as_deref(), Some("newer"));
        observed.see_event(repeated);
        assert_eq!(text(&observed).as_deref(), Some("again"));
    }
}
