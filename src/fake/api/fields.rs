//! Who manages which field: `metadata.managedFields`.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::kind::Kind;
use super::object::{Object as _, as_map, map_in, now};
use super::strategic::merge_key;

/// Metadata that nobody manages.
const UNMANAGED: &[&str] = &[
    "name",
    "namespace",
    "generateName",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "selfLink",
    "managedFields",
];

/// The way to a field: `f:NAME` for a field, `k:{…}` for the item of a list with that key, as the API writes them.
pub(super) type Path = Vec<String>;

/// Fields, each the end of a path.
pub(super) type FieldSet = BTreeSet<Path>;

/// A write by a manager.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation<'a> {
    pub(super) manager: &'a str,
    pub(super) name: &'static str,
    pub(super) subresource: &'a str,
}

impl<'a> Operation<'a> {
    pub(super) fn update(manager: &'a str, subresource: &'a str) -> Self {
        Self { manager, name: "Update", subresource }
    }

    pub(super) fn apply(manager: &'a str) -> Self {
        Self { manager, name: "Apply", subresource: "" }
    }

    pub(super) fn is_of(&self, entry: &Value) -> bool {
        entry["manager"] == self.manager
            && entry["operation"] == self.name
            && entry.text("/subresource") == self.subresource
    }

    /// An entry of managed fields.
    pub(super) fn entry(&self, kind: &Kind, fields: &FieldSet) -> Value {
        let mut entry = json!({
            "manager": self.manager,
            "operation": self.name,
            "apiVersion": kind.api_version(),
            "time": now(),
            "fieldsType": "FieldsV1",
            "fieldsV1": to_tree(fields),
        });
        if !self.subresource.is_empty() {
            entry["subresource"] = self.subresource.into();
        }
        entry
    }
}

/// The leaves of an object that can be managed.
pub(super) fn leaves(object: &Value) -> FieldSet {
    let mut set = FieldSet::new();
    for (name, value) in object.as_object().into_iter().flatten() {
        match name.as_str() {
            "apiVersion" | "kind" => {}
            "metadata" => {
                let managed = |(name, _): &(&String, &Value)| !UNMANAGED.contains(&name.as_str());
                for (name, value) in value.as_object().into_iter().flatten().filter(managed) {
                    collect(&mut vec!["f:metadata".to_owned(), format!("f:{name}")], name, value, &mut set);
                }
            }
            _ => collect(&mut vec![format!("f:{name}")], name, value, &mut set),
        }
    }
    set
}

fn collect(path: &mut Path, name: &str, value: &Value, set: &mut FieldSet) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (field, value) in map {
                path.push(format!("f:{field}"));
                collect(path, field, value, set);
                path.pop();
            }
        }
        Value::Array(items) if !items.is_empty() && merge_key(name).is_some_and(|key| items[0].get(key).is_some()) => {
            for item in items {
                path.push(item_step(name, item));
                for (field, value) in item.as_object().into_iter().flatten() {
                    path.push(format!("f:{field}"));
                    collect(path, field, value, set);
                    path.pop();
                }
                path.pop();
            }
        }
        _ => {
            set.insert(path.clone());
        }
    }
}

fn item_step(list: &str, item: &Value) -> String {
    let key = merge_key(list).unwrap_or_default();
    format!("k:{}", json!({ key: item[key] }))
}

/// The value at a path.
pub(super) fn at<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, step| match step.split_once(':')? {
        ("f", field) => value.get(field),
        (_, key) => {
            let key: Map<String, Value> = serde_json::from_str(key).ok()?;
            value.as_array()?.iter().find(|item| key.iter().all(|(name, wanted)| item.get(name) == Some(wanted)))
        }
    })
}

