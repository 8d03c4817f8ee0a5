//! The gate (R15–R19): everything is checked before anything is written.
//!
//! ```text
//! reads, reviews and dry runs that depend on nothing ─────────────────┐
//! ServiceAccount, only if one was named ─┬─ exists: reviews of it ────┼─ verdict
//!                                        └─ absent: as without a name ┘
//! ```
//! Without a named account everything is one wave. With one, what is asked depends on whether it exists: asking for both
//! cases at once would make every caller with narrow rights try to create roles, which audits take for an attack.

mod ask;
pub(crate) mod check;
mod escalation;
mod pod_security;
mod remedy;
pub(crate) mod report;
mod verdict;

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::Api;
use tokio::time::Instant;
use tokio::try_join;

use crate::agent::cluster::Cluster;
use crate::agent::config::Config;
use crate::agent::event::Events;
use crate::agent::manifests::{Account, Identity, Manifest, Names, Plan};
use crate::agent::object::Kind;
use crate::agent::preflight::ask::{Answer, Answered, Asker, Seen};
use crate::agent::preflight::check::Scope;
use crate::agent::preflight::verdict::{Agent, Common, RoleFindings, Verdict};
use crate::agent::{names, namespace};
use crate::error::{ApiError, Error};

/// Key and value of a node's label.
pub(crate) type Label = (&'static str, &'static str);

/// What a run that passed the gate goes on with.
#[derive(Debug)]
pub(crate) struct Cleared {
    /// What the agent runs as.
    pub(crate) account: Account,
    /// What has to be done about the Namespace.
    pub(crate) namespace: namespace::State,
    /// The selector that the run chose where the choice was left to it and there are GPU nodes (R25).
    pub(crate) chosen_selector: Option<Label>,
}

/// Checks everything that can be checked, by reads, reviews and dry runs; those that fail are repeated until the
/// deadline.
///
/// # Errors
/// [`Error::Preflight`] with everything that has to change; [`Error::RunIdInUse`] if nothing else has to;
/// [`Error::Api`] if the cluster could not be asked.
pub(crate) async fn run(
    cluster: &Cluster,
    config: &Config,
    names: &Names,
    identity: &Identity,
    deadline: Instant,
    events: &Events,
) -> Result<Cleared, Error> {
    let asker = Asker { cluster, deadline };
    let gate = Gate { asker, config, names, identity };
    let (common, agent) = try_join!(Box::pin(gate.common()), Box::pin(gate.agent()))?;
    let Verdict { mut report, account, namespace, chosen_selector, in_use } =
        verdict::weigh(config, names, common, agent);
    let account = match account {
        Some(account) if report.is_clear() => account,
        _ => {
            // Only for what an administrator is to apply; without it, that has a blank to fill in.
            report.caller = asker.who_am_i().await.ok().and_then(remedy::subject);
            report.grant = remedy::grant(&report.missing, report.caller.as_ref(), &identity.run_id);
            return Err(Error::Preflight(Box::new(report)));
        }
    };
    if let Some(object) = in_use {
        return Err(Error::RunIdInUse { run_id: identity.run_id.clone(), object });
    }
    events.note(format!("{} permissions checked and found", report.passed.len()));
    for note in report.notes {
        events.note(note);
    }
    for warning in report.warnings {
        events.warn(warning);
    }
    Ok(Cleared { account, namespace, chosen_selector })
}

/// What is asked, as one wave as far as it does not depend on itself.
struct Gate<'a> {
    asker: Asker<'a>,
    config: &'a Config,
    names: &'a Names,
    identity: &'a Identity,
}

