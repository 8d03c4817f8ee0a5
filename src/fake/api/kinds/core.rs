//! Kinds without rules worth a file of their own.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Node, Secret, ServiceAccount};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};

use super::super::kind::{Kind, NameRule, Subresource, decode};
use super::super::object::{Object as _, as_map, default_to, map_in};
use super::super::refusal::Fault;
use super::super::table::columns;
use super::{PLAIN, immutable};

/// The most that the values of a `ConfigMap` or Secret may be together.
const LARGEST_DATA: usize = 1024 * 1024;

pub(crate) static CONFIG_MAP: Kind = Kind {
    name: "ConfigMap",
    plural: "configmaps",
    singular: "configmap",
    short: &["cm"],
    decode: decode::<ConfigMap>,
    check: check_config_map,
    columns: columns::CONFIG_MAP,
    ..PLAIN
};

pub(crate) static EVENT: Kind = Kind {
    name: "Event",
    plural: "events",
    singular: "event",
    short: &["ev"],
    decode: decode::<Event>,
    default: default_event,
    check: check_event,
    fields: &[
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ],
    columns: columns::EVENT,
    ..PLAIN
};

pub(crate) static NAMESPACE: Kind = Kind {
    name: "Namespace",
    plural: "namespaces",
    singular: "namespace",
    short: &["ns"],
    namespaced: false,
    subresources: &[Subresource::Finalize, Subresource::Status],
    names: NameRule::Label,
    decode: decode::<Namespace>,
    prepare: prepare_namespace,
    default: default_namespace,
    fields: &["status.phase"],
    columns: columns::NAMESPACE,
    ..PLAIN
};

pub(crate) static NODE: Kind = Kind {
    name: "Node",
    plural: "nodes",
    singular: "node",
    short: &["no"],
    namespaced: false,
    subresources: &[Subresource::Status],
    decode: decode::<Node>,
    fields: &["spec.unschedulable"],
    columns: columns::NODE,
    ..PLAIN
};

pub(crate) static SECRET: Kind = Kind {
    name: "Secret",
    plural: "secrets",
    singular: "secret",
    decode: decode::<Secret>,
    default: default_secret,
    check: check_secret,
    fields: &["type"],
    columns: columns::SECRET,
    ..PLAIN
};

pub(crate) static SERVICE_ACCOUNT: Kind = Kind {
    name: "ServiceAccount",
    plural: "serviceaccounts",
    singular: "serviceaccount",
    short: &["sa"],
    subresources: &[Subresource::Token],
    decode: decode::<ServiceAccount>,
    ..PLAIN
};

pub(crate) static DAEMON_SET: Kind = Kind {
    group: "apps",
    name: "DaemonSet",
    plural: "daemonsets",
    singular: "daemonset",
    short: &["ds"],
    categories: &["all"],
    subresources: &[Subresource::Status],
    generation: true,
    decode: decode::<DaemonSet>,
    ..PLAIN
};

pub(crate) static RUNTIME_CLASS: Kind = Kind {
    group: "node.k8s.io",
    name: "RuntimeClass",
    plural: "runtimeclasses",
    singular: "runtimeclass",
    namespaced: false,
    decode: decode::<RuntimeClass>,
    check: check_runtime_class,
    columns: columns::RUNTIME_CLASS,
    ..PLAIN
};

pub(crate) static STORAGE_CLASS: Kind = Kind {
    group: "storage.k8s.io",
    name: "StorageClass",
    plural: "storageclasses",
    singular: "storageclass",
    short: &["sc"],
    namespaced: false,
    decode: decode::<StorageClass>,
    ..PLAIN
};

fn check_config_map(new: &Value, old: Option<&Value>) -> Vec<Fault> {
    check_data(new, old, &["data", "binaryData"])
}

fn check_secret(new: &Value, old: Option<&Value>) -> Vec<Fault> {
    let mut faults = check_data(new, old, &["data"]);
    faults.extend(old.and_then(|old| immutable("type", new, old)));
    faults
}

fn check_data(new: &Value, old: Option<&Value>, fields: &[&str]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut size = 0;
    for &field in fields {
        for (key, value) in new[field].as_object().into_iter().flatten() {
            size += value.as_str().map_or(0, str::len);
            let fits = !key.is_empty()
                && key.len() <= 253
                && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
                && key != "."
                && !key.starts_with("..");
            if !fits {
                faults.push(Fault::invalid(format!("{field}[{key}]"), key, DATA_KEY));
            }
        }
    }
    if size > LARGEST_DATA {
        // The server names the empty path so.
        faults.push(Fault::too_long("[]", LARGEST_DATA));
    }
    if let Some(old) = old.filter(|old| old["immutable"] == true) {
        let changed = fields.iter().any(|&field| new[field] != old[field]);
        if changed || new["immutable"] != true {
            let field = if changed { fields[0] } else { "immutable" };
            faults.push(Fault::forbidden(field, "field is immutable when `immutable` is set"));
        }
    }
    faults
}

const DATA_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  \
                        or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

fn default_secret(secret: &mut Value) {
    use base64::Engine as _;
    let secret = as_map(secret);
    default_to(secret, "type", "Opaque");
    if let Some(Value::Object(plain)) = secret.remove("stringData") {
        let data = map_in(secret, "data");
        for (key, value) in plain {
            let text = value.as_str().unwrap_or_default();
            data.insert(key, base64::engine::general_purpose::STANDARD.encode(text).into());
        }
    }
}

fn default_event(event: &mut Value) {
    let event = as_map(event);
    for field in ["source", "involvedObject"] {
        default_to(event, field, json!({}));
    }
    for field in ["firstTimestamp", "lastTimestamp", "eventTime"] {
        event.entry(field).or_insert(Value::Null);
    }
    for field in ["reportingComponent", "reportingInstance"] {
        default_to(event, field, "");
    }
}

fn check_event(new: &Value, _: Option<&Value>) -> Vec<Fault> {
    let about = new.text("/involvedObject/namespace");
    let namespace = new.meta("namespace");
    // What has no namespace is spoken of in `default`.
    if about == namespace || (about.is_empty() && namespace == "default") {
        return Vec::new();
    }
    vec![Fault::invalid("involvedObject.namespace", about, "does not match event.namespace")]
}

fn prepare_namespace(namespace: &mut Value) {
    let namespace = as_map(namespace);
    namespace.insert("spec".to_owned(), json!({ "finalizers": ["kubernetes"] }));
    namespace.insert("status".to_owned(), json!({ "phase": "Active" }));
}

fn default_namespace(namespace: &mut Value) {
    let name = namespace.meta("name").to_owned();
    // A generated name comes later, and with it this label.
    if !name.is_empty() {
        map_in(namespace.metadata_mut(), "labels").insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
}

fn check_runtime_class(new: &Value, old: Option<&Value>) -> Vec<Fault> {
    let missing = new.text("/handler").is_empty().then(|| Fault::required("handler", ""));
    missing.into_iter().chain(old.and_then(|old| immutable("handler", new, old))).collect()
}
