//! What a run must be allowed to do (R16–R18), as a list. Pure.

use std::fmt;

use crate::agent::config::{Config, Output};
use crate::agent::object::{Kind, ObjectRef};
use crate::agent::rules::{self, Rule};

/// Who needs a permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// Whoever runs the plugin.
    Caller,
    /// The existing `ServiceAccount` that the agent runs as.
    Account {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caller => f.write_str("you"),
            Self::Account { namespace, name } => write!(f, "ServiceAccount {namespace}/{name}"),
        }
    }
}

/// Where a permission is needed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// In one namespace.
    Namespace(String),
    /// In the whole cluster.
    Cluster,
}

impl Scope {
    pub(super) fn of(object: &ObjectRef) -> Self {
        object.namespace.clone().map_or(Self::Cluster, Self::Namespace)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(namespace) => write!(f, "namespace {namespace}"),
            Self::Cluster => f.write_str("cluster"),
        }
    }
}

/// One permission and what it is needed for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Who needs it.
    pub who: Who,
    /// The verb.
    pub verb: String,
    /// The API group; empty is the core group.
    pub group: String,
    /// The resource, a subresource after a slash.
    pub resource: String,
    /// Where.
    pub scope: Scope,
    /// The one object that it is needed for, where its name is not a run's.
    pub name: Option<String>,
    /// What it is needed for.
    pub needed_for: String,
}

impl Check {
    /// The resource as kubectl names it: `jobs.batch`, `pods/log`.
    #[must_use]
    pub fn qualified_resource(&self) -> String {
        match self.resource.split_once('/') {
            _ if self.group.is_empty() => self.resource.clone(),
            Some((resource, sub)) => format!("{resource}.{}/{sub}", self.group),
            None => format!("{}.{}", self.resource, self.group),
        }
    }

    /// Whether the other is the same permission, whatever it is needed for.
    pub(super) fn is_same_permission(&self, other: &Self) -> bool {
        let permission = |check: &Self| Self { needed_for: String::new(), ..check.clone() };
        permission(self) == permission(other)
    }

    fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }
}

/// `create jobs.batch in namespace gpu`
impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.qualified_resource())?;
        if let Some(name) = &self.name {
            write!(f, " \"{name}\"")?;
        }
        match &self.scope {
            Scope::Namespace(namespace) => write!(f, " in namespace {namespace}"),
            Scope::Cluster => f.write_str(" in the cluster"),
        }
    }
}

