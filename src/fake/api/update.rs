//! Replacing an object, which is also how a patch ends.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::call::Call;
use super::create::Author;
use super::fields::{self, Operation};
use super::kind::{Kind, Subresource};
use super::kinds::NAMESPACE;
use super::names::check_metadata;
use super::object::{Object as _, as_map};
use super::refusal::{Fault, Refusal, bad_request, conflict, invalid, modified};
use super::{Api, body, key};

/// Metadata that no write changes.
const KEPT: &[&str] =
    &["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion"];

impl Api {
    pub(super) fn update(&mut self, call: &Call) -> Result<Value, Refusal> {
        let target = &call.target;
        let new = body::object(call)?;
        if new.meta("name") != target.name && !new.meta("name").is_empty() {
            let given = new.meta("name");
            let message =
                format!("the name of the object ({given}) does not match the name on the URL ({})", target.name);
            return Err(bad_request(&message));
        }
        if new.meta("namespace") != target.namespace && !new.meta("namespace").is_empty() {
            let why = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(bad_request(why));
        }
        self.find(target)?;
        self.replace(call, new, None)
    }

    /// Puts an object in the place of the one that stands there. `applied` are the managed fields of an apply.
    pub(super) fn replace(&mut self, call: &Call, new: Value, applied: Option<Vec<Value>>) -> Result<Value, Refusal> {
        let author = Author::of(call)?;
        let target = &call.target;
        let old = Arc::clone(self.find(target)?);
        check_preconditions(target.kind, &old, new.meta("uid"), new.meta("resourceVersion"))?;
        let mut new = merged(target.kind, target.subresource, &old, new);
        self.admit_grant(target.kind, &new, author.user)?;
        let faults = check(target.kind, &old, &new);
        if !faults.is_empty() {
            return Err(invalid(target.kind, &target.name, faults));
        }
        let subresource = target.subresource.map_or("", Subresource::as_str);
        match applied {
            Some(entries) => fields::set_entries(&mut new, entries),
            None => fields::track(target.kind, Some(&old), &mut new, &Operation::update(author.manager, subresource)),
        }
        if fields::without_times(&new) == fields::without_times(&old) {
            return Ok(Value::clone(&old));
        }
        if target.kind.generation && new["spec"] != old["spec"] {
            new.set_meta("generation", old["metadata"]["generation"].as_u64().unwrap_or_default() + 1);
        }
        if author.dry_run {
            return Ok(new);
        }
        let key = key(target);
        if is_done(&new) {
            // What is shown is the object as it was written, gone the same moment.
            self.store.remove(&key);
            return Ok(new);
        }
        Ok(Value::clone(&self.store.put(&key, new)))
    }
}

/// Whether a deleted object has nothing left to wait for.
pub(super) fn is_done(object: &Value) -> bool {
    let grace = object["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or_default();
    let emptied = object["kind"] != NAMESPACE.name || object.list("/spec/finalizers").is_empty();
    object.is_terminating() && grace == 0 && emptied && object.meta_list("finalizers").is_empty()
}

fn check_preconditions(kind: &Kind, old: &Value, uid: &str, version: &str) -> Result<(), Refusal> {
    let name = old.meta("name");
    let live = old.meta("uid");
    if !uid.is_empty() && uid != live {
        let key = format!("/registry/{}/{}/{name}", kind.plural, old.meta("namespace"));
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
             failed: UID in precondition: {uid}, UID in object meta: {live}"
        );
        return Err(conflict(kind, name, &why));
    }
    if !version.is_empty() && version != old.meta("resourceVersion") {
        return Err(modified(kind, name));
    }
    Ok(())
}

/// What a write makes of the old object: the status is only written through its own path, and nothing else there.
fn merged(kind: &Kind, subresource: Option<Subresource>, old: &Value, mut new: Value) -> Value {
    match subresource {
        Some(Subresource::Status) => {
            let mut object = old.clone();
            as_map(&mut object).insert("status".to_owned(), new["status"].take());
            return object;
        }
        Some(Subresource::Finalize) => {
            let mut object = old.clone();
            as_map(&mut object).insert("spec".to_owned(), new["spec"].take());
            return object;
        }
        _ => {}
    }
    for field in KEPT {
        match old["metadata"].get(field) {
            Some(value) => new.set_meta(field, value.clone()),
            None => new.remove_meta(field),
        }
    }
    for field in ["name", "namespace", "generateName"] {
        if let Some(value) = old["metadata"].get(field) {
            new.set_meta(field, value.clone());
        }
    }
    let keeps_spec = kind.resource() == NAMESPACE.resource();
    for (field, kept) in [("status", kind.has_status()), ("spec", keeps_spec)] {
        if kept {
            match old.get(field) {
                Some(value) => as_map(&mut new).insert(field.to_owned(), value.clone()),
                None => as_map(&mut new).remove(field),
            };
        }
    }
    (kind.default)(&mut new);
    new
}

fn check(kind: &Kind, old: &Value, new: &Value) -> Vec<Fault> {
    let mut faults = check_metadata(kind, new);
    faults.extend((kind.check)(new, Some(old)));
    if old.is_terminating() {
        let had: BTreeSet<_> = old.meta_list("finalizers").into_iter().collect();
        let added: Vec<_> = new.meta_list("finalizers").into_iter().filter(|name| !had.contains(name)).collect();
        if !added.is_empty() {
            let added = added.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{added}}}"
            );
            faults.push(Fault::forbidden("metadata.finalizers", &why));
        }
    }
    faults
}