/// Removes what is at a path, and the maps and items that are empty without it.
pub(super) fn remove(object: &mut Value, path: &[String]) {
    let Some((first, rest)) = path.split_first() else { return };
    match (first.split_once(':'), object) {
        (Some(("f", field)), Value::Object(map)) => {
            if rest.is_empty() {
                map.remove(field);
            } else if let Some(inner) = map.get_mut(field) {
                remove(inner, rest);
                if is_empty(inner) {
                    map.remove(field);
                }
            }
        }
        (Some((_, key)), Value::Array(items)) => {
            let key: Map<String, Value> = serde_json::from_str(key).unwrap_or_default();
            let is_it = |item: &Value| key.iter().all(|(name, wanted)| item.get(name) == Some(wanted));
            for item in items.iter_mut().filter(|item| is_it(item)) {
                remove(item, rest);
            }
            items.retain(|item| !is_empty(item));
        }
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

/// Keeps the account of an update: what it changed is the manager's now, and nobody else's.
pub(super) fn track(kind: &Kind, old: Option<&Value>, new: &mut Value, operation: &Operation<'_>) {
    let entries = old.map(|old| old.list("/metadata/managedFields").to_vec()).unwrap_or_default();
    let had = old.map(leaves).unwrap_or_default();
    let has = leaves(new);
    let changed: FieldSet =
        has.iter().filter(|path| old.and_then(|old| at(old, path)) != at(new, path)).cloned().collect();
    let lost: FieldSet = had.difference(&has).chain(&changed).cloned().collect();
    let mut kept = Vec::new();
    let mut own = changed;
    for entry in entries {
        let fields = from_tree(&entry["fieldsV1"]);
        if operation.is_of(&entry) {
            own.extend(fields.into_iter().filter(|path| has.contains(path)));
        } else {
            push_rest(&mut kept, entry, &fields, &lost);
        }
    }
    if !own.is_empty() {
        kept.push(operation.entry(kind, &own));
    }
    set_entries(new, kept);
}

/// Keeps an entry with the fields that it did not lose, if any.
pub(super) fn push_rest(entries: &mut Vec<Value>, mut entry: Value, fields: &FieldSet, lost: &FieldSet) {
    let rest: FieldSet = fields.difference(lost).cloned().collect();
    if rest.len() < fields.len() {
        entry["fieldsV1"] = to_tree(&rest);
    }
    if !rest.is_empty() {
        entries.push(entry);
    }
}

pub(super) fn set_entries(object: &mut Value, entries: Vec<Value>) {
    if entries.is_empty() {
        object.remove_meta("managedFields");
    } else {
        object.set_meta("managedFields", entries);
    }
}

/// The object as far as it tells a write from none: times of entries do not count.
pub(super) fn without_times(object: &Value) -> Value {
    let mut object = object.clone();
    let entries = object.metadata_mut().get_mut("managedFields").and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten() {
        as_map(entry).remove("time");
    }
    object
}

fn to_tree(fields: &FieldSet) -> Value {
    let mut tree = Map::new();
    for path in fields {
        path.iter().fold(&mut tree, |map, step| map_in(map, step));
    }
    tree.into()
}

pub(super) fn from_tree(tree: &Value) -> FieldSet {
    fn walk(path: &mut Path, tree: &Value, set: &mut FieldSet) {
        let Some(map) = tree.as_object().filter(|map| !map.is_empty()) else {
            set.insert(path.clone());
            return;
        };
        for (step, inner) in map.iter().filter(|(step, _)| *step != ".") {
            path.push(step.clone());
            walk(path, inner, set);
            path.pop();
        }
    }
    let mut set = FieldSet::new();
    if tree.as_object().is_some_and(|map| !map.is_empty()) {
        walk(&mut Vec::new(), tree, &mut set);
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_fields_survives_its_way_through_the_api() {
        let object = json!({
            "metadata": { "name": "x", "labels": { "a.io/b": "c" } },
            "data": { "one": "1" },
            "spec": { "containers": [{ "name": "c", "image": "i", "args": ["x"] }], "rules": [] },
        });
        let fields = leaves(&object);
        assert_eq!(from_tree(&to_tree(&fields)), fields);
        assert!(fields.iter().all(|path| at(&object, path).is_some()));
        assert!(fields.contains(&vec!["f:metadata".to_owned(), "f:labels".to_owned(), "f:a.io/b".to_owned()]));
        assert_eq!(fields.len(), 6);
    }

    #[test]
    fn removing_the_last_field_removes_its_parents() {
        let mut object = json!({ "data": { "a": "1" }, "spec": { "containers": [{ "name": "c" }] } });
        let fields = leaves(&object);
        for path in &fields {
            remove(&mut object, path);
        }
        assert_eq!(object, json!({}));
    }
}
