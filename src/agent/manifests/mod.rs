//! The objects of a run as they go to the API server. Pure.

mod job;
mod rbac;
mod resources;
pub(crate) mod text;

use serde::Serialize;

use crate::agent::config::{Config, Output};
use crate::agent::names;
use crate::agent::object::{Kind, ObjectRef};
use crate::agent::run_id::{InvocationId, RunId};
use crate::error::Invalid;

pub(crate) use job::{CONTAINER, tolerate_everything};
pub(crate) use rbac::{cluster_role, cluster_role_binding, role, role_binding, subject};

/// Who a run is.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) run_id: RunId,
    pub(crate) invocation_id: InvocationId,
}

/// The `ServiceAccount` that the agent's pod runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    /// Made and removed by the run, with its RBAC.
    Owned { name: String },
    /// Stands in the namespace already. The run neither makes nor removes accounts or RBAC.
    Existing { name: String },
}

impl Account {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Owned { name } | Self::Existing { name } => name,
        }
    }
}

/// An object and its body.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    pub(crate) object: ObjectRef,
    pub(crate) body: serde_json::Value,
}

impl Manifest {
    fn new(object: ObjectRef, body: &impl Serialize) -> Self {
        // Maps with string keys and finite numbers: there is nothing in these types that JSON cannot say.
        Self { object, body: serde_json::to_value(body).unwrap_or_default() }
    }
}

/// Names of a run's objects, all valid.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) job: String,
    /// `ServiceAccount`, `Role` and `RoleBinding`.
    pub(crate) account: String,
    /// `ClusterRole` and `ClusterRoleBinding`.
    pub(crate) node_reader: String,
    /// `ConfigMap` that the agent writes, unless the user named one.
    pub(crate) staging: String,
}

impl Names {
    pub(crate) fn new(config: &Config, run_id: &RunId) -> Result<Self, Invalid> {
        let prefixed = |flag, prefix: &Option<String>| match prefix {
            Some(prefix) => names::checked(flag, prefix, run_id),
            None => names::checked("name base", &config.name_base, run_id),
        };
        Ok(Self {
            job: prefixed("--job-name", &config.job_name)?,
            account: prefixed("--service-account-name", &config.service_account_name)?,
            node_reader: names::run_scoped(names::NODE_READER, run_id),
            staging: names::staging_config_map_name(run_id),
        })
    }
}

/// What a run creates, in waves: what stands in one wave has no order among itself (R10).
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// `ServiceAccount`, `Role`, `ClusterRole`.
    pub(crate) grants: Vec<Manifest>,
    /// The bindings, after the roles that they name.
    pub(crate) bindings: Vec<Manifest>,
    /// The Job, last.
    pub(crate) job: Manifest,
}

impl Plan {
    pub(crate) fn new(config: &Config, identity: &Identity, names: &Names, account: &Account) -> Self {
        let target = document(config, names);
        let job = Manifest::new(
            ObjectRef::namespaced(Kind::Job, &config.namespace, &names.job),
            &job::job(config, identity, &names.job, account.name(), &target),
        );
        let (grants, bindings) = match account {
            Account::Owned { .. } => rbac::of_run(config, identity, names),
            Account::Existing { .. } => (Vec::new(), Vec::new()),
        };
        Self { grants, bindings, job }
    }

    /// Every object in the order in which it is created.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Manifest> {
        self.grants.iter().chain(&self.bindings).chain([&self.job])
    }
}

/// The `ConfigMap` that the agent writes.
pub(crate) fn document(config: &Config, names: &Names) -> ObjectRef {
    match &config.output {
        Output::Staging => ObjectRef::namespaced(Kind::ConfigMap, &config.namespace, &names.staging),
        Output::ConfigMap { namespace, name } => ObjectRef::namespaced(Kind::ConfigMap, namespace, name),
    }
}

#[cfg(test)]
mod tests;
