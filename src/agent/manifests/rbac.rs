//! RBAC of a run (R8–R10) and of an account that an administrator keeps (R12), from the one table of rules.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::agent::config::{Config, Output};
use crate::agent::manifests::{Identity, Manifest, Names};
use crate::agent::object::{Kind, ObjectRef};
use crate::agent::rules::Rule;
use crate::agent::{labels, rules};

type Labels = BTreeMap<String, String>;

/// What a run grants its own account: first what bindings refer to, then the bindings.
pub(super) fn of_run(config: &Config, identity: &Identity, names: &Names) -> (Vec<Manifest>, Vec<Manifest>) {
    let labels = labels::of_run(&identity.run_id, &identity.invocation_id);
    let (namespace, account) = (config.namespace.as_str(), names.account.as_str());
    let subject = subject(namespace, account);
    let service_account =
        ServiceAccount { metadata: metadata(Some(namespace), account, &labels), ..ServiceAccount::default() };
    let mut grants = vec![
        Manifest::new(ObjectRef::namespaced(Kind::ServiceAccount, namespace, account), &service_account),
        role(namespace, account, &labels, rules::NAMESPACE.iter().map(Rule::policy)),
        cluster_role(&names.node_reader, &labels, rules::cluster(config.discover_network).map(Rule::policy)),
    ];
    let mut bindings = vec![
        role_binding(namespace, account, &labels, &subject),
        cluster_role_binding(&names.node_reader, &labels, &subject),
    ];
    if let Output::ConfigMap { namespace: elsewhere, .. } = &config.output
        && elsewhere != namespace
    {
        grants.push(role(elsewhere, account, &labels, [rules::CONFIG_MAPS.policy()]));
        bindings.push(role_binding(elsewhere, account, &labels, &subject));
    }
    (grants, bindings)
}

/// The account that a binding grants to.
pub(crate) fn subject(namespace: &str, account: &str) -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        name: account.to_owned(),
        namespace: Some(namespace.to_owned()),
        ..Subject::default()
    }
}

pub(crate) fn role(
    namespace: &str,
    name: &str,
    labels: &Labels,
    rules: impl IntoIterator<Item = PolicyRule>,
) -> Manifest {
    let role = Role { metadata: metadata(Some(namespace), name, labels), rules: Some(rules.into_iter().collect()) };
    Manifest::new(ObjectRef::namespaced(Kind::Role, namespace, name), &role)
}

pub(crate) fn cluster_role(name: &str, labels: &Labels, rules: impl IntoIterator<Item = PolicyRule>) -> Manifest {
    let role = ClusterRole {
        metadata: metadata(None, name, labels),
        rules: Some(rules.into_iter().collect()),
        ..ClusterRole::default()
    };
    Manifest::new(ObjectRef::cluster(Kind::ClusterRole, name), &role)
}

/// Binds the `Role` of the same name.
pub(crate) fn role_binding(namespace: &str, name: &str, labels: &Labels, subject: &Subject) -> Manifest {
    let binding = RoleBinding {
        metadata: metadata(Some(namespace), name, labels),
        role_ref: role_ref(Kind::Role, name),
        subjects: Some(vec![subject.clone()]),
    };
    Manifest::new(ObjectRef::namespaced(Kind::RoleBinding, namespace, name), &binding)
}

/// Binds the `ClusterRole` of the same name.
pub(crate) fn cluster_role_binding(name: &str, labels: &Labels, subject: &Subject) -> Manifest {
    let binding = ClusterRoleBinding {
        metadata: metadata(None, name, labels),
        role_ref: role_ref(Kind::ClusterRole, name),
        subjects: Some(vec![subject.clone()]),
    };
    Manifest::new(ObjectRef::cluster(Kind::ClusterRoleBinding, name), &binding)
}

fn role_ref(kind: Kind, name: &str) -> RoleRef {
    RoleRef { api_group: Some(kind.group().to_owned()), kind: kind.to_string(), name: name.to_owned() }
}

fn metadata(namespace: Option<&str>, name: &str, labels: &Labels) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: namespace.map(str::to_owned),
        labels: Some(labels.clone()),
        ..ObjectMeta::default()
    }
}
