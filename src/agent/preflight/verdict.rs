//! From what the API server answered to what the run may do. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kube::core::Status;

use crate::agent::config::Config;
use crate::agent::labels::{AICR, MANAGED_BY};
use crate::agent::manifests::{Account, Names};
use crate::agent::namespace::State;
use crate::agent::object::{Kind, ObjectRef};
use crate::agent::preflight::ask::{Answer, Answered, GPU_NODE, Seen};
use crate::agent::preflight::check::{self, Check, Scope, Who};
use crate::agent::preflight::report::{PreparedAccount, Problem, Report, Unverified};
use crate::agent::preflight::{Label, escalation, pod_security};

/// Name that is proposed for an account that an administrator prepares.
const PROPOSED_ACCOUNT: &str = "aicr-agent";

/// Annotations by which clouds give an account credentials.
const CLOUD_IDENTITIES: [(&str, &str); 2] =
    [("eks.amazonaws.com/role-arn", "role-arn"), ("iam.gke.io/gcp-service-account", "gcp-service-account")];

/// What was asked whatever the agent runs as.
pub(super) struct Common {
    pub(super) required: Vec<Answered>,
    pub(super) diagnosis: Vec<Answered>,
    pub(super) create_namespace: Answered,
    pub(super) label_namespace: Answered,
    pub(super) namespace: Seen,
    pub(super) output_namespace: Option<Seen>,
    pub(super) runtime_class: Option<Seen>,
    pub(super) pull_secrets: Vec<(String, Seen)>,
    pub(super) gpu_node: Option<Result<bool, String>>,
}

/// What was asked about the account that the agent runs as.
pub(super) enum Agent {
    /// Whether the named account exists may not be known.
    Unknown(Check),
    /// The named account exists.
    Existing { name: String, annotations: BTreeMap<String, String>, rules: Vec<Answered> },
    /// The run makes an account.
    Own { required: Vec<Answered>, lost_answers: Vec<Answered>, roles: Vec<RoleFindings> },
}

/// What was asked about one role that the run would create.
pub(super) struct RoleFindings {
    pub(super) object: ObjectRef,
    pub(super) scope: Scope,
    pub(super) dry_run: Result<(), Box<Status>>,
    pub(super) escalate: Answered,
    pub(super) bind: Answered,
    /// Whether the caller holds its rules; empty where it was not asked.
    pub(super) held: Vec<Answered>,
}

impl RoleFindings {
    /// Whether only reviews of the role's rules can tell what is missing.
    pub(super) fn needs_rules(&self) -> bool {
        match &self.dry_run {
            // Perhaps it passed by `escalate`: then the binding needs `bind`, unless the caller holds the rules anyhow.
            Ok(()) => self.escalate.1 == Answer::Allowed && matches!(self.bind.1, Answer::Denied(_)),
            // The caller may not create roles at all: the rules were not looked at.
            Err(status) => status.code == 403 && escalation::missing(&status.message, &self.scope).is_none(),
        }
    }
}

/// What the gate decided.
pub(super) struct Verdict {
    pub(super) report: Report,
    /// `None` if it may not be known.
    pub(super) account: Option<Account>,
    pub(super) namespace: State,
    pub(super) chosen_selector: Option<Label>,
    /// An object that stands where the run would create one.
    pub(super) in_use: Option<ObjectRef>,
}

/// Weighs all answers.
pub(super) fn weigh(config: &Config, names: &Names, common: Common, agent: Agent) -> Verdict {
    let namespace = match &common.namespace {
        Seen::There(live) => State::of(live),
        Seen::Absent => State::Absent,
        Seen::Forbidden => State::Unreadable,
    };
    let mut weighing = Weighing { config, namespace, report: Report::default(), in_use: None };
    let chosen_selector = weighing.common(common);
    let account = weighing.agent(names, agent);
    weighing.say_unverified();
    let Weighing { namespace, report, in_use, .. } = weighing;
    Verdict { report, account, namespace, chosen_selector, in_use }
}

