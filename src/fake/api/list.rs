//! Lists, whole or page by page.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Api;
use super::call::Call;
use super::kind::Kind;
use super::object::as_map;
use super::refusal::{Refusal, bad_request, expired, too_large_version};
use super::selector::Selector;
use super::store::Key;

/// Where the next page begins: what a continue token says.
#[derive(Debug, Serialize, Deserialize)]
struct Place {
    v: String,
    /// The revision of the first page, which all later ones show.
    rv: u64,
    /// Just after the last object that was shown: `NAMESPACE/NAME` and a zero byte.
    start: String,
}

const TOKEN_VERSION: &str = "meta.k8s.io/v1";

const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can \
                                start a new list without the continue parameter, or use the continue token in this \
                                response to retrieve the remainder of the results. Continuing with the provided token \
                                results in an inconsistent list - objects that were created, modified, or deleted \
                                between the time the first chunk was returned and now may show up in the list.";

impl Api {
    pub(super) fn list(&self, call: &Call) -> Result<Value, Refusal> {
        let query = &call.query;
        let limit = query.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0);
        let place = match query.get("continue") {
            "" => None,
            token => Some(self.place(call.target.kind, token)?),
        };
        let revision = match &place {
            Some(place) => place.rv,
            None => self.revision_asked_for(call)?,
        };
        let selector = selector(call)?;
        let mut objects: Vec<(Key, Arc<Value>)> = self
            .store
            .list_at(call.target.kind.resource(), namespace(call), revision)
            .into_iter()
            .filter(|(_, object)| selector.matches(object))
            .collect();
        if let Some(place) = &place {
            objects.retain(|(key, _)| (key.namespace.as_str(), key.name.as_str()) > place.last());
        }
        let remaining = limit.map_or(0, |limit| objects.len().saturating_sub(limit));
        objects.truncate(limit.unwrap_or(usize::MAX));
        let mut list = of(call.target.kind, revision, objects.iter().map(|(_, object)| object.as_ref()));
        if let Some((key, _)) = objects.last().filter(|_| remaining > 0) {
            list["metadata"]["continue"] = Place::after(key, revision).token().into();
            // The server does not know how many of the rest a selector takes.
            if query.get("labelSelector").is_empty() && query.get("fieldSelector").is_empty() {
                list["metadata"]["remainingItemCount"] = remaining.into();
            }
        }
        Ok(list)
    }

    /// The objects that a call selects, as they are now.
    pub(super) fn select(&self, call: &Call) -> Result<Vec<Arc<Value>>, Refusal> {
        let selector = selector(call)?;
        let objects = self.store.list(call.target.kind.resource(), namespace(call)).map(|(_, object)| object);
        Ok(objects.filter(|object| selector.matches(object)).cloned().collect())
    }

    fn place(&self, kind: &Kind, token: &str) -> Result<Place, Refusal> {
        let decoded = URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let place: Place = decoded.ok_or_else(|| bad_request("continue key is not valid: encoded start key"))?;
        if place.rv >= self.store.compacted() {
            return Ok(place);
        }
        let mut refusal = expired(CONTINUE_EXPIRED);
        // What was asked for can still be had, as it is now.
        let fresh = Place { rv: self.store.revision(), ..place };
        let list = of(kind, fresh.rv, std::iter::empty());
        refusal.metadata = serde_json::from_value(list["metadata"].clone()).ok();
        if let Some(metadata) = &mut refusal.metadata {
            metadata.continue_ = Some(fresh.token());
        }
        Err(refusal)
    }

    fn revision_asked_for(&self, call: &Call) -> Result<u64, Refusal> {
        let current = self.store.revision();
        let asked = call.query.number("resourceVersion")?.unwrap_or_default();
        if asked > current {
            return Err(too_large_version(asked, current));
        }
        if call.query.get("resourceVersionMatch") != "Exact" {
            return Ok(current);
        }
        if asked < self.store.compacted() {
            return Err(expired("The resourceVersion for the provided list is too old."));
        }
        Ok(asked)
    }
}

impl Place {
    fn after(key: &Key, revision: u64) -> Self {
        let start = format!("{}/{}\0", key.namespace, key.name);
        Self { v: TOKEN_VERSION.to_owned(), rv: revision, start }
    }

    /// Namespace and name of the last object that was shown.
    fn last(&self) -> (&str, &str) {
        self.start.trim_end_matches('\0').split_once('/').unwrap_or_default()
    }

    fn token(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }
}

/// The namespace that a call is confined to.
pub(super) fn namespace(call: &Call) -> Option<&str> {
    let namespace = call.target.namespace.as_str();
    (!namespace.is_empty()).then_some(namespace)
}

pub(super) fn selector(call: &Call) -> Result<Selector, Refusal> {
    Selector::parse(call.target.kind, call.query.get("labelSelector"), call.query.get("fieldSelector"))
}

/// A list of objects of a kind. Its items leave out what they have in common.
pub(super) fn of<'a>(kind: &Kind, revision: u64, objects: impl Iterator<Item = &'a Value>) -> Value {
    let items: Vec<Value> = objects
        .map(|object| {
            let mut item = object.clone();
            let map = as_map(&mut item);
            map.remove("kind");
            map.remove("apiVersion");
            item
        })
        .collect();
    json!({
        "kind": kind.list_kind(),
        "apiVersion": kind.api_version(),
        "metadata": { "resourceVersion": revision.to_string() },
        "items": items,
    })
}
