//! Roles and bindings.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use serde_json::Value;

use super::super::kind::{Kind, NameRule, decode};
use super::super::object::{Object as _, as_map, default_to, map_in};
use super::super::refusal::Fault;
use super::super::table::columns;
use super::PLAIN;

/// The group of roles and bindings.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

const RBAC: Kind = Kind { group: GROUP, names: NameRule::PathSegment, ..PLAIN };

pub(crate) static ROLE: Kind = Kind {
    name: "Role",
    plural: "roles",
    singular: "role",
    decode: decode::<Role>,
    default: default_role,
    check: check_role,
    columns: columns::ROLE,
    ..RBAC
};

pub(crate) static CLUSTER_ROLE: Kind = Kind {
    name: "ClusterRole",
    plural: "clusterroles",
    singular: "clusterrole",
    namespaced: false,
    decode: decode::<ClusterRole>,
    default: default_role,
    check: check_cluster_role,
    columns: columns::ROLE,
    ..RBAC
};

pub(crate) static ROLE_BINDING: Kind = Kind {
    name: "RoleBinding",
    plural: "rolebindings",
    singular: "rolebinding",
    decode: decode::<RoleBinding>,
    default: default_binding,
    check: check_role_binding,
    columns: columns::BINDING,
    ..RBAC
};

pub(crate) static CLUSTER_ROLE_BINDING: Kind = Kind {
    name: "ClusterRoleBinding",
    plural: "clusterrolebindings",
    singular: "clusterrolebinding",
    namespaced: false,
    decode: decode::<ClusterRoleBinding>,
    default: default_binding,
    check: check_cluster_role_binding,
    columns: columns::BINDING,
    ..RBAC
};

fn default_role(role: &mut Value) {
    as_map(role).entry("rules").or_insert(Value::Null);
}

fn default_binding(binding: &mut Value) {
    let binding = as_map(binding);
    let role = map_in(binding, "roleRef");
    if role.get("apiGroup").is_none_or(|group| group == "") {
        role.insert("apiGroup".to_owned(), GROUP.into());
    }
    for subject in binding.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
        if subject["kind"] != "ServiceAccount" {
            default_to(as_map(subject), "apiGroup", GROUP);
        }
    }
}

fn check_role(new: &Value, _: Option<&Value>) -> Vec<Fault> {
    check_rules(new, true)
}

fn check_cluster_role(new: &Value, _: Option<&Value>) -> Vec<Fault> {
    check_rules(new, false)
}

fn check_rules(role: &Value, namespaced: bool) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (index, rule) in role.list("/rules").iter().enumerate() {
        let field = |name: &str| format!("rules[{index}].{name}");
        let empty = |name: &str| rule.list(&format!("/{name}")).is_empty();
        if empty("verbs") {
            faults.push(Fault::required(field("verbs"), "verbs must contain at least one value"));
        }
        if !empty("nonResourceURLs") {
            if namespaced {
                let shown = rule["nonResourceURLs"].to_string();
                let why = "namespaced rules cannot apply to non-resource URLs";
                faults.push(Fault::invalid(field("nonResourceURLs"), &shown, why));
            }
            continue;
        }
        if empty("apiGroups") {
            faults.push(Fault::required(field("apiGroups"), "resource rules must supply at least one api group"));
        }
        if empty("resources") {
            faults.push(Fault::required(field("resources"), "resource rules must supply at least one resource"));
        }
    }
    faults
}

fn check_role_binding(new: &Value, old: Option<&Value>) -> Vec<Fault> {
    check_binding(new, old, &["Role", "ClusterRole"])
}

fn check_cluster_role_binding(new: &Value, old: Option<&Value>) -> Vec<Fault> {
    check_binding(new, old, &["ClusterRole"])
}

fn check_binding(new: &Value, old: Option<&Value>, roles: &[&str]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let role = &new["roleRef"];
    if role.text("/apiGroup") != GROUP {
        faults.push(Fault::unsupported("roleRef.apiGroup", role.text("/apiGroup"), &[GROUP]));
    }
    if !roles.contains(&role.text("/kind")) {
        faults.push(Fault::unsupported("roleRef.kind", role.text("/kind"), roles));
    }
    if role.text("/name").is_empty() {
        faults.push(Fault::required("roleRef.name", ""));
    }
    for (index, subject) in new.list("/subjects").iter().enumerate() {
        faults.extend(check_subject(index, subject, roles.contains(&"Role")));
    }
    if let Some(old) = old
        && *role != old["roleRef"]
    {
        faults.push(Fault::invalid("roleRef", &role.to_string(), "cannot change roleRef"));
    }
    faults
}

/// In a namespace, that namespace is where an account is looked for if its own is not named.
fn check_subject(index: usize, subject: &Value, namespaced: bool) -> Vec<Fault> {
    let field = |name: &str| format!("subjects[{index}].{name}");
    let mut faults = Vec::new();
    if subject.text("/name").is_empty() {
        faults.push(Fault::required(field("name"), ""));
    }
    match subject.text("/kind") {
        "ServiceAccount" => {
            if !namespaced && subject.text("/namespace").is_empty() {
                faults.push(Fault::required(field("namespace"), ""));
            }
        }
        "User" | "Group" => {}
        other => faults.push(Fault::unsupported(field("kind"), other, &["ServiceAccount", "User", "Group"])),
    }
    faults
}
