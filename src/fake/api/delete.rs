//! Deleting: preconditions, propagation, finalizers and grace periods.

use std::sync::Arc;

use jiff::{Timestamp, ToSpan as _};
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::{Call, Target};
use super::kind::Kind;
use super::kinds::{NAMESPACE, POD, SERVICE_ACCOUNT};
use super::object::{Object as _, as_map};
use super::refusal::{Refusal, bad_request, invalid_options, precondition};
use super::update::is_done;
use super::{Api, body, key, list};

/// Finalizers that stand for a propagation policy.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
pub(super) const ORPHAN: &str = "orphan";

/// How an object is to be deleted.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Options {
    preconditions: Preconditions,
    propagation_policy: Option<Propagation>,
    grace_period_seconds: Option<u64>,
    dry_run: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl Options {
    fn of(call: &Call) -> Result<Self, Refusal> {
        let mut options = if call.body.is_empty() { Self::default() } else { Self::parse(body::parse(call)?)? };
        if options.propagation_policy.is_none() && !call.query.get("propagationPolicy").is_empty() {
            let policy = call.query.get("propagationPolicy");
            let parsed = Self::parse(json!({ "propagationPolicy": policy }));
            let refused = |_| {
                let what = format!(
                    "Unsupported value: {policy:?}: supported values: \"Background\", \"Foreground\", \"Orphan\""
                );
                invalid_options("DeleteOptions", "propagationPolicy", &what)
            };
            options.propagation_policy = parsed.map_err(refused)?.propagation_policy;
        }
        if options.grace_period_seconds.is_none() {
            options.grace_period_seconds = call.query.number("gracePeriodSeconds")?;
        }
        if call.query.dry_run()? {
            options.dry_run.push("All".to_owned());
        }
        Ok(options)
    }

    fn parse(body: Value) -> Result<Self, Refusal> {
        serde_json::from_value(body).map_err(|error| bad_request(&format!("invalid DeleteOptions: {error}")))
    }

    /// For what the cluster deletes by itself.
    pub(super) fn background() -> Self {
        Self { propagation_policy: Some(Propagation::Background), ..Self::default() }
    }

    pub(super) fn pinned(mut self, uid: &str) -> Self {
        self.preconditions.uid = Some(uid.to_owned());
        self
    }
}

impl Api {
    pub(super) fn delete(&mut self, call: &Call) -> Result<Value, Refusal> {
        let options = Options::of(call)?;
        self.delete_object(&call.target, &options)
    }

    pub(super) fn delete_collection(&mut self, call: &Call) -> Result<Value, Refusal> {
        let options = Options::of(call)?;
        let selected = self.select(call)?;
        let list = list::of(call.target.kind, self.store.revision(), selected.iter().map(Arc::as_ref));
        for object in selected {
            let target = Target {
                name: object.meta("name").to_owned(),
                namespace: object.meta("namespace").to_owned(),
                ..call.target.clone()
            };
            self.delete_object(&target, &options)?;
        }
        Ok(list)
    }

    pub(super) fn delete_object(&mut self, target: &Target, options: &Options) -> Result<Value, Refusal> {
        let kind = target.kind;
        let old = Arc::clone(self.find(target)?);
        check(kind, &old, &options.preconditions)?;
        let mut new = Value::clone(&old);
        set_finalizers(&mut new, options.propagation_policy);
        let grace = grace(kind, &old, options.grace_period_seconds);
        let shortens = old["metadata"]["deletionGracePeriodSeconds"].as_u64().is_some_and(|left| grace < left);
        if !old.is_terminating() || shortens {
            let end = Timestamp::now().saturating_add(i64::try_from(grace).unwrap_or(i64::MAX).seconds());
            let end = end.unwrap_or(Timestamp::MAX);
            new.set_meta("deletionTimestamp", format!("{end:.0}"));
            new.set_meta("deletionGracePeriodSeconds", grace);
            if kind.generation {
                new.set_meta("generation", old["metadata"]["generation"].as_u64().unwrap_or_default() + 1);
            }
            if kind.resource() == NAMESPACE.resource() {
                as_map(&mut new).insert("status".to_owned(), json!({ "phase": "Terminating" }));
            }
        }
        let dry_run = options.dry_run.iter().any(|value| value == "All");
        if is_done(&new) {
            let last = if dry_run { None } else { self.store.remove(&key(target)) };
            return Ok(match kind.resource() {
                // What may take time to end shows that it took none.
                resource if resource == POD.resource() => new,
                resource if resource == SERVICE_ACCOUNT.resource() => last.map_or(new, |last| Value::clone(&last)),
                _ => success(kind, &old),
            });
        }
        if dry_run || new == *old {
            return Ok(new);
        }
        Ok(Value::clone(&self.store.put(&key(target), new)))
    }
}

fn check(kind: &Kind, old: &Value, wanted: &Preconditions) -> Result<(), Refusal> {
    let live = old.meta("uid");
    if let Some(uid) = wanted.uid.as_ref().filter(|uid| *uid != live) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({live}). The object might have been \
             deleted and then recreated"
        );
        return Err(precondition(kind, old.meta("name"), &why));
    }
    let live = old.meta("resourceVersion");
    if let Some(version) = wanted.resource_version.as_ref().filter(|version| *version != live) {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record \
             ({live}). The object might have been modified"
        );
        return Err(precondition(kind, old.meta("name"), &why));
    }
    Ok(())
}

/// A policy that is asked for replaces the one that an earlier delete left.
fn set_finalizers(object: &mut Value, policy: Option<Propagation>) {
    let Some(policy) = policy else { return };
    let mut finalizers = object.meta_list("finalizers");
    finalizers.retain(|name| ![FOREGROUND, ORPHAN].contains(name));
    match policy {
        Propagation::Background => {}
        Propagation::Foreground => finalizers.push(FOREGROUND),
        Propagation::Orphan => finalizers.push(ORPHAN),
    }
    let finalizers = json!(finalizers);
    set_or_remove(object, "finalizers", finalizers);
}

/// Sets a list of the metadata; an empty one is none.
pub(super) fn set_or_remove(object: &mut Value, field: &str, list: Value) {
    if list.as_array().is_none_or(Vec::is_empty) {
        object.remove_meta(field);
    } else {
        object.set_meta(field, list);
    }
}

/// How long the object has to end. Only a pod on a node needs time.
fn grace(kind: &Kind, object: &Value, asked: Option<u64>) -> u64 {
    let ended = ["Succeeded", "Failed"].contains(&object.text("/status/phase"));
    if kind.resource() != POD.resource() || object.text("/spec/nodeName").is_empty() || ended {
        return 0;
    }
    asked.or_else(|| object["spec"]["terminationGracePeriodSeconds"].as_u64()).unwrap_or(30)
}

fn success(kind: &Kind, object: &Value) -> Value {
    let mut details = json!({ "name": object.meta("name"), "kind": kind.plural, "uid": object.meta("uid") });
    if !kind.group.is_empty() {
        details["group"] = kind.group.into();
    }
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details })
}
