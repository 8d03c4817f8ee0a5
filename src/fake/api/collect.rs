//! What follows from a change: garbage collection, the end of a namespace, and what a new namespace is given.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Api;
use super::call::Target;
use super::delete::{FOREGROUND, ORPHAN, Options, set_or_remove};
use super::kind::{Kind, Serves};
use super::kinds::{self, CONFIG_MAP, NAMESPACE, SERVICE_ACCOUNT};
use super::object::Object as _;
use super::store::{Change, Key};
use super::update::is_done;

impl Api {
    /// Lets everything happen that follows from what changed, and from what changes by that.
    pub(super) fn settle(&mut self) {
        loop {
            let changes: Vec<Change> = self.store.changes_since(self.settled).cloned().collect();
            if changes.is_empty() {
                return;
            }
            self.settled = self.store.revision();
            for change in changes {
                self.collect(&change);
                self.keep_namespaces(&change);
            }
        }
    }

    fn collect(&mut self, change: &Change) {
        let object = &change.after;
        if change.deleted {
            for (key, dependent) in self.dependents(object.meta("uid")) {
                self.lose_owners(&key, &dependent);
            }
            self.look_at_owners(object);
            return;
        }
        let finalizers = object.meta_list("finalizers");
        if object.is_terminating() && finalizers.contains(&ORPHAN) {
            for (key, dependent) in self.dependents(object.meta("uid")) {
                self.cut_loose(&key, &dependent, object.meta("uid"));
            }
            self.drop_finalizer(&change.key, ORPHAN);
        } else if object.is_terminating() && finalizers.contains(&FOREGROUND) {
            self.delete_dependents_first(&change.key, object);
        }
        self.lose_owners(&change.key, object);
        // It may have come while its owner was on its way out.
        self.look_at_owners(object);
    }

    fn dependents(&self, owner: &str) -> Vec<(Key, Arc<Value>)> {
        let depends =
            |object: &Value| object.list("/metadata/ownerReferences").iter().any(|one| one.text("/uid") == owner);
        let all = self.store.all().filter(|(_, object)| depends(object));
        all.map(|(key, object)| (key.clone(), Arc::clone(object))).collect()
    }

    /// Deletes an object whose owners are all gone; forgets the gone ones of an object that has others.
    fn lose_owners(&mut self, key: &Key, object: &Value) {
        let owners = object.list("/metadata/ownerReferences");
        let (live, gone): (Vec<_>, Vec<_>) = owners.iter().partition(|owner| self.may_live(owner, &key.namespace));
        if gone.is_empty() {
            return;
        }
        if live.is_empty() {
            self.delete_own(key, object.meta("uid"));
        } else if let Some(current) = self.store.get(key).map(|current| Value::clone(current)) {
            let mut current = current;
            let live = json!(live);
            current.set_meta("ownerReferences", live);
            self.store.put(key, current);
        }
    }

    /// Whether an owner stands. What is not served here is taken to.
    fn may_live(&self, owner: &Value, namespace: &str) -> bool {
        owner_key(owner, namespace).is_none_or(|key| self.owner(owner, &key).is_some())
    }

    fn owner(&self, owner: &Value, key: &Key) -> Option<&Arc<Value>> {
        self.store.get(key).filter(|live| live.meta("uid") == owner.text("/uid"))
    }

    fn delete_dependents_first(&mut self, key: &Key, owner: &Value) {
        let uid = owner.meta("uid");
        let blocks = |object: &Value| {
            let owners = object.list("/metadata/ownerReferences");
            owners.iter().any(|owner| owner.text("/uid") == uid && owner["blockOwnerDeletion"] == true)
        };
        let blocking: Vec<_> = self.dependents(uid).into_iter().filter(|(_, object)| blocks(object)).collect();
        if blocking.is_empty() {
            self.drop_finalizer(key, FOREGROUND);
        }
        for (key, object) in blocking.iter().filter(|(_, object)| !object.is_terminating()) {
            self.delete_own(key, object.meta("uid"));
        }
    }

