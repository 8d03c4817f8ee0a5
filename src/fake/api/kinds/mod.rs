//! The kinds that are served.

mod core;
mod job;
mod pod;
mod rbac;
mod review;

use serde_json::Value;

use super::kind::{Kind, NameRule, Serves};
use super::refusal::Fault;
use super::table::{AGE, NAME};

pub(crate) use self::core::{CONFIG_MAP, EVENT, NAMESPACE, NODE, SECRET, SERVICE_ACCOUNT};
pub(crate) use job::JOB;
pub(crate) use pod::POD;
pub(crate) use rbac::{CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING};

/// Every kind, in the order of its group and then of its name.
pub(crate) static ALL: &[&Kind] = &[
    &CONFIG_MAP,
    &EVENT,
    &NAMESPACE,
    &NODE,
    &POD,
    &SECRET,
    &SERVICE_ACCOUNT,
    &self::core::DAEMON_SET,
    &review::SELF_SUBJECT_REVIEW,
    &review::LOCAL_SUBJECT_ACCESS_REVIEW,
    &review::SELF_SUBJECT_ACCESS_REVIEW,
    &review::SELF_SUBJECT_RULES_REVIEW,
    &review::SUBJECT_ACCESS_REVIEW,
    &JOB,
    &self::core::RUNTIME_CLASS,
    &CLUSTER_ROLE_BINDING,
    &CLUSTER_ROLE,
    &ROLE_BINDING,
    &ROLE,
    &self::core::STORAGE_CLASS,
];

/// What most kinds have in common.
const PLAIN: Kind = Kind {
    group: "",
    version: "v1",
    name: "",
    plural: "",
    singular: "",
    short: &[],
    categories: &[],
    namespaced: true,
    serves: Serves::Objects,
    subresources: &[],
    names: NameRule::Subdomain,
    generation: false,
    decode: Ok,
    prepare: leave,
    default: leave,
    check: accept,
    fields: &[],
    columns: &[NAME, AGE],
};

fn leave(_: &mut Value) {}

fn accept(_: &Value, _: Option<&Value>) -> Vec<Fault> {
    Vec::new()
}

/// A fault if a field differs from what it was.
fn immutable(field: &str, new: &Value, old: &Value) -> Option<Fault> {
    let pointer = format!("/{}", field.replace('.', "/"));
    let (new, old) = (new.pointer(&pointer), old.pointer(&pointer));
    let shown = new.map_or_else(|| "null".to_owned(), Value::to_string);
    (new != old).then(|| Fault::invalid(field, &shown, "field is immutable"))
}
