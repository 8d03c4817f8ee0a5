//! Bodies of requests.

use serde_json::{Map, Value};

use super::call::Call;
use super::kind::Kind;
use super::object::as_map;
use super::refusal::{Refusal, bad_request, unsupported_body};

/// Fields that are maps of strings: an empty one is as good as none, other than an empty structure.
const MAPS: &[&str] = &["labels", "annotations", "data", "binaryData", "nodeSelector", "matchLabels"];

/// Lists that are shown even if they are empty.
const LISTS: &[&str] = &["rules", "resourceRules", "nonResourceRules"];

/// The body as JSON. YAML is understood as well, protobuf is not.
pub(crate) fn parse(call: &Call) -> Result<Value, Refusal> {
    let json = match serde_json::from_slice(&call.body) {
        Ok(json) => return Ok(json),
        Err(error) => error,
    };
    let text = std::str::from_utf8(&call.body).unwrap_or_default();
    if call.content_type.ends_with("yaml")
        && let Ok(yaml) = serde_saphyr::from_str(text)
    {
        return Ok(yaml);
    }
    if call.content_type.ends_with("protobuf") {
        return Err(unsupported_body(&call.content_type));
    }
    Err(bad_request(&format!("couldn't get version/kind; json parse error: {json}")))
}

/// The object of a body, in its kind's shape.
pub(crate) fn object(call: &Call) -> Result<Value, Refusal> {
    shaped(call, parse(call)?)
}

/// Brings an object into its kind's shape: another kind and wrong types are refused, unknown fields dropped or, if the
/// call asks for that, refused.
pub(crate) fn shaped(call: &Call, mut object: Value) -> Result<Value, Refusal> {
    let kind = call.target.kind;
    if !object.is_object() {
        return Err(bad_request("json: cannot unmarshal into Go value of type map[string]interface {}"));
    }
    let map = as_map(&mut object);
    for (field, wanted, what) in
        [("apiVersion", kind.api_version(), "API version"), ("kind", kind.name.to_owned(), "kind")]
    {
        match map.get(field).and_then(Value::as_str).unwrap_or_default() {
            "" => map.insert(field.to_owned(), wanted.into()),
            given if given == wanted => None,
            given => {
                let message = format!("the {what} in the data ({given}) does not match the expected {what} ({wanted})");
                return Err(bad_request(&message));
            }
        };
    }
    map.entry("metadata").or_insert_with(|| Map::new().into());
    let given = object.clone();
    let mut object = (kind.decode)(object).map_err(|error| unfit(kind, &error.to_string()))?;
    if call.query.get("fieldValidation") == "Strict" {
        let mut unknown = Vec::new();
        find_unknown(&given, &object, "", &mut unknown);
        if !unknown.is_empty() {
            return Err(unfit(kind, &format!("strict decoding error: {}", unknown.join(", "))));
        }
    }
    drop_empty(&mut object);
    // A type without the field would have dropped it.
    as_map(as_map(&mut object).entry("metadata").or_insert(Value::Null));
    Ok(object)
}

fn unfit(kind: &Kind, why: &str) -> Refusal {
    let name = kind.name;
    bad_request(&format!("{name} in version \"{}\" cannot be handled as a {name}: {why}", kind.version))
}

/// Finds the fields of a given object that its kind does not have.
fn find_unknown(given: &Value, known: &Value, at: &str, unknown: &mut Vec<String>) {
    match given {
        Value::Object(map) => {
            for (field, value) in map.iter().filter(|(_, value)| !value.is_null()) {
                let at = if at.is_empty() { field.clone() } else { format!("{at}.{field}") };
                match known.get(field) {
                    Some(known) => find_unknown(value, known, &at, unknown),
                    None => unknown.push(format!("unknown field {at:?}")),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                find_unknown(item, &known[index], &format!("{at}[{index}]"), unknown);
            }
        }
        _ => {}
    }
}

/// Drops what the server's types leave out: nulls, empty lists and empty maps of strings.
fn drop_empty(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(drop_empty);
            map.retain(|key, value| match value {
                Value::Null => false,
                Value::Array(list) => !list.is_empty() || LISTS.contains(&key.as_str()),
                Value::Object(inner) => !inner.is_empty() || !MAPS.contains(&key.as_str()),
                _ => true,
            });
        }
        Value::Array(list) => list.iter_mut().for_each(drop_empty),
        _ => {}
    }
}
