//! The kinds that a run touches, and references to single objects.

use std::fmt;

use kube::core::{ApiResource, GroupVersionKind};
use serde::{Deserialize, Serialize};

/// Kinds of objects that a run creates, ensures or reads by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Kind {
    /// `v1/Namespace`: ensured, never run-owned.
    Namespace,
    /// `v1/ServiceAccount`.
    ServiceAccount,
    /// `rbac.authorization.k8s.io/v1/Role`.
    Role,
    /// `rbac.authorization.k8s.io/v1/RoleBinding`.
    RoleBinding,
    /// `rbac.authorization.k8s.io/v1/ClusterRole`.
    ClusterRole,
    /// `rbac.authorization.k8s.io/v1/ClusterRoleBinding`.
    ClusterRoleBinding,
    /// `v1/ConfigMap`.
    ConfigMap,
    /// `batch/v1/Job`.
    Job,
}

impl Kind {
    /// The kind's name in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Namespace => "Namespace",
            Self::ServiceAccount => "ServiceAccount",
            Self::Role => "Role",
            Self::RoleBinding => "RoleBinding",
            Self::ClusterRole => "ClusterRole",
            Self::ClusterRoleBinding => "ClusterRoleBinding",
            Self::ConfigMap => "ConfigMap",
            Self::Job => "Job",
        }
    }

    /// The kind's API group; empty is the core group.
    #[must_use]
    pub fn group(self) -> &'static str {
        match self {
            Self::Namespace | Self::ServiceAccount | Self::ConfigMap => "",
            Self::Role | Self::RoleBinding | Self::ClusterRole | Self::ClusterRoleBinding => {
                "rbac.authorization.k8s.io"
            }
            Self::Job => "batch",
        }
    }

    /// The resource's plural, as it stands in URLs and RBAC rules.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::Namespace => "namespaces",
            Self::ServiceAccount => "serviceaccounts",
            Self::Role => "roles",
            Self::RoleBinding => "rolebindings",
            Self::ClusterRole => "clusterroles",
            Self::ClusterRoleBinding => "clusterrolebindings",
            Self::ConfigMap => "configmaps",
            Self::Job => "jobs",
        }
    }

    /// Whether an object of this kind grants rights to a `ServiceAccount`.
    pub(crate) fn is_binding(self) -> bool {
        matches!(self, Self::RoleBinding | Self::ClusterRoleBinding)
    }

    pub(crate) fn api_resource(self) -> ApiResource {
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(self.group(), "v1", self.as_str()), self.plural())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Names one object of a cluster. Says nothing about whether it exists or whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectRef {
    /// What it is.
    pub kind: Kind,
    /// Where it is; `None` for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl ObjectRef {
    pub(crate) fn namespaced(kind: Kind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: Some(namespace.to_owned()), name: name.to_owned() }
    }

    pub(crate) fn cluster(kind: Kind, name: &str) -> Self {
        Self { kind, namespace: None, name: name.to_owned() }
    }
}

/// `Job gpu/aicr-1`, `ClusterRole aicr-node-reader-1`.
impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}
