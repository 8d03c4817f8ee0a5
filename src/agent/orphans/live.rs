//! Objects as the cluster shows them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::agent::created_set::Uid;
use crate::agent::object::{Kind, ObjectRef};
use crate::agent::{labels, names};
use crate::diagnose;
use crate::diagnose::objects::Job;

/// An object that stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) object: ObjectRef,
    pub(crate) uid: Option<Uid>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) created: Option<Timestamp>,
    /// It is being deleted.
    pub(crate) terminating: bool,
    /// It is a Job that has not ended and is not being deleted.
    pub(crate) active: bool,
}

impl Live {
    pub(crate) fn new(kind: Kind, metadata: ObjectMeta) -> Self {
        Self {
            object: ObjectRef { kind, namespace: metadata.namespace, name: metadata.name.unwrap_or_default() },
            uid: metadata.uid.and_then(Uid::new),
            labels: metadata.labels.unwrap_or_default(),
            created: metadata.creation_timestamp.map(|time| time.0),
            terminating: metadata.deletion_timestamp.is_some(),
            active: false,
        }
    }

    pub(crate) fn job(job: Job) -> Self {
        let ended = diagnose::has_ended(&job);
        let live = Self::new(Kind::Job, job.metadata);
        Self { active: !ended && !live.terminating, ..live }
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    /// The run that the object says it belongs to, if it is of a kind and form that a run makes: one, unless a staging
    /// name leaves doubt.
    pub(crate) fn runs(&self) -> Vec<String> {
        match self.object.kind {
            Kind::ConfigMap if self.is_snapshot_artifact() => {
                names::runs_of_staging_config_map(&self.object.name).map(String::from).collect()
            }
            Kind::ConfigMap => Vec::new(),
            _ if self.is_labelled() => vec![self.label(labels::RUN_ID).unwrap_or_default().to_owned()],
            _ => Vec::new(),
        }
    }

    /// Whether the agent may have written this `ConfigMap` (R5).
    pub(crate) fn is_snapshot_artifact(&self) -> bool {
        self.label(labels::NAME) == Some(labels::AICR)
    }

    fn is_labelled(&self) -> bool {
        self.label(labels::COMPONENT) == Some(labels::SNAPSHOT_AGENT)
            && self.label(labels::MANAGED_BY) == Some(labels::AICR)
    }
}

/// What was seen of a cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sight {
    pub(crate) live: BTreeMap<ObjectRef, Live>,
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
    pub(crate) fn add(&mut self, live: Live) {
        self.extend([live]);
    }

    pub(crate) fn extend(&mut self, all: impl IntoIterator<Item = Live>) {
        self.live.extend(all.into_iter().map(|live| (live.object.clone(), live)));
    }

    /// Whether a Job of the run would have been seen.
    pub(crate) fn would_see_job(&self, object: &ObjectRef, run: &str) -> bool {
        let JobsSeen::In(seen) = &self.jobs else { return true };
        match &object.namespace {
            Some(namespace) => seen.contains(namespace),
            None => self.homes.get(run).is_some_and(|homes| homes.is_subset(seen)),
        }
    }
}
