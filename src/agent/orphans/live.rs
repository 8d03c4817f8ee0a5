//! Objects as the cluster shows them. There may be thousands, so that nothing is kept that is not needed.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::api::ObjectMeta;
use serde::Deserialize;

use crate::agent::created_set::Uid;
use crate::agent::labels::Marks;
use crate::agent::names;
use crate::agent::object::{Kind, ObjectRef};
use crate::diagnose;
use crate::diagnose::objects::JobStatus;

/// An object that stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) object: ObjectRef,
    pub(crate) uid: Option<Uid>,
    pub(crate) labels: Marks,
    pub(crate) created: Option<Timestamp>,
    /// It is being deleted.
    pub(crate) terminating: bool,
    /// It is a Job that has not ended and is not being deleted.
    pub(crate) active: bool,
}

/// An object's metadata in a list, as far as it counts.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata {
    #[serde(default)]
    name: String,
    namespace: Option<String>,
    uid: Option<String>,
    #[serde(default)]
    labels: Marks,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
}

impl From<ObjectMeta> for Metadata {
    fn from(whole: ObjectMeta) -> Self {
        Self {
            name: whole.name.unwrap_or_default(),
            namespace: whole.namespace,
            uid: whole.uid,
            labels: whole.labels.into(),
            creation_timestamp: whole.creation_timestamp.map(|time| time.0),
            deletion_timestamp: whole.deletion_timestamp.map(|time| time.0),
        }
    }
}

/// A Job as far as it counts.
#[derive(Deserialize)]
pub(crate) struct StandingJob {
    metadata: Metadata,
    status: Option<JobStatus>,
}

impl Live {
    pub(crate) fn new(kind: Kind, metadata: Metadata) -> Self {
        Self {
            object: ObjectRef { kind, namespace: metadata.namespace, name: metadata.name },
            uid: metadata.uid.and_then(Uid::new),
            labels: metadata.labels,
            created: metadata.creation_timestamp,
            terminating: metadata.deletion_timestamp.is_some(),
            active: false,
        }
    }

    pub(crate) fn job(job: StandingJob) -> Self {
        let ended = diagnose::has_ended(job.status.as_ref());
        let live = Self::new(Kind::Job, job.metadata);
        Self { active: !ended && !live.terminating, ..live }
    }

    /// The run that the object says it belongs to, if it is of a kind and form that a run makes: one, unless a staging
    /// name leaves doubt.
    pub(crate) fn runs(&self) -> Vec<String> {
        match self.object.kind {
            Kind::ConfigMap if self.is_snapshot_artifact() => {
                names::runs_of_staging_config_map(&self.object.name).map(String::from).collect()
            }
            Kind::ConfigMap => Vec::new(),
            _ if self.labels.is_of_a_run() => vec![self.labels.run_id().unwrap_or_default().to_owned()],
            _ => Vec::new(),
        }
    }

    /// Whether the agent may have written this `ConfigMap` (R5).
    pub(crate) fn is_snapshot_artifact(&self) -> bool {
        self.labels.is_of_aicr()
    }
}

/// Objects page by page, each page in order. One vector of all would take twice its room while it grows, and a map half
/// as much again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standing(Vec<Vec<Live>>);

impl Standing {
    pub(crate) fn add(&mut self, mut page: Vec<Live>) {
        page.sort_unstable_by(|a, b| a.object.cmp(&b.object));
        self.0.push(page);
    }

    pub(crate) fn get(&self, object: &ObjectRef) -> Option<&Live> {
        let in_page = |page: &Vec<Live>| page.binary_search_by(|live| live.object.cmp(object)).ok();
        self.0.iter().find_map(|page| in_page(page).map(|at| &page[at]))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Live> {
        self.0.iter().flatten()
    }

    pub(crate) fn into_pages(self) -> impl Iterator<Item = Vec<Live>> {
        self.0.into_iter()
    }
}

/// What was seen of a cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sight {
    pub(crate) live: Standing,
    /// Objects that were looked for and do not exist.
    pub(crate) absent: BTreeSet<ObjectRef>,
    pub(crate) jobs: JobsSeen,
    /// Namespaces of the accounts that the run's `ClusterRoleBinding` grants to: where its Job is.
    pub(crate) homes: BTreeMap<String, BTreeSet<String>>,
}

/// Where all Jobs of runs were seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JobsSeen {
    Everywhere,
    In(BTreeSet<String>),
}

impl Default for JobsSeen {
    fn default() -> Self {
        Self::In(BTreeSet::new())
    }
}

impl Sight {
    /// Whether a Job of the run would have been seen.
    pub(crate) fn would_see_job(&self, object: &ObjectRef, run: &str) -> bool {
        let JobsSeen::In(seen) = &self.jobs else { return true };
        match &object.namespace {
            Some(namespace) => seen.contains(namespace),
            None => self.homes.get(run).is_some_and(|homes| homes.is_subset(seen)),
        }
    }
}
