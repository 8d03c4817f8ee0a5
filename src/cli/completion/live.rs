//! Names that only kubeconfig, ledger or cluster know. Whatever goes wrong or takes too long: there are none.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node, ServiceAccount};
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::api::{ListParams, PartialObjectMeta};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::Candidate;
use crate::cli::state_dir;
use crate::kubeconfig::{self, Connection, ConnectionFlags, Environment};
use crate::ledger;

/// How long somebody who pressed Tab waits for names (R43).
const PATIENCE: Duration = Duration::from_secs(2);

/// As many names as are of use to a person.
const MOST: u32 = 500;

/// Where names come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Live {
    Contexts,
    Clusters,
    Users,
    RunIds,
    Namespaces,
    ServiceAccounts,
    RuntimeClasses,
    NodeLabels,
}

impl Live {
    /// Where the values of an argument come from, by the name of its field.
    pub(super) fn of_argument(id: &str) -> Option<Self> {
        Some(match id {
            "context" => Self::Contexts,
            "cluster" => Self::Clusters,
            "user" => Self::Users,
            "run_ids" => Self::RunIds,
            "namespace" => Self::Namespaces,
            "service_account" | "service_account_name" => Self::ServiceAccounts,
            "runtime_class" => Self::RuntimeClasses,
            _ => return None,
        })
    }

    /// The names. `typed` says what is typed already.
    pub(super) async fn candidates(self, flags: &ConnectionFlags, env: &Environment, typed: &str) -> Vec<Candidate> {
        let entries = || kubeconfig::entries(flags, env).unwrap_or_default();
        let plain = |names: Vec<String>| names.into_iter().map(|name| Candidate::new(name, "")).collect();
        match self {
            Self::Contexts => plain(entries().contexts),
            Self::Clusters => plain(entries().clusters),
            Self::Users => plain(entries().users),
            Self::RunIds => run_ids(),
            Self::Namespaces | Self::ServiceAccounts | Self::RuntimeClasses | Self::NodeLabels => {
                let asked = async { self.ask(kubeconfig::connect(flags, env).await.ok()?, typed).await };
                let names = timeout(PATIENCE, asked).await.ok().flatten();
                plain(names.unwrap_or_default())
            }
        }
    }

    async fn ask(self, Connection { client, namespace, .. }: Connection, typed: &str) -> Option<Vec<String>> {
        match self {
            Self::Namespaces => names(&Api::<Namespace>::all(client)).await,
            Self::ServiceAccounts => names(&Api::<ServiceAccount>::namespaced(client, &namespace)).await,
            Self::RuntimeClasses => names(&Api::<RuntimeClass>::all(client)).await,
            Self::NodeLabels => Some(label_keys(&list(&Api::<Node>::all(client)).await?, typed)),
            Self::Contexts | Self::Clusters | Self::Users | Self::RunIds => None,
        }
    }
}

/// RBAC: `list` on the kind.
async fn list<K>(api: &Api<K>) -> Option<Vec<PartialObjectMeta<K>>>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    Some(api.list_metadata(&ListParams::default().limit(MOST)).await.ok()?.items)
}

async fn names<K>(api: &Api<K>) -> Option<Vec<String>>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    Some(list(api).await?.iter().map(ResourceExt::name_any).collect())
}

/// `key=` for every key of a label, after the pairs that are typed already.
fn label_keys(nodes: &[PartialObjectMeta<Node>], typed: &str) -> Vec<String> {
    let before = typed.rfind(',').map_or("", |comma| &typed[..=comma]);
    let keys: BTreeSet<&String> = nodes.iter().flat_map(|node| node.labels().keys()).collect();
    keys.into_iter().map(|key| format!("{before}{key}=")).collect()
}

/// The runs of this machine's ledgers.
fn run_ids() -> Vec<Candidate> {
    let Some(directory) = state_dir::directory() else { return Vec::new() };
    let pasts = ledger::read(&directory).pasts.into_iter();
    pasts
        .map(|past| {
            let header = &past.header;
            let state = if past.live { "still runs" } else { "ended" };
            let place = format!("in {} at {}, {state}", header.namespace, header.cluster.server());
            Candidate::new(header.run_id.to_string(), place)
        })
        .collect()
}
