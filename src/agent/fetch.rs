//! Reading the document that the agent left (R26).

use std::collections::BTreeMap;

use serde::Deserialize;
use tokio::time::Instant;

use crate::agent::cluster::Cluster;
use crate::agent::created_set::Uid;
use crate::agent::object::ObjectRef;
use crate::error::Error;

/// Key of the document in its `ConfigMap`.
const DOCUMENT: &str = "snapshot.yaml";

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
struct Metadata {
    #[serde(default)]
    uid: String,
}

/// Reads the document. RBAC: `get` on configmaps in the output's namespace.
pub(crate) async fn fetch(cluster: &Cluster, config_map: &ObjectRef, deadline: Instant) -> Result<Fetched, Error> {
    let problem = |problem: &str| Error::NoDocument { config_map: config_map.clone(), problem: problem.to_owned() };
    let Some(mut live) = cluster.get::<ConfigMap>(config_map, deadline).await? else {
        let document = Err(problem("does not exist: the agent ended well but wrote nothing"));
        return Ok(Fetched { uid: None, document });
    };
    let document = match live.data.remove(DOCUMENT) {
        None => Err(problem("has no key snapshot.yaml")),
        Some(document) if document.trim().is_empty() => Err(problem("has an empty document in its key snapshot.yaml")),
        Some(document) => Ok(document.into_bytes()),
    };
    Ok(Fetched { uid: Uid::new(live.metadata.uid), document })
}
