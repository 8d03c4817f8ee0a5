//! What an administrator can apply to let a run pass the gate. Pure.

use k8s_openapi::api::authentication::v1::UserInfo;
use k8s_openapi::api::rbac::v1::{PolicyRule, Subject};
use serde_json::Value;

use crate::agent::preflight::check::{Check, Scope, Who};
use crate::agent::run_id::RunId;
use crate::agent::{labels, manifests};

/// Stands where the caller's name belongs if the server did not say it.
const BLANK: &str = "YOUR-USER-NAME";

const RBAC: &str = "rbac.authorization.k8s.io";

/// The caller as bindings name it, if the server said who it is.
pub(super) fn subject(user: UserInfo) -> Option<Subject> {
    let name = user.username.filter(|name| !name.is_empty())?;
    let account = name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    Some(match account {
        Some((namespace, name)) => Subject {
            kind: "ServiceAccount".to_owned(),
            namespace: Some(namespace.to_owned()),
            name: name.to_owned(),
            ..Subject::default()
        },
        None => Subject { kind: "User".to_owned(), api_group: Some(RBAC.to_owned()), name, ..Subject::default() },
    })
}

/// Roles with exactly what is missing, and their bindings. Their names are not used twice: applying them never takes
/// away what an earlier one gave.
pub(super) fn grant(missing: &[Check], caller: Option<&Subject>, run_id: &RunId) -> Vec<Value> {
    let mut places: Vec<(&Who, &Scope)> = Vec::new();
    for check in missing.iter().filter(|check| !is_given_by_roles(check)) {
        let place = (&check.who, &check.scope);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
        .into_iter()
        .flat_map(|(who, scope)| {
            let (subject, name) = match who {
                Who::Caller => (caller.cloned().unwrap_or_else(blank), format!("aicr-grant-{run_id}-rbac")),
                Who::Account { namespace, name } => {
                    (manifests::subject(namespace, name), format!("aicr-agent-{namespace}.{name}-rbac"))
                }
            };
            let labels = labels::of_agent_rbac();
            let rules = rules(missing.iter().filter(|check| check.who == *who && check.scope == *scope));
            match scope {
                Scope::Namespace(namespace) => [
                    manifests::role(namespace, &name, &labels, rules),
                    manifests::role_binding(namespace, &name, &labels, &subject),
                ],
                Scope::Cluster => [
                    manifests::cluster_role(&name, &labels, rules),
                    manifests::cluster_role_binding(&name, &labels, &subject),
                ],
            }
        })
        .map(|manifest| manifest.body)
        .collect()
}

/// `roles` gives an account what it needs in the cluster and in its own namespace.
fn is_given_by_roles(check: &Check) -> bool {
    match (&check.who, &check.scope) {
        (Who::Account { namespace: own, .. }, Scope::Namespace(namespace)) => own == namespace,
        (Who::Account { .. }, Scope::Cluster) => true,
        (Who::Caller, _) => false,
    }
}

fn blank() -> Subject {
    Subject { kind: "User".to_owned(), api_group: Some(RBAC.to_owned()), name: BLANK.to_owned(), ..Subject::default() }
}

/// One rule a resource, with all its verbs.
fn rules<'a>(checks: impl Iterator<Item = &'a Check>) -> Vec<PolicyRule> {
    let mut rules: Vec<PolicyRule> = Vec::new();
    for check in checks {
        let target = PolicyRule {
            api_groups: Some(vec![check.group.clone()]),
            resources: Some(vec![check.resource.clone()]),
            // A create carries no name that a rule could hold it to.
            resource_names: check.name.clone().filter(|_| check.verb != "create").map(|name| vec![name]),
            ..PolicyRule::default()
        };
        let same = |rule: &&mut PolicyRule| PolicyRule { verbs: Vec::new(), ..(**rule).clone() } == target;
        let verb = check.verb.clone();
        match rules.iter_mut().find(same) {
            Some(rule) if rule.verbs.contains(&verb) => {}
            Some(rule) => rule.verbs.push(verb),
            None => rules.push(PolicyRule { verbs: vec![verb], ..target }),
        }
    }
    rules
}
