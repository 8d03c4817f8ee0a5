//! Watches: what changed since a version, as events.

use std::time::Duration;

use serde_json::{Value, json};

use super::Api;
use super::call::Call;
use super::kind::Kind;
use super::list;
use super::object::Object as _;
use super::refusal::{Refusal, expired, too_large_version};
use super::selector::Selector;
use super::store::Change;

/// A watch that was asked for, and how far it has come.
#[derive(Clone, Debug)]
pub(crate) struct Watching {
    pub(crate) kind: &'static Kind,
    namespace: Option<String>,
    selector: Selector,
    seen: u64,
    /// Events that come before all changes.
    initial: Vec<Value>,
    pub(crate) bookmarks: bool,
    /// When the server ends the watch, counted from its start.
    pub(crate) timeout: Option<Duration>,
}

impl Api {
    pub(super) fn watch(&self, call: &Call) -> Result<Watching, Refusal> {
        let query = &call.query;
        let asked = query.number("resourceVersion")?;
        let current = self.store.revision();
        let mut watching = Watching {
            kind: call.target.kind,
            namespace: list::namespace(call).map(str::to_owned),
            selector: list::selector(call)?,
            seen: current,
            initial: Vec::new(),
            bookmarks: query.is_true("allowWatchBookmarks"),
            timeout: query.seconds("timeoutSeconds")?.filter(|timeout| !timeout.is_zero()),
        };
        let asked = asked.unwrap_or_default();
        if asked > current {
            watching.initial.push(event("ERROR", &json!(too_large_version(asked, current))));
        } else if query.is_true("sendInitialEvents") {
            watching.initial = self.present(call)?;
            let mut end = watching.bookmark();
            end["object"]["metadata"]["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
            watching.initial.push(end);
        } else if asked == 0 {
            watching.initial = self.present(call)?;
        } else {
            watching.seen = asked;
        }
        Ok(watching)
    }

    fn present(&self, call: &Call) -> Result<Vec<Value>, Refusal> {
        let objects = self.select(call)?;
        Ok(objects.iter().map(|object| event("ADDED", object)).collect())
    }

    /// The events that a watch has not seen yet. An `ERROR` among them is the last.
    pub(crate) fn events(&self, watching: &mut Watching) -> Vec<Value> {
        let mut events = std::mem::take(&mut watching.initial);
        if watching.seen < self.store.compacted() {
            let message = "The resourceVersion for the provided watch is too old.";
            events.push(event("ERROR", &json!(expired(message))));
            return events;
        }
        events.extend(self.store.changes_since(watching.seen).filter_map(|change| watching.event(change)));
        watching.seen = self.store.revision();
        events
    }
}

impl Watching {
    /// What a change is to this watch: an object that comes to fit its selector was added, one that no longer fits
    /// was deleted.
    fn event(&self, change: &Change) -> Option<Value> {
        let namespace = &change.key.namespace;
        if change.key.resource != self.kind.resource() || self.namespace.as_ref().is_some_and(|own| own != namespace) {
            return None;
        }
        let before = change.before.as_ref().filter(|before| self.selector.matches(before));
        let fits = !change.deleted && self.selector.matches(&change.after);
        match (before, fits) {
            (None, false) => None,
            (None, true) => Some(event("ADDED", &change.after)),
            (Some(_), true) => Some(event("MODIFIED", &change.after)),
            (Some(before), false) => {
                let mut last = Value::clone(before);
                last.set_meta("resourceVersion", change.revision.to_string());
                Some(event("DELETED", &last))
            }
        }
    }

    /// An event that says how far the watch has come.
    pub(crate) fn bookmark(&self) -> Value {
        let object = json!({
            "kind": self.kind.name,
            "apiVersion": self.kind.api_version(),
            "metadata": { "resourceVersion": self.seen.to_string(), "creationTimestamp": null },
        });
        event("BOOKMARK", &object)
    }
}

fn event(kind: &str, object: &Value) -> Value {
    json!({ "type": kind, "object": object })
}

/// Whether nothing follows this event.
pub(crate) fn is_last(event: &Value) -> bool {
    event["type"] == "ERROR"
}
