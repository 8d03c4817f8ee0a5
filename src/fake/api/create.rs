//! Creating.

use serde_json::Value;

use super::call::Call;
use super::fields::{self, Operation};
use super::kind::Kind;
use super::names::check_metadata;
use super::object::{Object as _, as_map, generated_name, new_uid, now};
use super::refusal::{Refusal, already_exists, bad_request, internal, invalid};
use super::store::Key;
use super::user::User;
use super::{Api, body};

/// Who writes, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Author<'a> {
    pub(super) user: &'a User,
    pub(super) manager: &'a str,
    pub(super) dry_run: bool,
}

impl<'a> Author<'a> {
    pub(super) fn of(call: &'a Call) -> Result<Self, Refusal> {
        Ok(Self { user: &call.user, manager: call.manager(), dry_run: call.query.dry_run()? })
    }
}

impl Api {
    pub(super) fn create(&mut self, call: &Call) -> Result<Value, Refusal> {
        let object = body::object(call)?;
        self.create_object(call.target.kind, &call.target.namespace, object, Author::of(call)?, None)
    }

    /// Creates an object that has its kind's shape. `applied` is the entry of managed fields of an apply.
    pub(super) fn create_object(
        &mut self,
        kind: &'static Kind,
        namespace: &str,
        mut object: Value,
        author: Author<'_>,
        applied: Option<Value>,
    ) -> Result<Value, Refusal> {
        match object.meta("namespace") {
            "" if kind.namespaced => object.set_meta("namespace", namespace),
            given if given == namespace => {}
            _ => {
                let why = "the namespace of the provided object does not match the namespace sent on the request";
                return Err(bad_request(why));
            }
        }
        self.admit_to_namespace(kind, namespace, object.meta("name"))?;
        if !object.meta("resourceVersion").is_empty() {
            return Err(internal("resourceVersion should not be set on objects to be created"));
        }
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields", "resourceVersion"]
        {
            object.remove_meta(field);
        }
        if object.meta("name").is_empty() && !object.meta("generateName").is_empty() {
            let name = self.free_name(kind, namespace, object.meta("generateName"));
            object.set_meta("name", name);
        }
        object.set_meta("uid", new_uid());
        object.set_meta("creationTimestamp", now());
        if kind.generation {
            object.set_meta("generation", 1);
        }
        (kind.prepare)(&mut object);
        (kind.default)(&mut object);
        self.admit_new(kind, &object, author.user)?;
        let mut faults = check_metadata(kind, &object);
        faults.extend((kind.check)(&object, None));
        if !faults.is_empty() {
            return Err(invalid(kind, object.meta("name"), faults));
        }
        match applied {
            Some(entry) => fields::set_entries(&mut object, vec![entry]),
            None => fields::track(kind, None, &mut object, &Operation::update(author.manager, "")),
        }
        let key = Key {
            resource: kind.resource(),
            namespace: object.meta("namespace").to_owned(),
            name: object.meta("name").to_owned(),
        };
        if let Some(live) = self.store.get(&key) {
            return Err(already_exists(kind, &key.name, live.is_terminating()));
        }
        if author.dry_run {
            return Ok(object);
        }
        Ok(Value::clone(&self.store.put(&key, object)))
    }

    fn free_name(&self, kind: &'static Kind, namespace: &str, base: &str) -> String {
        loop {
            let name = generated_name(base);
            let key = Key { resource: kind.resource(), namespace: namespace.to_owned(), name: name.clone() };
            if self.store.get(&key).is_none() {
                return name;
            }
        }
    }

    /// Creates what the cluster itself makes.
    pub(super) fn create_own(&mut self, kind: &'static Kind, namespace: &str, mut object: Value) {
        as_map(&mut object).insert("apiVersion".to_owned(), kind.api_version().into());
        as_map(&mut object).insert("kind".to_owned(), kind.name.into());
        let user = User::admin();
        let author = Author { user: &user, manager: "kube-controller-manager", dry_run: false };
        // It is only made where it is missing.
        let _ = self.create_object(kind, namespace, object, author, None);
    }
}