pub(super) fn caller(scope: &Scope, verb: &str, (group, resource): (&str, &str), needed_for: &str) -> Check {
    Check {
        who: Who::Caller,
        verb: verb.to_owned(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        scope: scope.clone(),
        name: None,
        needed_for: needed_for.to_owned(),
    }
}

fn on(kind: Kind) -> (&'static str, &'static str) {
    (kind.group(), kind.plural())
}

const PODS: (&str, &str) = ("", "pods");

fn run_scope(config: &Config) -> Scope {
    Scope::Namespace(config.namespace.clone())
}

/// The namespace of an output that is not the run's own.
pub(crate) fn output_elsewhere(config: &Config) -> Option<(&str, &str)> {
    match &config.output {
        Output::ConfigMap { namespace, name } if *namespace != config.namespace => Some((namespace, name)),
        Output::ConfigMap { .. } | Output::Staging => None,
    }
}

/// What the caller needs whatever the agent runs as.
pub(super) fn of_every_run(config: &Config) -> Vec<Check> {
    const WATCH_JOB: &str = "see the agent's Job end";
    const WATCH_PODS: &str = "see what keeps the agent from running";
    const DOCUMENT: &str = "read the snapshot";
    let scope = &run_scope(config);
    let mut checks = vec![
        caller(scope, "create", on(Kind::Job), "start the agent"),
        caller(scope, "get", on(Kind::Job), WATCH_JOB),
        caller(scope, "list", on(Kind::Job), WATCH_JOB),
        caller(scope, "watch", on(Kind::Job), WATCH_JOB),
        caller(scope, "delete", on(Kind::Job), "remove the agent's Job"),
        caller(scope, "get", PODS, WATCH_PODS),
        caller(scope, "list", PODS, WATCH_PODS),
        caller(scope, "watch", PODS, WATCH_PODS),
        caller(scope, "get", ("", "pods/log"), "show the agent's log"),
        caller(scope, "get", on(Kind::ConfigMap), DOCUMENT),
        caller(scope, "list", on(Kind::ConfigMap), DOCUMENT),
    ];
    if config.output == Output::Staging {
        checks.push(caller(scope, "delete", on(Kind::ConfigMap), "remove the snapshot's staging ConfigMap"));
    }
    if let Some((namespace, name)) = output_elsewhere(config) {
        let there = Scope::Namespace(namespace.to_owned());
        checks.push(caller(&there, "get", on(Kind::ConfigMap), "read the snapshot").named(name));
    }
    checks
}

/// What only the diagnosis of a run needs.
pub(super) fn of_diagnosis(config: &Config) -> Vec<Check> {
    ["list", "watch"]
        .map(|verb| caller(&run_scope(config), verb, ("", "events"), "say why the agent's pod does not start"))
        .into()
}

/// What the caller needs where the Namespace does not exist.
pub(super) fn create_namespace(config: &Config) -> Check {
    caller(&Scope::Cluster, "create", on(Kind::Namespace), "make the run's namespace, which does not exist")
        .named(&config.namespace)
}

/// What the caller needs where the Namespace has no label. A right in the Namespace is enough: there the server looks.
pub(super) fn label_namespace(config: &Config) -> Check {
    caller(&run_scope(config), "patch", on(Kind::Namespace), "label the run's namespace, which has no managed-by label")
        .named(&config.namespace)
}

/// What the caller needs to find the account that was named.
pub(super) fn find_account(config: &Config, account: &str) -> Check {
    caller(&run_scope(config), "get", on(Kind::ServiceAccount), "find out whether --service-account-name exists")
        .named(account)
}

/// What the caller needs to have the agent's rights reviewed.
pub(super) fn review_account() -> Check {
    let reviews = ("authorization.k8s.io", "subjectaccessreviews");
    caller(&Scope::Cluster, "create", reviews, "check what the agent's ServiceAccount may do")
}

/// Kinds that grant the agent its rights, where a run makes an account of its own, and where they stand.
fn grants(config: &Config) -> Vec<(Kind, Scope)> {
    let scope = run_scope(config);
    let mut grants = vec![
        (Kind::ServiceAccount, scope.clone()),
        (Kind::Role, scope.clone()),
        (Kind::RoleBinding, scope),
        (Kind::ClusterRole, Scope::Cluster),
        (Kind::ClusterRoleBinding, Scope::Cluster),
    ];
    if let Some((namespace, _)) = output_elsewhere(config) {
        let there = Scope::Namespace(namespace.to_owned());
        grants.extend([(Kind::Role, there.clone()), (Kind::RoleBinding, there)]);
    }
    grants
}

/// What the caller needs beside [`of_every_run`] for an account of the run's own. Whoever could create but not delete
/// would leave something behind with every run.
pub(super) fn of_own_account(config: &Config) -> Vec<Check> {
    let check = |verb: &'static str, reason: &'static str| {
        move |(kind, scope): &(Kind, Scope)| caller(scope, verb, on(*kind), reason)
    };
    let grants = grants(config);
    let create = grants.iter().map(check("create", "give the agent an account with its rights"));
    let delete = grants.iter().map(check("delete", "take the agent's account and its rights away"));
    create.chain(delete).collect()
}

/// What the caller needs to find out what became of a create whose answer was lost.
pub(super) fn of_lost_answers(config: &Config) -> Vec<Check> {
    let check = |(kind, scope): &(Kind, Scope)| {
        caller(scope, "get", on(*kind), "find out what became of a create whose answer was lost")
    };
    grants(config).iter().map(check).collect()
}

/// What lets the caller create a role whose rules it does not hold.
pub(super) fn escalate(kind: Kind, scope: &Scope) -> Check {
    caller(scope, "escalate", on(kind), "give the agent rights that you do not hold")
}

/// What lets the caller bind a role whose rules it does not hold.
pub(super) fn bind(kind: Kind, scope: &Scope) -> Check {
    caller(scope, "bind", on(kind), "give the agent rights that you do not hold")
}

/// What the caller must hold to grant a role of the run without `escalate` and `bind`.
pub(super) fn to_grant(config: &Config, role: &ObjectRef) -> Vec<Check> {
    let rules: Vec<&Rule> = match (role.kind, output_elsewhere(config)) {
        (Kind::ClusterRole, _) => rules::cluster(config.discover_network).collect(),
        (_, Some((elsewhere, _))) if role.namespace.as_deref() == Some(elsewhere) => vec![&rules::CONFIG_MAPS],
        _ => rules::NAMESPACE.iter().collect(),
    };
    each(rules.into_iter().map(|rule| (rule, Scope::of(role))), &Who::Caller, needed_to_grant)
}

/// What a permission is needed for that the caller must hold to grant it.
pub(super) fn needed_to_grant(rule: &Rule) -> String {
    format!("grant it to the agent, which {}", rule.why)
}

/// Every single permission of the rules, once.
fn each<'a>(
    rules: impl Iterator<Item = (&'a Rule, Scope)>,
    who: &Who,
    needed_for: impl Fn(&Rule) -> String,
) -> Vec<Check> {
    let mut checks: Vec<Check> = Vec::new();
    for (rule, scope) in rules {
        for resource in rule.resources {
            for verb in rule.verbs {
                let check =
                    Check { who: who.clone(), ..caller(&scope, verb, (rule.group, resource), &needed_for(rule)) };
                // Two rules may hold the same permission, as with daemonsets and network discovery.
                if !checks.iter().any(|other| other.is_same_permission(&check)) {
                    checks.push(check);
                }
            }
        }
    }
    checks
}

/// What an existing account needs for the agent to run as it (R17).
pub(super) fn of_existing_account(config: &Config, account: &str) -> Vec<Check> {
    let who = Who::Account { namespace: config.namespace.clone(), name: account.to_owned() };
    let in_namespace = rules::NAMESPACE.iter().map(|rule| (rule, run_scope(config)));
    let in_cluster = rules::cluster(config.discover_network).map(|rule| (rule, Scope::Cluster));
    let elsewhere =
        output_elsewhere(config).map(|(namespace, _)| (&rules::CONFIG_MAPS, Scope::Namespace(namespace.to_owned())));
    each(in_namespace.chain(in_cluster).chain(elsewhere), &who, |rule| format!("the agent {}", rule.why))
}
