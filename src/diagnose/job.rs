//! What the Job itself says.

use kube::api::ResourceExt as _;

use crate::diagnose::objects::{Condition, Job, JobStatus};
use crate::diagnose::observed::Observed;
use crate::diagnose::reason::{Diagnosis, Reason};
use crate::diagnose::{creation, gone, not_started, pod_problem};

/// How a Job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The condition `Complete` is true.
    Complete,
    /// The condition `Failed` is true, and why.
    Failed(Diagnosis),
}

/// What the Job's own conditions say (R21): wherever they stand in the list; counts do not decide.
pub(crate) fn verdict(observed: &Observed) -> Option<Verdict> {
    let job = observed.job.as_ref()?;
    true_conditions(job.status.as_ref()).find_map(|condition| match condition.type_.as_str() {
        "Complete" => Some(Verdict::Complete),
        "Failed" => Some(Verdict::Failed(why(job, condition, observed))),
        _ => None,
    })
}

/// Whether the Job's own conditions say that it has ended (R21).
pub(crate) fn has_ended(status: Option<&JobStatus>) -> bool {
    true_conditions(status).any(|condition| matches!(condition.type_.as_str(), "Complete" | "Failed"))
}

/// `Job namespace/name`
pub(super) fn name(job: &Job) -> String {
    format!("Job {}/{}", job.namespace().unwrap_or_default(), job.name_any())
}

/// The Job was deleted, or another one stands in its place.
pub(super) fn lost(job: &Job, observed: &Observed) -> Option<Diagnosis> {
    let ttl = job.spec.as_ref().and_then(|spec| spec.ttl_seconds_after_finished);
    observed.lost.map(|how| Diagnosis::of_lost(name(job), how, ttl))
}

/// The Job is held back. A suspended Job has no pod, and loses one that it had.
pub(super) fn suspended(job: &Job, observed: &Observed) -> Option<Diagnosis> {
    if job.spec.as_ref().and_then(|spec| spec.suspend) != Some(true) {
        return None;
    }
    let queue = job.labels().get("kueue.x-k8s.io/queue-name");
    let message = match queue {
        Some(queue) => format!("it waits in the Kueue queue {queue}"),
        None => observed
            .latest_event(&job.uid().unwrap_or_default(), |event| event.reason.as_deref() == Some("Suspended"))
            .and_then(|event| event.message.clone())
            .unwrap_or_else(|| "something set spec.suspend".to_owned()),
    };
    let next_step = match queue {
        Some(_) => "see why its Workload is not admitted: kubectl get workloads",
        None => "find out which admission policy or person suspends Jobs in the namespace",
    };
    Some(Diagnosis::passing(Reason::Suspended { job: name(job), message }, next_step))
}

/// The Job has failed, or will as soon as its pods are gone: `FailureTarget` comes first, with the same reason.
pub(super) fn failed(job: &Job, observed: &Observed) -> Option<Diagnosis> {
    let is_failure = |condition: &&Condition| matches!(condition.type_.as_str(), "Failed" | "FailureTarget");
    true_conditions(job.status.as_ref()).find(is_failure).map(|condition| why(job, condition, observed))
}

fn why(job: &Job, failure: &Condition, observed: &Observed) -> Diagnosis {
    let message = failure.message.clone().unwrap_or_default();
    if failure.reason.as_deref() == Some("DeadlineExceeded") {
        return deadline(job, message, observed);
    }
    pod_problem(observed).or_else(|| gone(observed)).unwrap_or_else(|| {
        let reason = failure.reason.clone().unwrap_or_default();
        let reason = Reason::JobFailed { job: name(job), reason, message };
        Diagnosis::passing(reason, "run again with --keep-job to look at the Job and its pod")
    })
}

/// The pod was ended by the deadline: what counts is what it had not got past.
fn deadline(job: &Job, message: String, observed: &Observed) -> Diagnosis {
    let pod = observed.newest_pod().or(observed.gone.as_ref());
    let last = pod.and_then(|pod| not_started(pod, observed)).or_else(|| creation::refused(job, observed));
    let (last, next_step) = match last {
        Some(last) => (Some(Box::new(last.reason)), last.next_step),
        None => (None, "the agent hangs: run again with --debug and read its log".to_owned()),
    };
    Diagnosis::passing(Reason::Deadline { job: name(job), message, last }, next_step)
}

