//! Strategic merge: like a merge patch, but lists of things with names are merged item by item.

use serde_json::{Map, Value};

/// The field that tells the items of a list apart, by the list's name. Any other list is replaced as a whole.
pub(super) fn merge_key(list: &str) -> Option<&'static str> {
    match list {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "env"
        | "volumes"
        | "imagePullSecrets"
        | "secrets" => Some("name"),
        "volumeMounts" => Some("mountPath"),
        "volumeDevices" => Some("devicePath"),
        "ports" => Some("containerPort"),
        "conditions" | "addresses" => Some("type"),
        "ownerReferences" => Some("uid"),
        "taints" => Some("key"),
        "hostAliases" | "podIPs" => Some("ip"),
        _ => None,
    }
}

/// Lists of plain values that are merged as sets.
const SETS: &[&str] = &["finalizers"];

/// Applies a strategic merge patch.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    match patch.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            let rest = patch.iter().filter(|(key, _)| !key.starts_with('$'));
            *target = Value::Object(rest.map(|(key, value)| (key.clone(), value.clone())).collect());
            return;
        }
        Some("delete") => {
            *target = Value::Null;
            return;
        }
        _ => {}
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(map) = target else { return };
    if let Some(retained) = patch.get("$retainKeys").and_then(Value::as_array) {
        map.retain(|key, _| retained.iter().any(|retained| retained == key));
    }
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix("$deleteFromPrimitiveList/") {
            if let Some(Value::Array(items)) = map.get_mut(list) {
                items.retain(|item| !value.as_array().is_some_and(|unwanted| unwanted.contains(item)));
            }
        } else if !key.starts_with('$') {
            merge_field(map, key, value, patch.get(&format!("$setElementOrder/{key}")));
        }
    }
    map.retain(|_, value| !value.is_null());
}

fn merge_field(map: &mut Map<String, Value>, key: &str, value: &Value, order: Option<&Value>) {
    if value.is_null() {
        map.remove(key);
        return;
    }
    let slot = map.entry(key).or_insert(Value::Null);
    match (value, merge_key(key)) {
        (Value::Object(_), _) => merge(slot, value),
        (Value::Array(items), Some(merge_key)) if items.iter().all(Value::is_object) => {
            let old = slot.as_array().cloned().unwrap_or_default();
            let merged = merge_list(old.clone(), items, merge_key);
            let order = order.and_then(Value::as_array).unwrap_or(items);
            *slot = in_order(merged, order, &old, Some(merge_key)).into();
        }
        (Value::Array(items), _) if SETS.contains(&key) => {
            let old = slot.as_array().cloned().unwrap_or_default();
            let mut merged = old.clone();
            merged.extend(items.iter().filter(|item| !old.contains(item)).cloned());
            let order = order.and_then(Value::as_array).unwrap_or(items);
            *slot = in_order(merged, order, &old, None).into();
        }
        _ => *slot = value.clone(),
    }
}

fn merge_list(old: Vec<Value>, items: &[Value], merge_key: &str) -> Vec<Value> {
    let replaces = items.iter().any(|item| item["$patch"] == "replace");
    let mut list = if replaces { Vec::new() } else { old };
    for item in items.iter().filter(|item| item["$patch"] != "replace") {
        let place = list.iter().position(|old| old.get(merge_key) == item.get(merge_key));
        match (item["$patch"].as_str(), place) {
            (Some("delete"), Some(place)) => {
                list.remove(place);
            }
            (Some("delete"), None) => {}
            (_, Some(place)) => merge(&mut list[place], item),
            (_, None) => {
                let mut new = Value::Null;
                merge(&mut new, item);
                list.push(new);
            }
        }
    }
    list
}

/// Items that the patch names come in its order. The others keep theirs, and come before one of those only where they
/// did on the server.
fn in_order(merged: Vec<Value>, order: &[Value], old: &[Value], merge_key: Option<&str>) -> Vec<Value> {
    let place = |item: &Value, list: &[Value]| {
        list.iter().position(|other| match merge_key {
            Some(key) => item.get(key) == other.get(key),
            None => item == other,
        })
    };
    let (mut named, others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| place(item, order).is_some());
    named.sort_by_key(|item| place(item, order));
    let mut list = Vec::new();
    let mut named = named.into_iter().peekable();
    for other in others {
        let before = |item: &Value| match (place(&other, old), place(item, old)) {
            (Some(other), Some(named)) => other < named,
            _ => false,
        };
        while let Some(item) = named.next_if(|item| !before(item)) {
            list.push(item);
        }
        list.push(other);
    }
    list.extend(named);
    list
}

/// Applies a merge patch (RFC 7386).
pub(super) fn merge_plain(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(map) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            map.remove(key);
        } else {
            merge_plain(map.entry(key).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(mut target: Value, patch: &Value) -> Value {
        merge(&mut target, patch);
        target
    }

    #[test]
    fn lists_of_named_things_are_merged_and_others_replaced() {
        let pod = json!({"containers": [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b"}]});
        let patch = json!({"containers": [{"name": "a", "args": ["y"]}, {"name": "c"}]});
        let wanted = json!({"containers": [{"name": "a", "image": "1", "args": ["y"]}, {"name": "c"}, {"name": "b"}]});
        assert_eq!(merged(pod, &patch), wanted);
    }

    #[test]
    fn directives_delete_replace_and_order() {
        let pod = json!({"containers": [{"name": "a"}, {"name": "b"}], "finalizers": ["x", "y"], "map": {"k": "v"}});
        let patch = json!({
            "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}],
            "containers": [{"name": "a", "$patch": "delete"}, {"name": "c"}],
            "$deleteFromPrimitiveList/finalizers": ["x"],
            "map": {"$patch": "replace", "n": "w"},
        });
        let wanted = json!({"containers": [{"name": "c"}, {"name": "b"}], "finalizers": ["y"], "map": {"n": "w"}});
        assert_eq!(merged(pod, &patch), wanted);
    }

    #[test]
    fn a_plain_merge_replaces_every_list() {
        let mut target = json!({"a": [{"name": "x"}], "b": {"c": 1, "d": 2}});
        merge_plain(&mut target, &json!({"a": [], "b": {"c": null}}));
        assert_eq!(target, json!({"a": [], "b": {"d": 2}}));
    }
}
