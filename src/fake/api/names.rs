//! What names, labels and annotations may be, in the server's words.

use serde_json::Value;

use super::kind::{Kind, NameRule};
use super::object::Object as _;
use super::refusal::Fault;
use crate::agent::names;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                         and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                         validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                     start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
                     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED_NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and \
                              end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex \
                              used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
                           '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or \
                           'my_value',  or '12345', regex used for validation is \
                           '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// What is wrong with an object's metadata.
pub(crate) fn check_metadata(kind: &Kind, object: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    let name = object.meta("name");
    if name.is_empty() {
        faults.push(Fault::required("metadata.name", "name or generateName is required"));
    } else {
        faults.extend(check_name(kind.names, name));
    }
    let entries = |field: &str| object["metadata"][field].as_object().cloned().unwrap_or_default();
    for (key, value) in entries("labels") {
        if names::check_label_key(&key).is_err() {
            faults.push(Fault::invalid("metadata.labels", &key, QUALIFIED_NAME));
        }
        let value = value.as_str().unwrap_or_default();
        if value.len() > 63 {
            faults.push(Fault::invalid("metadata.labels", value, "must be no more than 63 bytes"));
        } else if names::check_label_value(value).is_err() {
            faults.push(Fault::invalid("metadata.labels", value, LABEL_VALUE));
        }
    }
    for key in entries("annotations").keys() {
        if names::check_label_key(&key.to_lowercase()).is_err() {
            faults.push(Fault::invalid("metadata.annotations", key, QUALIFIED_NAME));
        }
    }
    for (index, owner) in object.list("/metadata/ownerReferences").iter().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner.text(&format!("/{field}")).is_empty() {
                let at = format!("metadata.ownerReferences[{index}].{field}");
                faults.push(Fault::invalid(at, "", "must not be empty"));
            }
        }
    }
    for finalizer in object.meta_list("finalizers") {
        if names::check_label_key(finalizer).is_err() {
            faults.push(Fault::invalid("metadata.finalizers", finalizer, QUALIFIED_NAME));
        } else if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
            faults.push(Fault::invalid("metadata.finalizers[0]", finalizer, UNQUALIFIED_FINALIZER));
        }
    }
    faults
}

/// Finalizers that have no domain in front.
const STANDARD_FINALIZERS: &[&str] = &["foregroundDeletion", "orphan", "kubernetes"];

const UNQUALIFIED_FINALIZER: &str = "name is neither a standard finalizer name nor is it fully qualified";

fn check_name(rule: NameRule, name: &str) -> Option<Fault> {
    let why = match rule {
        NameRule::Subdomain if name.len() > 253 => "must be no more than 253 characters",
        NameRule::Subdomain => names::check_dns_subdomain(name).is_err().then_some(SUBDOMAIN)?,
        NameRule::Label if name.len() > 63 => "must be no more than 63 characters",
        NameRule::Label => names::check_dns_label(name).is_err().then_some(LABEL)?,
        NameRule::PathSegment => match name {
            "." | ".." => "may not be '.' or '..'",
            _ if name.contains('/') => "may not contain '/'",
            _ if name.contains('%') => "may not contain '%'",
            _ => return None,
        },
    };
    Some(Fault::invalid("metadata.name", name, why))
}
