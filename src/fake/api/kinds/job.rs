//! Jobs.

use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};

use super::super::kind::{Kind, Subresource, decode};
use super::super::object::{Object as _, as_map, default_to, map_in};
use super::super::refusal::Fault;
use super::super::table::columns;
use super::{PLAIN, immutable, pod};

/// Longest name of a Job: it is a label value of its pods.
const LONGEST_NAME: usize = 63;

pub(crate) static JOB: Kind = Kind {
    group: "batch",
    name: "Job",
    plural: "jobs",
    singular: "job",
    categories: &["all"],
    subresources: &[Subresource::Status],
    generation: true,
    decode: decode::<Job>,
    prepare: prepare_job,
    default: default_job,
    check: check_job,
    fields: &["status.successful"],
    columns: columns::JOB,
    ..PLAIN
};

/// Ties the Job to its pods by its UID.
fn prepare_job(job: &mut Value) {
    let (uid, name) = (job.meta("uid").to_owned(), job.meta("name").to_owned());
    let job = as_map(job);
    job.insert("status".to_owned(), json!({}));
    let spec = map_in(job, "spec");
    if spec.get("manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    map_in(map_in(spec, "selector"), "matchLabels").insert(CONTROLLER_UID.to_owned(), uid.as_str().into());
    let labels = map_in(map_in(map_in(spec, "template"), "metadata"), "labels");
    for (key, value) in [(CONTROLLER_UID, &uid), ("controller-uid", &uid), (JOB_NAME, &name), ("job-name", &name)] {
        labels.insert(key.to_owned(), value.as_str().into());
    }
}

const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
const JOB_NAME: &str = "batch.kubernetes.io/job-name";

fn default_job(job: &mut Value) {
    let spec = map_in(as_map(job), "spec");
    if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
        spec.insert("completions".to_owned(), 1.into());
    }
    default_to(spec, "parallelism", 1);
    default_to(spec, "backoffLimit", 6);
    default_to(spec, "completionMode", "NonIndexed");
    default_to(spec, "suspend", false);
    default_to(spec, "manualSelector", false);
    default_to(spec, "podReplacementPolicy", "TerminatingOrFailed");
    pod::default_spec(map_in(map_in(spec, "template"), "spec"));
}

fn check_job(new: &Value, old: Option<&Value>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let template = &new["spec"]["template"];
    if new.meta("name").len() > LONGEST_NAME {
        let rule = format!("must be no more than {LONGEST_NAME} bytes");
        faults.push(Fault::invalid("spec.template.labels", new.meta("name"), &rule));
    }
    faults.extend(pod::check_spec(&template["spec"], "spec.template.spec"));
    if template.text("/spec/restartPolicy") == "Always" {
        let allowed = "valid values: \"OnFailure\", \"Never\"";
        faults.push(Fault::required("spec.template.spec.restartPolicy", allowed));
    }
    for count in ["parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"] {
        if let Some(value) = new["spec"][count].as_i64().filter(|value| *value < 0) {
            let rule = "must be greater than or equal to 0";
            faults.push(Fault::invalid(format!("spec.{count}"), &value.to_string(), rule));
        }
    }
    if let Some(old) = old {
        for field in ["spec.completions", "spec.selector", "spec.template", "spec.completionMode"] {
            faults.extend(immutable(field, new, old));
        }
    }
    faults
}
