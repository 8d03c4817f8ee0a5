//! The report of a run as JSON (`--report`, R40): written on every way out, for pipelines to read.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::agent::cleanup::{Fate, Removal};
use crate::agent::created_set::{Claim, Entry, Uid};
use crate::agent::event::Phase;
use crate::agent::object::ObjectRef;
use crate::diagnose::evidence::Evidence;
use crate::error::{Error, exit};

/// Version of this form. A field may be added under the same version; none changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// Everything that a report says. What a run did not come to is absent.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunReport {
    schema_version: u32,
    pub(crate) run_id: Option<String>,
    pub(crate) invocation_id: Option<String>,
    pub(crate) cluster: Cluster,
    pub(crate) namespace: Option<String>,
    pub(crate) service_account: Option<ServiceAccount>,
    pub(crate) job: Option<Job>,
    /// The destination as `-o` takes it.
    pub(crate) output: Option<String>,
    started_at: Timestamp,
    finished_at: Option<Timestamp>,
    phases: Vec<PhaseTime>,
    objects: Vec<Object>,
    outcome: Option<Outcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<Evidence>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Cluster {
    pub(crate) server: Option<String>,
    /// UID of the `kube-system` Namespace, where it may be read.
    pub(crate) uid: Option<Uid>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct ServiceAccount {
    pub(crate) name: String,
    /// Whether the run made it.
    pub(crate) owned: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) uid: Option<Uid>,
}

#[derive(Clone, Debug, Serialize)]
struct PhaseTime {
    name: &'static str,
    seconds: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Object {
    kind: &'static str,
    namespace: Option<String>,
    name: String,
    uid: Option<Uid>,
    fate: String,
    reason: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    exit_code: u8,
    reason: &'static str,
    message: Option<String>,
}

impl RunReport {
    pub(crate) fn new() -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            run_id: None,
            invocation_id: None,
            cluster: Cluster::default(),
            namespace: None,
            service_account: None,
            job: None,
            output: None,
            started_at: Timestamp::now(),
            finished_at: None,
            phases: Vec::new(),
            objects: Vec::new(),
            outcome: None,
            evidence: None,
        }
    }

    /// How long each step took.
    pub(crate) fn set_phases(&mut self, phases: &[(Phase, Duration)]) {
        self.phases = phases
            .iter()
            .map(|(phase, took)| PhaseTime { name: phase.as_str(), seconds: took.as_secs_f64() })
            .collect();
    }

    /// What became of every object.
    pub(crate) fn set_removals(&mut self, removals: &[Removal]) {
        self.objects = removals
            .iter()
            .map(|removal| {
                let message = match &removal.fate {
                    Fate::Failed(error) => Some(error.to_string()),
                    fate => fate.reason().map(|reason| reason.to_string()),
                };
                object(&removal.object, removal.uid.clone(), removal.fate.to_string(), message)
            })
            .collect();
    }

    /// What may be left of a run that was stopped before its cleanup had ended.
    pub(crate) fn set_unfinished(&mut self, entries: &[Entry]) {
        self.objects = entries
            .iter()
            .map(|entry| {
                let uid = match &entry.claim {
                    Claim::Confirmed { uid } => Some(uid.clone()),
                    Claim::Intended { .. } => None,
                };
                object(&entry.object, uid, "unknown".to_owned(), Some("Interrupted".to_owned()))
            })
            .collect();
    }

    /// Closes the report.
    pub(crate) fn finish(&mut self, outcome: &Result<(), Error>, evidence: Option<Evidence>) {
        let code = outcome.as_ref().map_or_else(Error::exit_code, |()| exit::OK);
        self.finished_at = Some(Timestamp::now());
        self.outcome = Some(Outcome {
            exit_code: code,
            reason: exit::reason(code),
            message: outcome.as_ref().err().map(ToString::to_string),
        });
        self.evidence = evidence.filter(|evidence| outcome.is_err() && !evidence.is_empty());
    }

    pub(crate) fn json(&self) -> String {
        // Strings, numbers and lists: there is nothing in these types that JSON cannot say.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

fn object(object: &ObjectRef, uid: Option<Uid>, fate: String, reason: Option<String>) -> Object {
    Object {
        kind: object.kind.as_str(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
        uid,
        fate,
        reason,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::agent::object::Kind;
    use crate::error::Signal;

    #[test]
    fn r40_every_field_and_every_reason_is_documented() {
        let page = include_str!("../../docs/report.md");
        let mut report = RunReport::new();
        report.service_account = Some(ServiceAccount { name: "irsa-sa".to_owned(), owned: false });
        report.job = Some(Job { name: "aicr-1".to_owned(), uid: None });
        report.set_phases(&[(Phase::Deploy, Duration::ZERO)]);
        report.set_removals(&[Removal {
            object: ObjectRef::cluster(Kind::ClusterRole, "aicr-node-reader-1"),
            uid: None,
            fate: Fate::Kept,
        }]);
        let evidence = Evidence { log: vec!["last".to_owned()], ..Evidence::default() };
        report.finish(&Err(Error::StdoutClosed), Some(evidence));
        crate::report::assert_documented(&serde_json::to_value(&report).unwrap(), page);
        for code in 0..=u8::MAX {
            assert!(page.contains(&format!("`{}` ", exit::reason(code))), "{code}");
        }
    }

    #[test]
    fn r40_a_report_has_its_documented_fields_on_every_way_out() {
        let mut report = RunReport::new();
        report.set_phases(&[(Phase::Preflight, Duration::from_millis(250))]);
        report.set_removals(&[Removal {
            object: ObjectRef::namespaced(Kind::Job, "gpu", "aicr-1"),
            uid: Uid::new("u-1".to_owned()),
            fate: Fate::StillTerminating,
        }]);
        let evidence = Evidence { log: vec!["last".to_owned()], ..Evidence::default() };
        report.finish(&Err(Error::Interrupted(Signal::Interrupt)), Some(evidence));
        let mut json: Value = serde_json::from_str(&report.json()).unwrap();
        for time in ["startedAt", "finishedAt"] {
            assert!(json[time].take().as_str().is_some_and(|text| text.parse::<Timestamp>().is_ok()), "{time}");
        }
        assert_eq!(
            json,
            json!({
                "schemaVersion": 1, "runId": null, "invocationId": null, "cluster": { "server": null, "uid": null },
                "namespace": null, "serviceAccount": null, "job": null, "output": null, "startedAt": null,
                "finishedAt": null, "phases": [{ "name": "preflight", "seconds": 0.25 }],
                "objects": [{
                    "kind": "Job", "namespace": "gpu", "name": "aicr-1", "uid": "u-1", "fate": "terminating",
                    "reason": "StillTerminating",
                }],
                "outcome": { "exitCode": 130, "reason": "Interrupted", "message": "interrupted by SIGINT" },
                "evidence": { "job": [], "pods": [], "events": [], "log": ["last"] },
            })
        );
    }
}
