//! The API server's refusal to let a caller grant what it does not hold (R18), read back into permissions. Pure.

use crate::agent::preflight::check::{self, Check, Scope};
use crate::agent::rules::{self, Rule};

const REFUSAL: &str = "is attempting to grant RBAC permissions not currently held";

/// The permissions that the message lists, or `None` if it speaks of something else.
pub(super) fn missing(message: &str, scope: &Scope) -> Option<Vec<Check>> {
    let (_, list) = message.split_once(REFUSAL)?;
    Some(list.lines().filter_map(|line| rule(line, scope)).flatten().collect())
}

/// Reads `{APIGroups:["apps"], Resources:["daemonsets"], Verbs:["get" "list"]}`.
fn rule(line: &str, scope: &Scope) -> Option<Vec<Check>> {
    let inner = line.trim_start().strip_prefix('{')?.split_once('}')?.0;
    let field = |name: &str| -> Option<Vec<&str>> {
        let (_, rest) = inner.split_once(&format!("{name}:["))?;
        // What stands between quotes: every second piece.
        Some(rest.split_once(']')?.0.split('"').skip(1).step_by(2).collect())
    };
    let (groups, resources, verbs) = (field("APIGroups")?, field("Resources")?, field("Verbs")?);
    let mut checks = Vec::new();
    for group in groups {
        for resource in &resources {
            for verb in &verbs {
                checks.push(check::caller(scope, verb, (group, resource), &needed_for(group, resource, verb)));
            }
        }
    }
    Some(checks)
}

fn needed_for(group: &str, resource: &str, verb: &str) -> String {
    let grants = |rule: &&Rule| rule.group == group && rule.resources.contains(&resource) && rule.verbs.contains(&verb);
    let rule = rules::NAMESPACE.iter().chain(rules::cluster(true)).find(grants);
    rule.map_or_else(|| "grant it to the agent".to_owned(), check::needed_to_grant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r18_each_missing_rule_is_read_from_the_servers_message() {
        let message = "roles.rbac.authorization.k8s.io \"aicr-x\" is forbidden: user \"alice\" (groups=[\"dev\" \
                       \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
                       {APIGroups:[\"\"], Resources:[\"configmaps\"], Verbs:[\"create\" \"patch\"]}\n\
                       {APIGroups:[\"apps\"], Resources:[\"daemonsets\"], Verbs:[\"list\"]}; resolution errors: \
                       [role.rbac.authorization.k8s.io \"gone\" not found]";
        let found: Vec<String> = missing(message, &Scope::Cluster).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "create configmaps in the cluster",
                "patch configmaps in the cluster",
                "list daemonsets.apps in the cluster"
            ]
        );
    }

    #[test]
    fn another_refusal_is_not_taken_for_an_escalation() {
        let message = "roles.rbac.authorization.k8s.io is forbidden: User \"alice\" cannot create resource \"roles\"";
        assert_eq!(missing(message, &Scope::Cluster), None);
    }
}