fn true_conditions(status: Option<&JobStatus>) -> impl Iterator<Item = &Condition> {
    let conditions = status.and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().filter(|condition| condition.status == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::diagnose::testing::{JOB, event, job, observed, pod};
    use crate::diagnose::{Lost, diagnose};

    fn with_conditions(conditions: &[(&str, &str, &str, &str)]) -> Job {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|(kind, status, reason, message)| {
                json!({"type": kind, "status": status, "reason": reason, "message": message})
            })
            .collect();
        job(&[("/status/conditions", json!(conditions))])
    }

    const BACKOFF: (&str, &str) = ("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    const DEADLINE: (&str, &str) = ("DeadlineExceeded", "Job was active longer than specified deadline");

    #[test]
    fn r21_only_a_true_complete_or_failed_decides_wherever_it_stands() {
        #[derive(Debug, PartialEq)]
        enum Is {
            Complete,
            Failed,
        }
        let of = |job: Job| match super::verdict(&observed(job, vec![], vec![]))? {
            Verdict::Complete => Some(Is::Complete),
            Verdict::Failed(_) => Some(Is::Failed),
        };
        let verdict = |conditions: &[(&str, &str, &str, &str)]| of(with_conditions(conditions));
        assert_eq!(of(job(&[])), None);
        assert_eq!(of(job(&[("/status", json!({"succeeded": 1, "failed": 1}))])), None);
        assert_eq!(
            verdict(&[("Complete", "True", "CompletionsReached", "Reached expected number of succeeded pods")]),
            Some(Is::Complete)
        );
        assert_eq!(verdict(&[("Failed", "True", BACKOFF.0, BACKOFF.1)]), Some(Is::Failed));
        assert_eq!(verdict(&[("SuccessCriteriaMet", "True", "CompletionsReached", "")]), None);
        assert_eq!(verdict(&[("FailureTarget", "True", BACKOFF.0, BACKOFF.1)]), None);
        assert_eq!(
            verdict(&[("Failed", "False", "", ""), ("Suspended", "True", "JobSuspended", "Job suspended")]),
            None
        );
        let before = ("SuccessCriteriaMet", "True", "CompletionsReached", "");
        assert_eq!(verdict(&[before, ("Complete", "True", "", "")]), Some(Is::Complete));
        assert_eq!(verdict(&[("Complete", "True", "", ""), before]), Some(Is::Complete));
        let before = ("FailureTarget", "True", BACKOFF.0, BACKOFF.1);
        assert_eq!(
            verdict(&[("Suspended", "False", "JobResumed", ""), before, ("Failed", "True", "", "")]),
            Some(Is::Failed)
        );
    }

    #[test]
    fn a_job_without_trouble_gives_no_diagnosis() {
        assert_eq!(diagnose(&Observed::default()), None);
        assert_eq!(diagnose(&observed(job(&[]), vec![], vec![])), None);
        let done = with_conditions(&[("Complete", "True", "", "")]);
        assert_eq!(diagnose(&observed(done, vec![pod("p", &[("/status/phase", json!("Succeeded"))])], vec![])), None);
    }

    #[test]
    fn r21_a_job_that_was_deleted_or_replaced_is_said_at_once() {
        for (lost, text) in [
            (Lost::Deleted, "Job gpu/aicr-1 was deleted by someone else"),
            (Lost::Vanished, "Job gpu/aicr-1 is gone; if it had finished, its TTL of 3600s may have run out"),
            (Lost::Replaced, "Job gpu/aicr-1 was replaced by another Job of the same name"),
        ] {
            let observed = Observed { job: Some(job(&[])), lost: Some(lost), ..Observed::default() };
            let diagnosis = diagnose(&observed).unwrap();
            assert_eq!(diagnosis.to_string(), text);
            assert!(!diagnosis.heals);
        }
    }

    #[test]
    fn r24_a_suspended_job_waits_for_its_queue() {
        let suspended = job(&[("/spec/suspend", json!(true))]);
        let diagnosis = diagnose(&observed(suspended.clone(), vec![], vec![])).unwrap();
        assert_eq!(diagnosis.to_string(), "Job gpu/aicr-1 is suspended: something set spec.suspend");
        assert!(diagnosis.heals);
        let said = event(JOB, "Suspended", "Job suspended", "2026-08-21T14:22:33Z");
        let diagnosis = diagnose(&observed(suspended, vec![], vec![said])).unwrap();
        assert_eq!(diagnosis.to_string(), "Job gpu/aicr-1 is suspended: Job suspended");
        let queued =
            job(&[("/spec/suspend", json!(true)), ("/metadata/labels", json!({"kueue.x-k8s.io/queue-name": "gpus"}))]);
        let diagnosis = diagnose(&observed(queued, vec![], vec![])).unwrap();
        assert_eq!(diagnosis.to_string(), "Job gpu/aicr-1 is suspended: it waits in the Kueue queue gpus");
        assert_eq!(diagnosis.next_step, "see why its Workload is not admitted: kubectl get workloads");
    }

    #[test]
    fn r24_on_a_deadline_the_last_reason_of_a_pod_that_is_gone_is_kept() {
        let message = "0/1 nodes are available: 1 node(s) had untolerated taint(s).";
        let waiting = pod(
            "aicr-1-x7k2p",
            &[(
                "/status/conditions",
                json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]),
            )],
        );
        for kind in ["FailureTarget", "Failed"] {
            let mut seen =
                observed(with_conditions(&[(kind, "True", DEADLINE.0, DEADLINE.1)]), vec![waiting.clone()], vec![]);
            let expected = format!(
                "Job gpu/aicr-1 ran into its deadline: {}; before that, Pod gpu/aicr-1-x7k2p finds no node: {message}",
                DEADLINE.1
            );
            assert_eq!(diagnose(&seen).unwrap().to_string(), expected);
            seen.see_deleted(waiting.clone());
            assert_eq!(diagnose(&seen).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn r24_on_a_deadline_a_running_agent_is_not_said_to_have_crashed() {
        let killed = pod(
            "aicr-1-x7k2p",
            &[
                ("/metadata/deletionTimestamp", json!("2026-08-21T14:22:33Z")),
                ("/status/phase", json!("Failed")),
                ("/status/containerStatuses/0/state", json!({"terminated": {"exitCode": 143, "reason": "Error"}})),
            ],
        );
        let failed = with_conditions(&[("Failed", "True", DEADLINE.0, DEADLINE.1)]);
        let diagnosis = diagnose(&observed(failed, vec![killed], vec![])).unwrap();
        assert_eq!(diagnosis.to_string(), format!("Job gpu/aicr-1 ran into its deadline: {}", DEADLINE.1));
    }

    #[test]
    fn r24_a_failed_job_of_which_nothing_else_is_known_speaks_for_itself() {
        let failed = with_conditions(&[("Failed", "True", BACKOFF.0, BACKOFF.1)]);
        let diagnosis = diagnose(&observed(failed, vec![], vec![])).unwrap();
        assert_eq!(
            diagnosis.to_string(),
            "Job gpu/aicr-1 has failed (BackoffLimitExceeded): Job has reached the specified backoff limit"
        );
    }
}