    /// An owner may have waited for what is gone now.
    fn look_at_owners(&mut self, object: &Value) {
        for owner in object.list("/metadata/ownerReferences") {
            if let Some(key) = owner_key(owner, object.meta("namespace"))
                && let Some(live) = self.owner(owner, &key).cloned()
                && live.is_terminating()
                && live.meta_list("finalizers").contains(&FOREGROUND)
            {
                self.delete_dependents_first(&key, &live);
            }
        }
    }

    fn cut_loose(&mut self, key: &Key, dependent: &Value, owner: &str) {
        let mut dependent = dependent.clone();
        let mut owners = dependent.list("/metadata/ownerReferences").to_vec();
        owners.retain(|reference| reference.text("/uid") != owner);
        set_or_remove(&mut dependent, "ownerReferences", json!(owners));
        self.store.put(key, dependent);
    }

    fn drop_finalizer(&mut self, key: &Key, finalizer: &str) {
        let Some(live) = self.store.get(key) else { return };
        let mut live = Value::clone(live);
        let mut finalizers = live.meta_list("finalizers");
        finalizers.retain(|name| *name != finalizer);
        let finalizers = json!(finalizers);
        set_or_remove(&mut live, "finalizers", finalizers);
        self.put_or_remove(key, live);
    }

    fn put_or_remove(&mut self, key: &Key, object: Value) {
        if is_done(&object) {
            self.store.remove(key);
        } else {
            self.store.put(key, object);
        }
    }

    /// Deletes as the cluster's own controllers do.
    fn delete_own(&mut self, key: &Key, uid: &str) {
        let Some(kind) = kinds::ALL.iter().copied().find(|kind| kind.resource() == key.resource) else { return };
        let target = Target { kind, namespace: key.namespace.clone(), name: key.name.clone(), subresource: None };
        // Gone or replaced already is as good.
        let _ = self.delete_object(&target, &Options::background().pinned(uid));
    }

    fn keep_namespaces(&mut self, change: &Change) {
        if change.key.resource == NAMESPACE.resource() {
            let name = change.key.name.clone();
            if change.before.is_none() {
                self.create_own(&SERVICE_ACCOUNT, &name, json!({ "metadata": { "name": "default" } }));
                let root = json!({ "metadata": { "name": "kube-root-ca.crt" }, "data": { "ca.crt": "" } });
                self.create_own(&CONFIG_MAP, &name, root);
            } else if change.after.is_terminating() {
                self.empty(&name);
            }
        } else {
            self.empty(&change.key.namespace);
        }
    }

    /// Deletes what is in a namespace that is terminating, and then the namespace.
    fn empty(&mut self, namespace: &str) {
        let key = Key { resource: NAMESPACE.resource(), namespace: String::new(), name: namespace.to_owned() };
        let Some(live) = self.store.get(&key).filter(|live| live.is_terminating()) else { return };
        let mut live = Value::clone(live);
        let stored = kinds::ALL.iter().filter(|kind| kind.namespaced && kind.serves == Serves::Objects);
        let content: Vec<(Key, String)> = stored
            .flat_map(|kind| self.store.list(kind.resource(), Some(namespace)))
            .map(|(key, object)| (key.clone(), object.meta("uid").to_owned()))
            .collect();
        if content.is_empty() {
            live["spec"] = json!({});
            self.put_or_remove(&key, live);
        }
        for (key, uid) in content {
            self.delete_own(&key, &uid);
        }
    }
}

/// Where an owner stands, if its kind is served here.
fn owner_key(owner: &Value, namespace: &str) -> Option<Key> {
    let kind = Kind::of_object(owner.text("/apiVersion"), owner.text("/kind"))?;
    let namespace = if kind.namespaced { namespace.to_owned() } else { String::new() };
    Some(Key { resource: kind.resource(), namespace, name: owner.text("/name").to_owned() })
}
