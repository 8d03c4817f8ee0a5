//! Setting what differs from the default, one call each.

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{Config, Keep, LedgerPlace, Output};
use crate::agent::run_id::RunId;

impl Config {
    /// A run in this namespace, a DNS-1123 label; everything else as the command line has it by default.
    #[must_use]
    pub fn new(namespace: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), ..Self::default() }
    }

    /// The run ID. It is generated if none is set.
    #[must_use]
    pub fn run_id(mut self, run_id: RunId) -> Self {
        self.run_id = Some(run_id);
        self
    }

    /// Prefix of the names of objects whose own prefix is not set. Default: `aicr`.
    #[must_use]
    pub fn name_base(mut self, prefix: impl Into<String>) -> Self {
        self.name_base = prefix.into();
        self
    }

    /// Prefix of the Job's name.
    #[must_use]
    pub fn job_name(mut self, prefix: impl Into<String>) -> Self {
        self.job_name = Some(prefix.into());
        self
    }

    /// A `ServiceAccount` that stands in the namespace under exactly this name is used, and no account and no RBAC
    /// created; otherwise this is the prefix of the names of `ServiceAccount`, `Role` and `RoleBinding`.
    #[must_use]
    pub fn service_account_name(mut self, name: impl Into<String>) -> Self {
        self.service_account_name = Some(name.into());
        self
    }

    /// The agent's image. Default: [`DEFAULT_IMAGE`](super::DEFAULT_IMAGE).
    #[must_use]
    pub fn image(mut self, image: impl Into<String>) -> Self {
        self.image = image.into();
        self
    }

    /// Names of pull secrets in the run's namespace.
    #[must_use]
    pub fn image_pull_secrets(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.image_pull_secrets = names.into_iter().map(Into::into).collect();
        self
    }

    /// Labels of the nodes that may run the agent. If none are set, the run takes a GPU node where there is one.
    #[must_use]
    pub fn node_selector(mut self, labels: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>) -> Self {
        self.node_selector = Some(labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect());
        self
    }

    /// Taints that the agent's pod tolerates. If none are set, it tolerates all.
    #[must_use]
    pub fn tolerations(mut self, tolerations: impl IntoIterator<Item = Toleration>) -> Self {
        self.tolerations = Some(tolerations.into_iter().collect());
        self
    }

    /// Whether the agent runs privileged, in the node's namespaces. Default: it does.
    #[must_use]
    pub fn privileged(mut self, privileged: bool) -> Self {
        self.privileged = privileged;
        self
    }

    /// Asks for one GPU. Excludes [`Config::runtime_class`].
    #[must_use]
    pub fn require_gpu(mut self, require: bool) -> Self {
        self.require_gpu = require;
        self
    }

    /// `RuntimeClass` of the agent's pod. Excludes [`Config::require_gpu`].
    #[must_use]
    pub fn runtime_class(mut self, name: impl Into<String>) -> Self {
        self.runtime_class = Some(name.into());
        self
    }

    /// The nodes' operating system as the agent names it; `talos` has no systemd to read.
    #[must_use]
    pub fn os(mut self, os: impl Into<String>) -> Self {
        self.os = Some(os.into());
        self
    }

    /// Resource requests that replace the mode's, key by key.
    #[must_use]
    pub fn requests(mut self, requests: impl IntoIterator<Item = (impl Into<String>, Quantity)>) -> Self {
        self.requests = requests.into_iter().map(|(resource, amount)| (resource.into(), amount)).collect();
        self
    }

    /// Resource limits that replace the mode's, key by key.
    #[must_use]
    pub fn limits(mut self, limits: impl IntoIterator<Item = (impl Into<String>, Quantity)>) -> Self {
        self.limits = limits.into_iter().map(|(resource, amount)| (resource.into(), amount)).collect();
        self
    }

    /// Largest number of nodes that the agent names in one topology entry. At least 1.
    #[must_use]
    pub fn max_nodes_per_entry(mut self, nodes: u32) -> Self {
        self.max_nodes_per_entry = Some(nodes);
        self
    }

    /// Lets the agent discover the network. This grants it rights that change the cluster.
    #[must_use]
    pub fn discover_network(mut self, discover: bool) -> Self {
        self.discover_network = discover;
        self
    }

    /// Makes the agent log in detail, as JSON.
    #[must_use]
    pub fn debug(mut self, debug: bool) -> Self {
        self.debug = debug;
        self
    }

    /// Where the agent leaves the document. Default: [`Output::Staging`].
    #[must_use]
    pub fn output(mut self, output: Output) -> Self {
        self.output = output;
        self
    }

    /// What cleanup leaves on the cluster. Default: [`Keep::Nothing`].
    #[must_use]
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// Deadline of everything after the pre-flight. Default: 5 minutes.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Deadline of cleanup, counted from its start. Default: 30 seconds.
    #[must_use]
    pub fn cleanup_timeout(mut self, timeout: Duration) -> Self {
        self.cleanup_timeout = timeout;
        self
    }

    /// Bound of every single call to the API server; watches and logs are none. Default: 30 seconds.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// Keeps what the run creates on disk as well, so that `kubectl aicr cleanup` can finish for a process that was
    /// killed. `directory` holds all ledgers of a user and is made if it is missing; `server` is the address of the API
    /// server, which tells clusters apart where the `kube-system` Namespace may not be read.
    #[must_use]
    pub fn ledger(mut self, directory: impl Into<PathBuf>, server: http::Uri) -> Self {
        self.ledger = Some(LedgerPlace { directory: directory.into(), server });
        self
    }
}
