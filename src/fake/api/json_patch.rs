//! JSON Patch (RFC 6902).

use serde_json::Value;

use super::refusal::{Refusal, bad_request, status};

/// Applies the operations in order, all or none.
pub(super) fn apply(target: &mut Value, patch: &Value) -> Result<(), Refusal> {
    let operations = patch.as_array().ok_or_else(|| bad_request("a JSON patch must be an array of operations"))?;
    operations.iter().try_for_each(|operation| apply_one(target, operation))
}

fn apply_one(target: &mut Value, operation: &Value) -> Result<(), Refusal> {
    let text = |field: &str| operation[field].as_str().unwrap_or_default();
    let value = || operation.get("value").cloned().unwrap_or_default();
    let path = text("path");
    match text("op") {
        "add" => add(target, path, value()),
        "remove" => remove(target, path).map(drop),
        "replace" => {
            remove(target, path)?;
            add(target, path, value())
        }
        "test" if target.pointer(path) == Some(&value()) => Ok(()),
        "test" => Err(unprocessable(&format!("testing value {path} failed: test failed"))),
        "copy" => {
            let copied = target.pointer(text("from")).cloned().ok_or_else(|| missing("copy", text("from")))?;
            add(target, path, copied)
        }
        "move" => {
            let moved = remove(target, text("from"))?;
            add(target, path, moved)
        }
        other => Err(bad_request(&format!("Unexpected kind: {other}"))),
    }
}

fn add(target: &mut Value, path: &str, value: Value) -> Result<(), Refusal> {
    let Some((parent, last)) = split(path) else {
        *target = value;
        return Ok(());
    };
    match target.pointer_mut(parent) {
        Some(Value::Object(map)) => {
            map.insert(last, value);
            Ok(())
        }
        Some(Value::Array(items)) => {
            let index = if last == "-" { Some(items.len()) } else { last.parse().ok() };
            match index.filter(|index| *index <= items.len()) {
                Some(index) => {
                    items.insert(index, value);
                    Ok(())
                }
                None => Err(missing("add", path)),
            }
        }
        _ => Err(missing("add", path)),
    }
}

fn remove(target: &mut Value, path: &str) -> Result<Value, Refusal> {
    let (parent, last) = split(path).ok_or_else(|| missing("remove", path))?;
    let removed = match target.pointer_mut(parent) {
        Some(Value::Object(map)) => map.remove(&last),
        Some(Value::Array(items)) => {
            last.parse().ok().filter(|index| *index < items.len()).map(|index: usize| items.remove(index))
        }
        _ => None,
    };
    removed.ok_or_else(|| missing("remove", path))
}

/// The parent's pointer and the last step, unescaped.
fn split(path: &str) -> Option<(&str, String)> {
    let (parent, last) = path.rsplit_once('/')?;
    Some((parent, last.replace("~1", "/").replace("~0", "~")))
}

fn missing(operation: &str, path: &str) -> Refusal {
    unprocessable(&format!("{operation} operation does not apply: doc is missing path: {path:?}: missing value"))
}

fn unprocessable(why: &str) -> Refusal {
    let message = format!("the server rejected our request due to an error in our request: {why}");
    status(422, kube::core::response::reason::INVALID, &message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_operation_does_its_work() {
        let mut target = json!({"a": {"b": [1, 2]}, "x/y": 1});
        let patch = json!([
            {"op": "test", "path": "/a/b/0", "value": 1},
            {"op": "add", "path": "/a/b/-", "value": 3},
            {"op": "remove", "path": "/a/b/0"},
            {"op": "replace", "path": "/x~1y", "value": 2},
            {"op": "copy", "from": "/x~1y", "path": "/c"},
            {"op": "move", "from": "/c", "path": "/d"},
        ]);
        apply(&mut target, &patch).unwrap();
        assert_eq!(target, json!({"a": {"b": [2, 3]}, "x/y": 2, "d": 2}));
    }

    #[test]
    fn what_does_not_apply_is_refused() {
        for (operation, code) in [
            (json!({"op": "test", "path": "/a", "value": 2}), 422),
            (json!({"op": "remove", "path": "/b"}), 422),
            (json!({"op": "add", "path": "/b/c", "value": 1}), 422),
            (json!({"op": "what"}), 400),
        ] {
            assert_eq!(apply(&mut json!({"a": 1}), &json!([operation])).unwrap_err().code, code, "{operation}");
        }
    }
}
