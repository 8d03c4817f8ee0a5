//! What the agent may do (R9): one table for a run's RBAC, for `roles` and for the pre-flight.

use std::fmt;

use k8s_openapi::api::rbac::v1::PolicyRule;

/// One rule of the agent and why it needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// API group; empty is the core group.
    pub(crate) group: &'static str,
    /// Resources, a subresource after a slash.
    pub(crate) resources: &'static [&'static str],
    /// Verbs, in the API's spelling.
    pub(crate) verbs: &'static [&'static str],
    /// What the agent does with it, as a sentence without a full stop.
    pub(crate) why: &'static str,
}

impl Rule {
    /// The rule as RBAC objects hold it.
    pub(crate) fn policy(&self) -> PolicyRule {
        let owned = |list: &[&str]| list.iter().map(|&entry| entry.to_owned()).collect::<Vec<_>>();
        PolicyRule {
            api_groups: Some(vec![self.group.to_owned()]),
            resources: Some(owned(self.resources)),
            verbs: owned(self.verbs),
            ..PolicyRule::default()
        }
    }
}

/// `get, list nodes: reads the topology, …`
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verbs.join(", "), self.resources.join(", "))?;
        if !self.group.is_empty() {
            write!(f, " ({})", self.group)?;
        }
        write!(f, ": {}", self.why)
    }
}

/// Writing the document: all that the agent needs in the namespace of a `ConfigMap` output.
pub(crate) const CONFIG_MAPS: Rule = Rule {
    group: "",
    resources: &["configmaps"],
    verbs: &["create", "get", "update", "patch"],
    why: "writes the snapshot document to a ConfigMap by server-side apply",
};

/// Rules in the run's namespace.
pub(crate) const NAMESPACE: &[Rule] = &[
    CONFIG_MAPS,
    Rule { group: "", resources: &["pods"], verbs: &["get", "list"], why: "finds its own pod and the pods beside it" },
];

/// Read-only rules in the whole cluster.
const CLUSTER: &[Rule] = &[
    Rule {
        group: "",
        resources: &["nodes"],
        verbs: &["get", "list"],
        why: "reads the topology, labels and capacity of the nodes",
    },
    Rule {
        group: "",
        resources: &["pods"],
        verbs: &["get", "list"],
        why: "reads which GPU components run and in which version",
    },
    Rule {
        group: "nvidia.com",
        resources: &["clusterpolicies"],
        verbs: &["get", "list"],
        why: "reads the GPU operator's configuration",
    },
    Rule {
        group: "slinky.slurm.net",
        resources: &["controllers", "nodesets", "loginsets", "restapis", "accountings"],
        verbs: &["list"],
        why: "reads the Slurm operator's configuration",
    },
    Rule {
        group: "k8s.mariadb.com",
        resources: &["mariadbs"],
        verbs: &["list"],
        why: "reads the databases that Slurm accounting uses",
    },
    Rule {
        group: "storage.k8s.io",
        resources: &["storageclasses"],
        verbs: &["list"],
        why: "reads the storage classes",
    },
    Rule {
        group: "psmdb.percona.com",
        resources: &["perconaservermongodbs"],
        verbs: &["list"],
        why: "reads the MongoDB clusters of GPU platforms",
    },
    Rule {
        group: "apps",
        resources: &["daemonsets"],
        verbs: &["get", "list"],
        why: "reads the drivers and device plugins that are deployed",
    },
];

/// Rules in the whole cluster that network discovery adds. They change the cluster.
pub(crate) const DISCOVER_NETWORK: &[Rule] = &[
    Rule {
        group: "apiextensions.k8s.io",
        resources: &["customresourcedefinitions"],
        verbs: &["get", "list", "create", "update", "patch"],
        why: "installs the definitions of the network discovery's resources",
    },
    Rule {
        group: "",
        resources: &["namespaces"],
        verbs: &["get", "create", "delete"],
        why: "makes and removes the namespace of the network discovery",
    },
    Rule {
        group: "apps",
        resources: &["daemonsets"],
        verbs: &["get", "list", "watch", "create", "delete"],
        why: "runs the discovery on every node and removes it",
    },
    Rule {
        group: "",
        resources: &["serviceaccounts", "configmaps"],
        verbs: &["get", "create", "delete"],
        why: "makes and removes the discovery's account and configuration",
    },
    Rule {
        group: "rbac.authorization.k8s.io",
        resources: &["roles", "rolebindings"],
        verbs: &["get", "create", "delete"],
        why: "grants the discovery its rights and takes them back",
    },
    Rule {
        group: "",
        resources: &["pods/exec"],
        verbs: &["create"],
        why: "runs the network tools inside the discovery's pods",
    },
    Rule { group: "", resources: &["nodes"], verbs: &["patch"], why: "labels nodes with what the discovery found" },
    Rule {
        group: "configuration.net.nvidia.com",
        resources: &["nicdevices"],
        verbs: &["get", "list"],
        why: "reads the network adapters that the discovery found",
    },
    Rule {
        group: "mellanox.com",
        resources: &["nicclusterpolicies"],
        verbs: &["get", "patch"],
        why: "switches the network operator's discovery on and off",
    },
];

/// Rules in the whole cluster.
pub(crate) fn cluster(discover_network: bool) -> impl Iterator<Item = &'static Rule> {
    let network = if discover_network { DISCOVER_NETWORK } else { &[] };
    CLUSTER.iter().chain(network)
}
