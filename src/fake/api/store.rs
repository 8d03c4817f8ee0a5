//! What is stored, and every change of it since the last compaction.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use super::object::Object as _;

/// Changes that are kept at most: older ones are compacted away, as etcd does after some minutes.
const KEPT_CHANGES: usize = 10_000;

/// Resource version of an empty store. Whoever asks for changes since an earlier one is told that it expired.
const FIRST_REVISION: u64 = 100;

/// Where an object is stored. Orders as lists are ordered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    /// Plural and group, as in `jobs.batch`.
    pub(crate) resource: &'static str,
    /// Empty for cluster-scoped kinds.
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// One change of one object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) key: Key,
    pub(crate) before: Option<Arc<Value>>,
    /// What is stored now; of a deletion, the last state with the deletion's resource version.
    pub(crate) after: Arc<Value>,
    pub(crate) deleted: bool,
}

/// The objects and their history.
#[derive(Debug)]
pub(crate) struct Store {
    revision: u64,
    compacted: u64,
    objects: BTreeMap<Key, Arc<Value>>,
    changes: VecDeque<Change>,
    changed: watch::Sender<u64>,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            revision: FIRST_REVISION,
            compacted: FIRST_REVISION,
            objects: BTreeMap::new(),
            changes: VecDeque::new(),
            changed: watch::Sender::new(FIRST_REVISION),
        }
    }
}

impl Store {
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The revision before which nothing is known.
    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    /// Wakes with every change.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(key)
    }

    /// The objects of a resource in order, of one namespace or of all.
    pub(crate) fn list<'a, 'n>(
        &'a self,
        resource: &'static str,
        namespace: Option<&'n str>,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Value>)> + use<'a, 'n> {
        let from = Key { resource, namespace: namespace.unwrap_or_default().to_owned(), name: String::new() };
        self.objects.range(from..).take_while(move |(key, _)| {
            key.resource == resource && namespace.is_none_or(|namespace| key.namespace == namespace)
        })
    }

    /// Every stored object.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        self.objects.iter()
    }

    /// Stores an object under a new resource version, which it then shows.
    pub(crate) fn put(&mut self, key: &Key, mut object: Value) -> Arc<Value> {
        self.revision += 1;
        object.set_meta("resourceVersion", self.revision.to_string());
        let object = Arc::new(object);
        let before = self.objects.insert(key.clone(), Arc::clone(&object));
        self.record(key.clone(), before, Arc::clone(&object), false);
        object
    }

    /// Removes an object. Its last state shows the resource version of its deletion.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Arc<Value>> {
        let before = self.objects.remove(key)?;
        self.revision += 1;
        let mut last = Value::clone(&before);
        last.set_meta("resourceVersion", self.revision.to_string());
        let last = Arc::new(last);
        self.record(key.clone(), Some(before), Arc::clone(&last), true);
        Some(last)
    }

    fn record(&mut self, key: Key, before: Option<Arc<Value>>, after: Arc<Value>, deleted: bool) {
        self.changes.push_back(Change { revision: self.revision, key, before, after, deleted });
        if self.changes.len() > KEPT_CHANGES
            && let Some(oldest) = self.changes.pop_front()
        {
            self.compacted = oldest.revision;
        }
        self.changed.send_replace(self.revision);
    }

    /// Forgets every change until now.
    pub(crate) fn compact(&mut self) {
        self.changes.clear();
        self.compacted = self.revision;
        // Watches that are behind learn that they are lost.
        self.changed.send_replace(self.revision);
    }

    /// The changes after a revision that is not compacted.
    pub(crate) fn changes_since(&self, revision: u64) -> impl Iterator<Item = &Change> {
        let start = self.changes.partition_point(|change| change.revision <= revision);
        self.changes.range(start..)
    }

    /// The objects of a resource as they were at a revision that is not compacted.
    pub(crate) fn list_at(
        &self,
        resource: &'static str,
        namespace: Option<&str>,
        revision: u64,
    ) -> BTreeMap<Key, Arc<Value>> {
        let mut objects: BTreeMap<Key, Arc<Value>> =
            self.list(resource, namespace).map(|(key, object)| (key.clone(), Arc::clone(object))).collect();
        let undo = self.changes.iter().rev().take_while(|change| change.revision > revision);
        let concerned = undo.filter(|change| {
            change.key.resource == resource && namespace.is_none_or(|namespace| change.key.namespace == namespace)
        });
        for change in concerned {
            match &change.before {
                Some(before) => objects.insert(change.key.clone(), Arc::clone(before)),
                None => objects.remove(&change.key),
            };
        }
        objects
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(name: &str) -> Key {
        Key { resource: "configmaps", namespace: "a".to_owned(), name: name.to_owned() }
    }

    fn names(objects: &BTreeMap<Key, Arc<Value>>) -> Vec<&str> {
        objects.keys().map(|key| key.name.as_str()).collect()
    }

    #[test]
    fn a_past_revision_is_seen_as_it_was() {
        let mut store = Store::default();
        store.put(&key("one"), json!({"data": {"n": "1"}}));
        store.put(&key("two"), json!({}));
        let then = store.revision();
        store.put(&key("one"), json!({"data": {"n": "2"}}));
        store.remove(&key("two"));
        store.put(&key("three"), json!({}));
        let past = store.list_at("configmaps", Some("a"), then);
        assert_eq!(names(&past), ["one", "two"]);
        assert_eq!(past[&key("one")]["data"]["n"], "1");
        assert_eq!(names(&store.list_at("configmaps", None, store.revision())), ["one", "three"]);
    }

    #[test]
    fn a_deletion_shows_the_last_state_under_its_own_version() {
        let mut store = Store::default();
        let stored = store.put(&key("one"), json!({"data": {"n": "1"}}));
        let last = store.remove(&key("one")).unwrap();
        assert_eq!(last["data"], stored["data"]);
        assert_eq!(last["metadata"]["resourceVersion"], store.revision().to_string());
        let change = store.changes_since(store.revision() - 1).next().unwrap();
        assert!(change.deleted && change.before.is_some());
    }

    #[test]
    fn old_changes_are_compacted_away() {
        let mut store = Store::default();
        for n in 0..=KEPT_CHANGES {
            store.put(&key("one"), json!({"data": {"n": n.to_string()}}));
        }
        assert_eq!(store.compacted(), FIRST_REVISION + 1);
        store.compact();
        assert_eq!(store.compacted(), store.revision());
    }
}
