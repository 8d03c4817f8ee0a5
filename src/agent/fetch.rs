//! Reading the document that the agent left (R26).

use std::collections::BTreeMap;
use std::ops::Range;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::agent::cluster::Cluster;
use crate::agent::created_set::Uid;
use crate::agent::object::ObjectRef;
use crate::agent::text;
use crate::error::{ApiError, Error};

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
struct ConfigMap<'a> {
    metadata: Metadata,
    #[serde(borrow)]
    data: Option<BTreeMap<String, &'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    uid: String,
    managed_fields: Option<Vec<Manager>>,
}

#[derive(Deserialize)]
struct Manager {
    manager: Option<String>,
    time: Option<Timestamp>,
}

impl Metadata {
    /// When the agent wrote last, by the server's clock.
    fn written(&self) -> Option<Timestamp> {
        let managers = self.managed_fields.iter().flatten();
        managers.filter(|entry| entry.manager.as_deref() == Some(AGENT)).filter_map(|entry| entry.time).max()
    }
}

/// A `ConfigMap`'s metadata, and where in its JSON the document stands.
fn read(json: &[u8]) -> Result<(Metadata, Option<Range<usize>>), serde_json::Error> {
    let ConfigMap { metadata, data } = serde_json::from_slice(json)?;
    let document = data.as_ref().and_then(|data| data.get(DOCUMENT)).map(|document| document.get());
    if let Some(other) = document.filter(|document| !document.starts_with('"')) {
        return Err(serde_json::Error::custom(format_args!("{DOCUMENT} is no text but {other}")));
    }
    let place = |document: &str| {
        let start = document.as_ptr().addr() - json.as_ptr().addr();
        start..start + document.len()
    };
    Ok((metadata, document.map(place)))
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
    let Some(json) = cluster.get_raw(config_map, deadline).await? else {
        let document = Err(problem("does not exist: the agent ended well but wrote nothing"));
        return Ok(Fetched { uid: None, document });
    };
    let unreadable = |error| ApiError::new(format!("read {config_map}"), kube::Error::SerdeError(error));
    let (metadata, place) = read(&json).map_err(unreadable)?;
    let earlier = metadata.written().zip(not_before).filter(|(written, job)| *written + CLOCK_SKEW < *job);
    if let Some((written, _)) = earlier {
        let text =
            format!("holds the document of an earlier run, of {written}: the agent ended well but wrote nothing");
        return Ok(Fetched { uid: None, document: Err(problem(&text)) });
    }
    let document = match place {
        None => Err(problem("has no key snapshot.yaml")),
        Some(place) => {
            let broken = || unreadable(serde_json::Error::custom(format_args!("{DOCUMENT} holds half a character")));
            let document = text::of_string(json, place).ok_or_else(broken)?;
            let is_empty = str::from_utf8(&document).is_ok_and(|document| document.trim().is_empty());
            if is_empty { Err(problem("has an empty document in its key snapshot.yaml")) } else { Ok(document) }
        }
    };
    Ok(Fetched { uid: Uid::new(metadata.uid), document })
}
