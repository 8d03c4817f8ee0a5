//! What the gate found, as a value.

use std::fmt;

use k8s_openapi::api::rbac::v1::Subject;

use crate::agent::object::ObjectRef;
use crate::agent::preflight::check::Check;
use crate::error::exit;

/// What was checked before anything was written, and what came of it.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Permissions that are there.
    pub passed: Vec<Check>,
    /// Permissions that are not there and without which nothing is written.
    pub missing: Vec<Check>,
    /// Permissions of which nobody could say whether they are there. Never taken for passed.
    pub unverified: Vec<Unverified>,
    /// What stands in the way beside permissions.
    pub problems: Vec<Problem>,
    /// What may need action although the run can go on.
    pub warnings: Vec<String>,
    /// Worth knowing, and needs no action.
    pub notes: Vec<String>,
    /// Who the API server says the caller is. Asked for when permissions are missing.
    pub caller: Option<Subject>,
    /// What an administrator can apply to give what is missing, as far as `account` does not say how.
    pub grant: Vec<serde_json::Value>,
    /// The account that an administrator can prepare once so that runs need fewer rights.
    pub account: Option<PreparedAccount>,
}

/// An account that an administrator prepares with `kubectl aicr roles`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedAccount {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whether it stands there already.
    pub exists: bool,
    /// Whether the run discovers the network.
    pub discover_network: bool,
}

impl PreparedAccount {
    /// The commands that prepare it, for an administrator.
    #[must_use]
    pub fn commands(&self) -> Vec<String> {
        let Self { namespace, name, exists, discover_network } = self;
        let network = if *discover_network { " --discover-network" } else { "" };
        let create = (!exists).then(|| format!("kubectl create serviceaccount {name} -n {namespace}"));
        let rest = [
            format!("kubectl aicr roles --service-account {name} -n {namespace}{network} --output-dir {name}-rbac"),
            format!("kubectl apply -f {name}-rbac/"),
        ];
        create.into_iter().chain(rest).collect()
    }
}

/// Permissions that could not be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unverified {
    /// The permissions.
    pub checks: Vec<Check>,
    /// Why they could not be checked.
    pub cause: String,
}

/// What stands in the way of a run beside permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The Namespace is being deleted: nothing can be created in it.
    NamespaceTerminating {
        /// Its name.
        namespace: String,
    },
    /// The Namespace does not exist, and the run does not make it.
    NamespaceMissing {
        /// Its name.
        namespace: String,
        /// What it was named for.
        needed_for: &'static str,
    },
    /// Pod Security would refuse the agent's pod.
    PodSecurity {
        /// The Namespace.
        namespace: String,
        /// The profile that it enforces.
        profile: String,
    },
    /// The `RuntimeClass` does not exist.
    RuntimeClassMissing {
        /// Its name.
        name: String,
    },
    /// The server refuses an object, although its creation is permitted.
    Refused {
        /// The object.
        object: ObjectRef,
        /// The server's words.
        message: String,
        /// Whether the server calls it forbidden.
        forbidden: bool,
    },
}

impl Problem {
    /// What to do about it.
    #[must_use]
    pub fn next_step(&self) -> String {
        match self {
            Self::NamespaceTerminating { namespace } => {
                format!("wait until it is gone (kubectl get namespace {namespace}), or choose another with -n")
            }
            Self::NamespaceMissing { namespace, .. } => format!("kubectl create namespace {namespace}"),
            Self::PodSecurity { namespace, .. } => format!(
                "pass --privileged=false for a snapshot without what only a privileged agent sees, or let an \
                 administrator allow privileged pods: kubectl label --overwrite namespace {namespace} \
                 pod-security.kubernetes.io/enforce=privileged"
            ),
            Self::RuntimeClassMissing { .. } => {
                "kubectl get runtimeclasses shows what there is; pass one of them, or none".to_owned()
            }
            Self::Refused { .. } => "the policy that says so is the cluster's: ask its administrator".to_owned(),
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::NamespaceMissing { .. } | Self::RuntimeClassMissing { .. } => exit::NOT_FOUND,
            Self::Refused { forbidden: true, .. } => exit::NOT_PERMITTED,
            Self::NamespaceTerminating { .. } | Self::PodSecurity { .. } | Self::Refused { forbidden: false, .. } => {
                exit::OTHER
            }
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NamespaceTerminating { namespace } => {
                write!(f, "namespace {namespace} is being deleted: nothing can be created in it")
            }
            Self::NamespaceMissing { namespace, needed_for } => {
                write!(f, "namespace {namespace} does not exist; it is needed for {needed_for}")
            }
            Self::PodSecurity { namespace, profile } => write!(
                f,
                "namespace {namespace} enforces the Pod Security profile \"{profile}\", which refuses a privileged agent"
            ),
            Self::RuntimeClassMissing { name } => write!(f, "RuntimeClass {name} does not exist"),
            Self::Refused { object, message, .. } => write!(f, "{object} would be refused: {message}"),
        }
    }
}

impl Report {
    /// Whether the run may write.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        self.missing.is_empty() && self.problems.is_empty()
    }

    /// What the gate says in a few words.
    #[must_use]
    pub fn headline(&self) -> String {
        let missing = match self.missing.len() {
            0 => None,
            1 => Some("1 permission is missing".to_owned()),
            count => Some(format!("{count} permissions are missing")),
        };
        let problems = match self.problems.len() {
            0 => None,
            1 => Some("1 thing stands in the way".to_owned()),
            count => Some(format!("{count} things stand in the way")),
        };
        let found: Vec<String> = missing.into_iter().chain(problems).collect();
        format!("the run was not started and nothing was written: {}", found.join(", and "))
    }

    /// The command line's exit code for it (R42).
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.problems.first() {
            _ if !self.missing.is_empty() => exit::NOT_PERMITTED,
            Some(problem) => problem.exit_code(),
            None => exit::OK,
        }
    }
}

/// Everything that has to change, in one line. The command line shows a table instead.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.headline())?;
        for check in &self.missing {
            write!(f, "; {} may not {check} ({})", check.who, check.needed_for)?;
        }
        for problem in &self.problems {
            write!(f, "; {problem}")?;
        }
        Ok(())
    }
}
