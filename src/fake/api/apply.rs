//! Server-side apply: a manager says what it wants, and owns it from then on.

use serde_json::{Value, json};
use std::collections::BTreeMap;

use kube::core::Status;
use kube::core::response::{StatusCause, StatusDetails, reason};

use super::call::Call;
use super::create::Author;
use super::fields::{self, FieldSet, Operation};
use super::object::Object as _;
use super::refusal::{Refusal, bad_request, invalid_options};
use super::strategic;
use super::{Api, body};

impl Api {
    /// Creates or changes an object as its manager wants it; answers with the HTTP status, too.
    pub(super) fn apply(&mut self, call: &Call) -> Result<(u16, Value), Refusal> {
        if call.query.get("fieldManager").is_empty() {
            return Err(invalid_options("PatchOptions", "fieldManager", "Required value: is required for apply patch"));
        }
        let target = &call.target;
        let mut wanted = body::parse(call)?;
        if wanted.meta("name").is_empty() {
            wanted.set_meta("name", target.name.as_str());
        }
        if wanted.meta("name") != target.name {
            let given = wanted.meta("name");
            let message =
                format!("the name of the object ({given}) does not match the name on the URL ({})", target.name);
            return Err(bad_request(&message));
        }
        if !wanted.list("/metadata/managedFields").is_empty() {
            return Err(bad_request("metadata.managedFields must be nil"));
        }
        let operation = Operation::apply(call.manager());
        let wanted = body::shaped(call, wanted)?;
        let fields = fields::leaves(&wanted);
        let Ok(live) = self.find(target).cloned() else {
            let entry = operation.entry(target.kind, &fields);
            let created = self.create_object(target.kind, &target.namespace, wanted, Author::of(call)?, Some(entry))?;
            return Ok((201, created));
        };
        let conflicts = conflicts(&live, &wanted, &fields, &operation);
        if !conflicts.is_empty() && !call.query.is_true("force") {
            return Err(refuse(&conflicts));
        }
        let taken: FieldSet = conflicts.into_values().flatten().collect();
        let (entries, dropped) = settle(&live, &fields, &taken, &operation);
        let mut merged = Value::clone(&live);
        strategic::merge(&mut merged, &wanted);
        for path in &dropped {
            fields::remove(&mut merged, path);
        }
        let mut entries = entries;
        entries.push(operation.entry(target.kind, &fields));
        // What the manager did not ask for is not its to fix.
        merged.remove_meta("resourceVersion");
        if !wanted.meta("resourceVersion").is_empty() {
            merged.set_meta("resourceVersion", wanted.meta("resourceVersion"));
        }
        if !wanted.meta("uid").is_empty() {
            merged.set_meta("uid", wanted.meta("uid"));
        }
        Ok((200, self.replace(call, merged, Some(entries))?))
    }
}

/// Fields of other managers that would get another value, by manager.
fn conflicts(live: &Value, wanted: &Value, fields: &FieldSet, operation: &Operation<'_>) -> BTreeMap<String, FieldSet> {
    let mut conflicts = BTreeMap::new();
    for entry in live.list("/metadata/managedFields").iter().filter(|entry| !operation.is_of(entry)) {
        let theirs = fields::from_tree(&entry["fieldsV1"]);
        let differs = |path: &&Vec<String>| fields::at(live, path) != fields::at(wanted, path);
        let disputed: FieldSet = theirs.intersection(fields).filter(differs).cloned().collect();
        if !disputed.is_empty() {
            conflicts.entry(named(entry)).or_insert_with(FieldSet::new).extend(disputed);
        }
    }
    conflicts
}

fn named(entry: &Value) -> String {
    let manager = entry.text("/manager");
    if entry["operation"] == "Apply" {
        format!("{manager:?}")
    } else {
        format!("{manager:?} using {}", entry.text("/apiVersion"))
    }
}

fn refuse(conflicts: &BTreeMap<String, FieldSet>) -> Refusal {
    let causes: Vec<StatusCause> = conflicts
        .iter()
        .flat_map(|(manager, fields)| {
            fields.iter().map(move |path| StatusCause {
                reason: "FieldManagerConflict".to_owned(),
                message: format!("conflict with {manager}"),
                field: shown(path),
            })
        })
        .collect();
    let said: Vec<String> = conflicts
        .iter()
        .map(|(manager, fields)| match fields.iter().map(shown).collect::<Vec<_>>().as_slice() {
            [only] => format!("conflict with {manager}: {only}"),
            many => format!("conflicts with {manager}:\n- {}", many.join("\n- ")),
        })
        .collect();
    let count = causes.len();
    let plural = if count == 1 { "conflict" } else { "conflicts" };
    let message = format!("Apply failed with {count} {plural}: {}", said.join("\n"));
    let details = StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes,
        retry_after_seconds: 0,
    };
    Status::failure(&message, reason::CONFLICT).with_code(409).with_details(details).boxed()
}

/// `.data.key`, `.spec.containers[name="c"].image`
fn shown(path: &Vec<String>) -> String {
    let mut text = String::new();
    for step in path {
        match step.split_once(':') {
            Some(("f", field)) => {
                text.push('.');
                text.push_str(field);
            }
            Some((_, key)) => {
                let key: BTreeMap<String, Value> = serde_json::from_str(key).unwrap_or_default();
                let key: Vec<String> = key.iter().map(|(name, value)| format!("{name}={}", json!(value))).collect();
                text = format!("{text}[{}]", key.join(","));
            }
            None => {}
        }
    }
    text
}

/// The entries of the other managers after this apply, and the fields that nobody wants any more.
fn settle(live: &Value, fields: &FieldSet, taken: &FieldSet, operation: &Operation<'_>) -> (Vec<Value>, FieldSet) {
    let mut entries = Vec::new();
    let mut dropped = FieldSet::new();
    for entry in live.list("/metadata/managedFields") {
        let theirs = fields::from_tree(&entry["fieldsV1"]);
        if operation.is_of(entry) {
            dropped.extend(theirs.difference(fields).cloned());
        } else {
            fields::push_rest(&mut entries, entry.clone(), &theirs, taken);
        }
    }
    for entry in &entries {
        for path in fields::from_tree(&entry["fieldsV1"]) {
            dropped.remove(&path);
        }
    }
    (entries, dropped)
}
