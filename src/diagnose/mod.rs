//! From what the cluster shows of a Job to what a person is told. Pure.

pub(crate) mod evidence;

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::ResourceExt as _;

/// Everything known of a run's Job at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    /// The run's Job, by UID.
    pub(crate) job: Option<Job>,
    /// Pods that the Job controls, by UID.
    pub(crate) pods: BTreeMap<String, Pod>,
    /// The pod that was deleted last: on a deadline it is gone before the Job says so.
    pub(crate) gone: Option<Pod>,
    /// Events about the Job and its pods, by UID.
    pub(crate) events: BTreeMap<String, Event>,
}

impl Observed {
    /// Takes a pod's deletion.
    pub(crate) fn see_deleted(&mut self, pod: Pod) {
        self.pods.remove(&pod.uid().unwrap_or_default());
        self.gone = Some(pod);
    }

    /// Takes an event, or its repetition.
    pub(crate) fn see_event(&mut self, event: Event) {
        self.events.insert(event.uid().unwrap_or_default(), event);
    }
}

/// How a Job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The condition `Complete` is true.
    Complete,
    /// The condition `Failed` is true.
    Failed {
        /// The condition's reason.
        reason: String,
        /// The condition's message.
        message: String,
    },
}

/// What the Job's own conditions say (R21): wherever they stand in the list; counts do not decide.
pub(crate) fn verdict(job: &Job) -> Option<Verdict> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().filter(|condition| condition.status == "True").find_map(|condition| {
        match condition.type_.as_str() {
            "Complete" => Some(Verdict::Complete),
            "Failed" => Some(Verdict::Failed {
                reason: condition.reason.clone().unwrap_or_default(),
                message: condition.message.clone().unwrap_or_default(),
            }),
            _ => None,
        }
    })
}

/// Whether the Job with this UID controls the pod (R22).
pub(crate) fn is_owned_by(pod: &Pod, job_uid: &str) -> bool {
    pod.owner_references()
        .iter()
        .any(|owner| owner.controller == Some(true) && owner.kind == "Job" && owner.uid == job_uid)
}

/// What keeps the agent from having finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Diagnosis {
    /// The agent's container ended badly.
    Crashed {
        /// The pod.
        pod: String,
        /// Exit code.
        code: i32,
        /// The kubelet's reason.
        reason: String,
    },
}

impl Diagnosis {
    /// Equal for two diagnoses that a person would take for the same.
    pub(crate) fn key(&self) -> String {
        self.to_string()
    }

    /// Whether it may pass without anyone's help.
    pub(crate) fn heals(&self) -> bool {
        // Whether a crash is final is for the Job to say.
        match self {
            Self::Crashed { .. } => true,
        }
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crashed { pod, code, reason } => {
                write!(f, "the agent in pod {pod} ended with exit code {code} ({reason})")
            }
        }
    }
}

/// The one thing that matters most in what is observed.
pub(crate) fn diagnose(observed: &Observed) -> Option<Diagnosis> {
    observed.pods.values().chain(&observed.gone).find_map(|pod| {
        let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
        let ended = statuses.iter().find_map(|container| container.state.as_ref()?.terminated.as_ref())?;
        (ended.exit_code != 0).then(|| Diagnosis::Crashed {
            pod: pod.name_any(),
            code: ended.exit_code,
            reason: ended.reason.clone().unwrap_or_default(),
        })
    })
}