struct Weighing<'a> {
    config: &'a Config,
    namespace: State,
    report: Report,
    in_use: Option<ObjectRef>,
}

impl Weighing<'_> {
    fn common(&mut self, common: Common) -> Option<Label> {
        self.require(common.required);
        self.run_namespace(&common.namespace, common.create_namespace, common.label_namespace);
        if let (Some(seen), Some((namespace, _))) = (common.output_namespace, check::output_elsewhere(self.config)) {
            self.output_namespace(&seen, namespace);
        }
        self.diagnosis(common.diagnosis);
        if let (Some(Seen::Absent), Some(name)) = (&common.runtime_class, &self.config.runtime_class) {
            self.problem(Problem::RuntimeClassMissing { name: name.clone() });
        }
        for (name, seen) in common.pull_secrets {
            self.pull_secret(&name, &seen);
        }
        self.gpu_node(common.gpu_node)
    }

    /// Everything here is needed: what is denied is missing.
    fn require(&mut self, answers: impl IntoIterator<Item = Answered>) {
        let denied = self.sort(answers);
        self.lack(denied);
    }

    /// A permission that is needed for two things is one that is missing.
    fn lack(&mut self, denied: impl IntoIterator<Item = Check>) {
        for check in denied {
            match self.report.missing.iter_mut().find(|other| other.is_same_permission(&check)) {
                Some(other) => {
                    // Writing to a String cannot fail.
                    let _ = write!(other.needed_for, "; {}", check.needed_for);
                }
                None => self.report.missing.push(check),
            }
        }
    }

    /// As [`Self::require`], where a command of an administrator does as well as the permission.
    fn require_or(&mut self, answers: [Answered; 1], command: impl Fn() -> String) {
        let denied = self.sort(answers);
        for check in denied {
            self.report.notes.push(format!("instead of letting you {check}, an administrator can run: {}", command()));
            self.lack([check]);
        }
    }

    /// Keeps what passed and what is unverified, gives back what is denied.
    fn sort(&mut self, answers: impl IntoIterator<Item = Answered>) -> Vec<Check> {
        let mut denied = Vec::new();
        for (check, answer) in answers {
            match answer {
                Answer::Allowed => self.report.passed.push(check),
                Answer::Denied(remark) => {
                    if let Some(remark) = remark {
                        self.warn(format!("the API server could not evaluate every rule: {remark}"));
                    }
                    denied.push(check);
                }
                Answer::Unverified(cause) => {
                    let same = |unverified: &&mut Unverified| unverified.checks[0].who == check.who;
                    match self.report.unverified.iter_mut().find(same) {
                        Some(unverified) => unverified.checks.push(check),
                        None => self.report.unverified.push(Unverified { checks: vec![check], cause }),
                    }
                }
            }
        }
        denied
    }

    fn run_namespace(&mut self, seen: &Seen, create: Answered, label: Answered) {
        let namespace = self.config.namespace.clone();
        match self.namespace {
            State::Absent => self.require_or([create], || {
                format!(
                    "kubectl create namespace {namespace} && kubectl label namespace {namespace} {MANAGED_BY}={AICR}"
                )
            }),
            State::Unlabelled => {
                self.require_or([label], || format!("kubectl label namespace {namespace} {MANAGED_BY}={AICR}"));
            }
            State::Ready | State::ManagedBy(_) => {}
            State::Unreadable => self.warn(format!("namespace {namespace} may not be read: it is taken to exist")),
        }
        let Seen::There(live) = seen else { return };
        if live.deletion_timestamp.is_some() {
            self.problem(Problem::NamespaceTerminating { namespace: namespace.clone() });
        }
        let labels = live.labels.clone().unwrap_or_default();
        let found = pod_security::evaluate(&labels, self.config.privileged);
        if let Some(profile) = found.refused_by {
            self.problem(Problem::PodSecurity { namespace, profile });
        } else if let Some(profile) = found.warned_by {
            self.warn(format!(
                "namespace {namespace} warns of what the Pod Security profile \"{profile}\" refuses: a privileged \
                 agent is; --privileged=false is not"
            ));
        }
    }

    fn output_namespace(&mut self, seen: &Seen, namespace: &str) {
        match seen {
            Seen::There(live) if live.deletion_timestamp.is_some() => {
                self.problem(Problem::NamespaceTerminating { namespace: namespace.to_owned() });
            }
            Seen::Absent => self.problem(missing_output_namespace(namespace)),
            Seen::There(_) | Seen::Forbidden => {}
        }
    }

    fn diagnosis(&mut self, answers: Vec<Answered>) {
        let denied = self.sort(answers);
        if !denied.is_empty() {
            self.warn(format!(
                "you may not {}: if the agent's pod is refused or cannot start, the reason stays unseen",
                listed(&denied)
            ));
        }
    }

    fn pull_secret(&mut self, name: &str, seen: &Seen) {
        let namespace = &self.config.namespace;
        match seen {
            Seen::There(_) => {}
            Seen::Absent => self.warn(format!(
                "image pull secret {namespace}/{name} does not exist: the image can be pulled only if it needs none"
            )),
            Seen::Forbidden => self
                .report
                .notes
                .push(format!("you may not look whether the image pull secret {namespace}/{name} exists")),
        }
    }

    fn gpu_node(&mut self, found: Option<Result<bool, String>>) -> Option<Label> {
        match found? {
            Ok(false) => None,
            Ok(true) => {
                let (key, value) = GPU_NODE;
                self.report.notes.push(format!(
                    "there are GPU nodes: the agent runs on one of them (node selector {key}={value}; --node-selector \
                     chooses otherwise)"
                ));
                Some(GPU_NODE)
            }
            Err(error) => {
                self.warn(format!("{error}: the agent may run on a node without a GPU"));
                None
            }
        }
    }

    fn agent(&mut self, names: &Names, agent: Agent) -> Option<Account> {
        match agent {
            Agent::Unknown(check) => {
                self.lack([check]);
                self.report.notes.push(
                    "what else is needed depends on whether that ServiceAccount exists, and was not checked".to_owned(),
                );
                None
            }
            Agent::Existing { name, annotations, rules } => {
                self.existing_account(&name, &annotations, rules);
                Some(Account::Existing { name })
            }
            Agent::Own { required, lost_answers, roles } => {
                if let Some(name) = &self.config.service_account_name {
                    self.report.notes.push(format!(
                        "there is no ServiceAccount {}/{name}: the run makes {}, without a cloud identity",
                        self.config.namespace, names.account
                    ));
                }
                self.own_account(required, lost_answers, roles);
                Some(Account::Owned { name: names.account.clone() })
            }
        }
    }

    fn existing_account(&mut self, name: &str, annotations: &BTreeMap<String, String>, rules: Vec<Answered>) {
        let namespace = &self.config.namespace;
        let identities: String = CLOUD_IDENTITIES
            .iter()
            .filter_map(|(key, short)| annotations.get(*key).map(|value| format!(", {short} {value}")))
            .collect();
        self.report.notes.push(format!("runs as {namespace}/{name}{identities}"));
        let denied = self.sort(rules);
        if !denied.is_empty() {
            self.report.account = Some(self.prepared(name, true));
        }
        self.lack(denied);
    }

    fn own_account(&mut self, required: Vec<Answered>, lost_answers: Vec<Answered>, roles: Vec<RoleFindings>) {
        let before = self.report.missing.len();
        self.require(required);
        for role in roles {
            self.role(role);
        }
        if self.report.missing.len() > before {
            let name = self.config.service_account_name.clone().filter(|name| !name.is_empty());
            self.report.account = Some(self.prepared(name.as_deref().unwrap_or(PROPOSED_ACCOUNT), false));
        }
        let denied = self.sort(lost_answers);
        if !denied.is_empty() {
            self.warn(format!(
                "you may not {}: if the answer to a create is lost, what it made cannot be told and is left",
                listed(&denied)
            ));
        }
    }

    fn role(&mut self, role: RoleFindings) {
        let denied = self.sort(role.held.iter().cloned());
        let status = match role.dry_run {
            Ok(()) => {
                if role.needs_rules() && !denied.is_empty() {
                    self.lack([role.bind.0]);
                }
                return;
            }
            Err(ref status) => status,
        };
        let terminating = status
            .details
            .as_ref()
            .is_some_and(|details| details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating"));
        match (&role.scope, status.code) {
            _ if status.is_already_exists() => self.in_use = Some(role.object),
            (Scope::Namespace(namespace), _) if terminating => {
                self.problem(Problem::NamespaceTerminating { namespace: namespace.clone() });
            }
            (Scope::Namespace(namespace), 404) if *namespace != self.config.namespace => {
                self.problem(missing_output_namespace(namespace));
            }
            // The role cannot be tried where nothing is.
            (Scope::Namespace(_), 404) if self.namespace == State::Absent => self.lacks_rules(&role, denied),
            (Scope::Namespace(namespace), 404) => {
                self.problem(Problem::NamespaceMissing { namespace: namespace.clone(), needed_for: "the run" });
            }
            (_, 400 | 404 | 405 | 409 | 415) => self.warn(format!(
                "whether you may grant the agent its rights could not be tried without writing: {}",
                status.message
            )),
            (scope, 403) => match escalation::missing(&status.message, scope) {
                Some(missing) if !missing.is_empty() => self.lack(missing),
                _ if self.lacks_create(role.object.kind, scope) => self.lacks_rules(&role, denied),
                _ => self.refused(role.object, status),
            },
            _ => self.refused(role.object, status),
        }
    }

    fn lacks_rules(&mut self, role: &RoleFindings, denied: Vec<Check>) {
        if role.escalate.1 != Answer::Allowed {
            self.lack(denied);
        }
    }

    fn lacks_create(&self, kind: Kind, scope: &Scope) -> bool {
        let create = |check: &Check| {
            check.verb == "create"
                && check.group == kind.group()
                && check.resource == kind.plural()
                && check.scope == *scope
        };
        self.report.missing.iter().any(create)
    }

    fn refused(&mut self, object: ObjectRef, status: &Status) {
        let (message, forbidden) = (status.message.clone(), status.code == 403);
        self.problem(Problem::Refused { object, message, forbidden });
    }

    fn prepared(&self, name: &str, exists: bool) -> PreparedAccount {
        PreparedAccount {
            namespace: self.config.namespace.clone(),
            name: name.to_owned(),
            exists,
            discover_network: self.config.discover_network,
        }
    }

    fn say_unverified(&mut self) {
        for Unverified { checks, cause } in self.report.unverified.clone() {
            let count = checks.len();
            self.warn(match &checks[0].who {
                Who::Caller => format!(
                    "{count} of your permissions are unverified, not passed: {cause}. What is missing shows when it is used"
                ),
                account @ Who::Account { namespace, name } => format!(
                    "{count} permissions of {account} are unverified, not passed: {cause}. To look: kubectl auth can-i \
                     --list -n {namespace} --as system:serviceaccount:{namespace}:{name}"
                ),
            });
        }
    }

    fn problem(&mut self, problem: Problem) {
        if !self.report.problems.contains(&problem) {
            self.report.problems.push(problem);
        }
    }

    fn warn(&mut self, warning: String) {
        if !self.report.warnings.contains(&warning) {
            self.report.warnings.push(warning);
        }
    }
}

fn missing_output_namespace(namespace: &str) -> Problem {
    Problem::NamespaceMissing { namespace: namespace.to_owned(), needed_for: "the output" }
}

fn listed(checks: &[Check]) -> String {
    checks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
