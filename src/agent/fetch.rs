//! Reading the document that the agent left (R26).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde::Deserialize;
use tokio::time::Instant;

use crate::agent::cluster::Cluster;
use crate::agent::created_set::Uid;
use crate::agent::object::ObjectRef;
use crate::error::Error;

/// Key of the document in its `ConfigMap`.
const DOCUMENT: &str = "snapshot.yaml";

/// Field manager under which the agent writes (R5).
const AGENT: &str = "aicr";

/// How far the clocks of two API servers of one cluster may be apart.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(5);

/// A document and the `ConfigMap` that held it.
#[derive(Debug)]
pub(crate) struct Fetched {
    /// The UID of the `ConfigMap` it was read from.
    pub(crate) uid: Option<Uid>,
    /// The agent's bytes, unchanged, or what is wrong with them.
    pub(crate) document: Result<Vec<u8>, Error>,
}

#[derive(Deserialize)]
struct ConfigMap {
    metadata: Metadata,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    managed_fields: Vec<ManagedFieldsEntry>,
}

impl Metadata {
    /// When the agent wrote last, by the server's clock.
    fn written(&self) -> Option<Timestamp> {
        let agents = self.managed_fields.iter().filter(|entry| entry.manager.as_deref() == Some(AGENT));
        agents.filter_map(|entry| entry.time.as_ref().map(|time| time.0)).max()
    }
}

/// Reads the document, which must not be older than the Job: in a `ConfigMap` of the user an earlier one may stand.
/// RBAC: `get` on configmaps in the output's namespace.
pub(crate) async fn fetch(
    cluster: &Cluster,
    config_map: &ObjectRef,
    not_before: Option<Timestamp>,
    deadline: Instant,
) -> Result<Fetched, Error> {
    let problem = |problem: &str| Error::NoDocument { config_map: config_map.clone(), problem: problem.to_owned() };
    let Some(mut live) = cluster.get::<ConfigMap>(config_map, deadline).await? else {
        let document = Err(problem("does not exist: the agent ended well but wrote nothing"));
        return Ok(Fetched { uid: None, document });
    };
    let earlier = live.metadata.written().zip(not_before).filter(|(written, job)| *written + CLOCK_SKEW < *job);
    if let Some((written, _)) = earlier {
        let text =
            format!("holds the document of an earlier run, of {written}: the agent ended well but wrote nothing");
        return Ok(Fetched { uid: None, document: Err(problem(&text)) });
    }
    let document = match live.data.remove(DOCUMENT) {
        None => Err(problem("has no key snapshot.yaml")),
        Some(document) if document.trim().is_empty() => Err(problem("has an empty document in its key snapshot.yaml")),
        Some(document) => Ok(document.into_bytes()),
    };
    Ok(Fetched { uid: Uid::new(live.metadata.uid), document })
}
