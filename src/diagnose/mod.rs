//! From what the cluster shows of a Job to what a person is told (R24). Pure.

mod creation;
mod ended;
pub(crate) mod evidence;
mod image;
mod job;
pub(crate) mod objects;
mod observed;
mod pod;
mod reason;
mod scheduling;
mod startup;
mod state;
#[cfg(test)]
mod testing;

use objects::Pod;

pub(crate) use job::{Verdict, has_ended, verdict};
pub(crate) use observed::{Lost, Observed};
pub(crate) use pod::is_owned_by;
pub(crate) use reason::{Diagnosis, Reason};
pub(crate) use state::state;

/// The one thing that keeps the agent from having finished, if anything does.
pub(crate) fn diagnose(observed: &Observed) -> Option<Diagnosis> {
    let job = observed.job.as_ref()?;
    job::failed(job, observed)
        .or_else(|| job::lost(job, observed))
        .or_else(|| job::suspended(job, observed))
        .or_else(|| pod_problem(observed))
        .or_else(|| creation::refused(job, observed))
        .or_else(|| gone(observed))
}

/// What became of the last pod, when there is none any more.
fn gone(observed: &Observed) -> Option<Diagnosis> {
    observed.gone.as_ref().filter(|_| observed.pods.is_empty()).map(ended::deleted)
}

/// What ended the newest pod, or keeps it from starting.
fn pod_problem(observed: &Observed) -> Option<Diagnosis> {
    let pod = observed.newest_pod()?;
    ended::ended(pod).or_else(|| not_started(pod, observed))
}

/// What keeps a pod from running its agent.
fn not_started(pod: &Pod, observed: &Observed) -> Option<Diagnosis> {
    scheduling::unschedulable(pod).or_else(|| image::missing(pod, observed)).or_else(|| startup::failing(pod, observed))
}