impl Gate<'_> {
    async fn common(&self) -> Result<Common, ApiError> {
        let (asker, config) = (&self.asker, self.config);
        let namespaces = Api::<Namespace>::all(asker.cluster.client());
        let secrets = Api::<Secret>::namespaced(asker.cluster.client(), &config.namespace);
        let runtime_classes = Api::<RuntimeClass>::all(asker.cluster.client());
        let elsewhere = check::output_elsewhere(config).map(|(namespace, _)| namespace);
        let pull_secret = async |name: &String| Ok((name.clone(), asker.look(&secrets, name).await?));
        // Only where the user left the choice of the node to the run (R25).
        let any_node = config.node_selector.is_none() && !config.require_gpu && config.runtime_class.is_none();
        let gpu_node = async { Ok(asker.gpu_node().await) };
        let (
            required,
            diagnosis,
            create_namespace,
            label_namespace,
            namespace,
            output_namespace,
            runtime_class,
            pull_secrets,
            gpu_node,
        ) = try_join!(
            asker.all(check::of_every_run(config)),
            asker.all(check::of_diagnosis(config)),
            asker.one(check::create_namespace(config)),
            asker.one(check::label_namespace(config)),
            asker.look(&namespaces, &config.namespace),
            maybe(elsewhere.map(|name| asker.look(&namespaces, name))),
            maybe(config.runtime_class.as_ref().map(|name| asker.look(&runtime_classes, name))),
            try_join_all(config.image_pull_secrets.iter().map(pull_secret)),
            maybe(any_node.then_some(gpu_node)),
        )?;
        Ok(Common {
            required,
            diagnosis,
            create_namespace,
            label_namespace,
            namespace,
            output_namespace,
            runtime_class,
            pull_secrets,
            gpu_node,
        })
    }

    async fn agent(&self) -> Result<Agent, ApiError> {
        let (asker, config) = (&self.asker, self.config);
        // What cannot name an account can still be a prefix of names (R3).
        let named = config.service_account_name.as_ref().filter(|name| names::check_dns_subdomain(name).is_ok());
        let Some(name) = named else { return self.own_account().await };
        let accounts = Api::<ServiceAccount>::namespaced(asker.cluster.client(), &config.namespace);
        let (seen, may_review) = try_join!(asker.look(&accounts, name), asker.one(check::review_account()))?;
        match seen {
            Seen::Forbidden => Ok(Agent::Unknown(check::find_account(config, name))),
            Seen::Absent => self.own_account().await,
            Seen::There(live) => Ok(Agent::Existing {
                name: name.clone(),
                annotations: live.annotations.unwrap_or_default(),
                rules: self.rules_of_account(name, &may_review).await?,
            }),
        }
    }

    /// What the existing account may do; asked only where asking is permitted, so that no denial is logged for nothing.
    async fn rules_of_account(&self, name: &str, may_review: &Answered) -> Result<Vec<Answered>, ApiError> {
        let checks = check::of_existing_account(self.config, name);
        match may_review {
            (review, Answer::Denied(_)) => {
                let unverified = Answer::Unverified(format!("you may not {review}"));
                Ok(checks.into_iter().map(|check| (check, unverified.clone())).collect())
            }
            _ => self.asker.all(checks).await,
        }
    }

    async fn own_account(&self) -> Result<Agent, ApiError> {
        let account = Account::Owned { name: self.names.account.clone() };
        let plan = Plan::new(self.config, self.identity, self.names, &account);
        let roles = plan.grants.iter().filter(|grant| matches!(grant.object.kind, Kind::Role | Kind::ClusterRole));
        let (required, lost_answers, roles) = try_join!(
            self.asker.all(check::of_own_account(self.config)),
            self.asker.all(check::of_lost_answers(self.config)),
            try_join_all(roles.map(|role| self.role(role))),
        )?;
        Ok(Agent::Own { required, lost_answers, roles })
    }

    /// Whether the caller may create and bind a role: a dry run tells, except where it cannot.
    async fn role(&self, role: &Manifest) -> Result<RoleFindings, ApiError> {
        let (kind, scope) = (role.object.kind, Scope::of(&role.object));
        let held = || self.asker.all(check::to_grant(self.config, &role.object));
        // In a namespace that does not exist yet no dry run reaches the role's rules.
        let may_be_absent = scope == Scope::Namespace(self.config.namespace.clone());
        let (dry_run, escalate, bind, rules) = try_join!(
            self.asker.dry_run(role),
            self.asker.one(check::escalate(kind, &scope)),
            self.asker.one(check::bind(kind, &scope)),
            maybe(may_be_absent.then(held)),
        )?;
        let mut findings =
            RoleFindings { object: role.object.clone(), scope, dry_run, escalate, bind, held: Vec::new() };
        findings.held = match rules {
            Some(rules) => rules,
            None if findings.needs_rules() => held().await?,
            None => Vec::new(),
        };
        Ok(findings)
    }
}

async fn maybe<T, E>(request: Option<impl Future<Output = Result<T, E>>>) -> Result<Option<T>, E> {
    match request {
        Some(request) => request.await.map(Some),
        None => Ok(None),
    }
}
