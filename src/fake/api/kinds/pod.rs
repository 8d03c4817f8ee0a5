//! Pods, and the part of other kinds that describes one.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Map, Value, json};

use super::super::kind::{Kind, Subresource, decode};
use super::super::object::{Object as _, as_map, default_to, map_in};
use super::super::refusal::Fault;
use super::super::table::columns;
use super::PLAIN;

/// Parts of a pod's spec that may change after its creation, beside images and deadlines.
const MUTABLE: &[&str] = &["tolerations", "terminationGracePeriodSeconds", "activeDeadlineSeconds", "nodeName"];

pub(crate) static POD: Kind = Kind {
    name: "Pod",
    plural: "pods",
    singular: "pod",
    short: &["po"],
    categories: &["all"],
    subresources: &[Subresource::Binding, Subresource::Log, Subresource::Status],
    generation: true,
    decode: decode::<Pod>,
    prepare: prepare_pod,
    default: default_pod,
    check: check_pod,
    fields: &[
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ],
    columns: columns::POD,
    ..PLAIN
};

fn prepare_pod(pod: &mut Value) {
    as_map(pod).insert("status".to_owned(), json!({ "phase": "Pending", "qosClass": "BestEffort" }));
}

fn default_pod(pod: &mut Value) {
    let spec = map_in(as_map(pod), "spec");
    default_spec(spec);
    default_to(spec, "serviceAccountName", "default");
    let account = spec["serviceAccountName"].clone();
    default_to(spec, "serviceAccount", account);
    default_to(spec, "enableServiceLinks", true);
    default_to(spec, "priority", 0);
    default_to(spec, "preemptionPolicy", "PreemptLowerPriority");
}

/// The defaults of a pod's spec, in a pod and in a template.
pub(super) fn default_spec(spec: &mut Map<String, Value>) {
    default_to(spec, "dnsPolicy", "ClusterFirst");
    default_to(spec, "restartPolicy", "Always");
    default_to(spec, "schedulerName", "default-scheduler");
    default_to(spec, "securityContext", json!({}));
    default_to(spec, "terminationGracePeriodSeconds", 30);
    if let Some(account) = spec.get("serviceAccountName").cloned() {
        default_to(spec, "serviceAccount", account);
    }
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            default_container(as_map(container));
        }
    }
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(Value::Object(path)) = volume.get_mut("hostPath") {
            default_to(path, "type", "");
        }
    }
}

fn default_container(container: &mut Map<String, Value>) {
    default_to(container, "resources", json!({}));
    default_to(container, "terminationMessagePath", "/dev/termination-log");
    default_to(container, "terminationMessagePolicy", "File");
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let name = image.rsplit('/').next().unwrap_or_default();
    let floats = !image.contains('@') && (!name.contains(':') || name.ends_with(":latest"));
    default_to(container, "imagePullPolicy", if floats { "Always" } else { "IfNotPresent" });
    for variable in container.get_mut("env").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(Value::Object(field)) = variable.pointer_mut("/valueFrom/fieldRef") {
            default_to(field, "apiVersion", "v1");
        }
    }
    let resources = map_in(container, "resources");
    let limits = resources.get("limits").and_then(Value::as_object).cloned().unwrap_or_default();
    if !limits.is_empty() {
        let requests = map_in(resources, "requests");
        for (name, limit) in limits {
            default_to(requests, &name, limit);
        }
    }
}

fn check_pod(new: &Value, old: Option<&Value>) -> Vec<Fault> {
    let mut faults = check_spec(&new["spec"], "spec");
    if let Some(old) = old
        && fixed(&new["spec"]) != fixed(&old["spec"])
    {
        faults.push(Fault::forbidden("spec", POD_UPDATE));
    }
    faults
}

const POD_UPDATE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
                          `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only \
                          additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set \
                          to 1 if it was previously negative)";

/// What of a spec may not change.
fn fixed(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let map = as_map(&mut spec);
    for field in MUTABLE {
        map.remove(*field);
    }
    for list in ["containers", "initContainers"] {
        for container in map.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            as_map(container).remove("image");
            as_map(container).remove("imagePullPolicy");
        }
    }
    spec
}

/// What is wrong with a pod's spec, in a pod and in a template.
pub(super) fn check_spec(spec: &Value, at: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    if spec.list("/containers").is_empty() {
        faults.push(Fault::required(format!("{at}.containers"), ""));
    }
    for (index, container) in spec.list("/containers").iter().enumerate() {
        for field in ["name", "image"] {
            if container.text(&format!("/{field}")).is_empty() {
                faults.push(Fault::required(format!("{at}.containers[{index}].{field}"), ""));
            }
        }
    }
    let policy = spec.text("/restartPolicy");
    if !["Always", "OnFailure", "Never"].contains(&policy) {
        faults.push(Fault::unsupported(format!("{at}.restartPolicy"), policy, &["Always", "OnFailure", "Never"]));
    }
    faults
}
