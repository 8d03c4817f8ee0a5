//! Label and field selectors.

use serde_json::Value;

use super::kind::Kind;
use super::object::Object as _;
use super::refusal::{Refusal, bad_request};
use crate::agent::names;

/// What of a resource is asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<Field>,
}

/// One requirement on labels.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
}

/// One requirement on a field.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    path: String,
    value: String,
    equal: bool,
}

impl Selector {
    pub(crate) fn parse(kind: &Kind, labels: &str, fields: &str) -> Result<Self, Refusal> {
        let labels = parse_labels(labels).map_err(|why| {
            let message = format!("unable to parse requirement: {why}");
            bad_request(&message)
        })?;
        Ok(Self { labels, fields: parse_fields(kind, fields)? })
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels");
        let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
        let fits = |requirement: &Requirement| match (&requirement.test, label(&requirement.key)) {
            (Test::In(values), Some(value)) => values.iter().any(|wanted| wanted == value),
            (Test::NotIn(values), Some(value)) => values.iter().all(|wanted| wanted != value),
            (Test::Exists, label) => label.is_some(),
            (Test::Absent, label) => label.is_none(),
            (Test::In(_), None) => false,
            (Test::NotIn(_), None) => true,
        };
        self.labels.iter().all(fits)
            && self.fields.iter().all(|field| (field_value(object, &field.path) == field.value) == field.equal)
    }

    /// The one name that the fields ask for, if they do.
    pub(crate) fn name(&self) -> Option<&str> {
        let named = self.fields.iter().find(|field| field.path == "metadata.name" && field.equal);
        named.map(|field| field.value.as_str())
    }
}

fn parse_labels(text: &str) -> Result<Vec<Requirement>, String> {
    split_outside_parentheses(text).into_iter().map(parse_requirement).collect()
}

/// The parts between commas that do not stand in parentheses.
fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    let outside = move |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    if text.trim().is_empty() { Vec::new() } else { text.split(outside).map(str::trim).collect() }
}

fn parse_requirement(text: &str) -> Result<Requirement, String> {
    let requirement = |key: &str, test| {
        let key = key.trim().to_owned();
        match names::check_label_key(&key) {
            Ok(()) => Ok(Requirement { key, test }),
            Err(rule) => Err(format!("key: Invalid value: {text:?}: {rule}")),
        }
    };
    let one = |value: &str| -> Result<Vec<String>, String> { Ok(vec![label_value(value)?]) };
    if let Some(key) = text.strip_prefix('!') {
        return requirement(key, Test::Absent);
    }
    if let Some((key, value)) = text.split_once("!=") {
        return requirement(key, Test::NotIn(one(value)?));
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return requirement(key, Test::In(one(value)?));
    }
    match text.split_once(char::is_whitespace) {
        None => requirement(text, Test::Exists),
        Some((key, rest)) => {
            let rest = rest.trim();
            let (operator, values) = rest.split_at(rest.find('(').unwrap_or(rest.len()));
            let values = values.strip_prefix('(').and_then(|values| values.strip_suffix(')'));
            let values = values.ok_or_else(|| format!("found '{rest}', expected: in, notin, =, ==, !=, gt, lt"))?;
            let values = values.split(',').map(label_value).collect::<Result<Vec<_>, _>>()?;
            match operator.trim() {
                "in" => requirement(key, Test::In(values)),
                "notin" => requirement(key, Test::NotIn(values)),
                other => Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")),
            }
        }
    }
}

fn label_value(text: &str) -> Result<String, String> {
    let value = text.trim();
    match names::check_label_value(value) {
        Ok(()) => Ok(value.to_owned()),
        Err(rule) => Err(format!("values[0][]: Invalid value: {value:?}: {rule}")),
    }
}

fn parse_fields(kind: &Kind, text: &str) -> Result<Vec<Field>, Refusal> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| parse_field(kind, part)).collect()
}

fn parse_field(kind: &Kind, part: &str) -> Result<Field, Refusal> {
    let (path, value, equal) = if let Some((path, value)) = part.split_once("!=") {
        (path, value, false)
    } else if let Some((path, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        (path, value, true)
    } else {
        return Err(bad_request(&format!("invalid selector: '{part}'; can't understand '{part}'")));
    };
    let namespaced = kind.namespaced && path == "metadata.namespace";
    if path != "metadata.name" && !namespaced && !kind.fields.contains(&path) {
        let message = if kind.fields.is_empty() {
            format!("\"{path}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        } else {
            format!("field label not supported: {path}")
        };
        return Err(bad_request(&message));
    }
    Ok(Field { path: path.to_owned(), value: value.to_owned(), equal })
}

/// The text that field selectors compare.
fn field_value(object: &Value, path: &str) -> String {
    // The one field that is two.
    if path == "source" && object.get("source").is_some() {
        let component = object.text("/source/component");
        return if component.is_empty() { object.text("/reportingComponent") } else { component }.to_owned();
    }
    match object.pointer(&format!("/{}", path.replace('.', "/"))) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(flag)) => flag.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        _ if FLAGS.contains(&path) => "false".to_owned(),
        _ if path == "status.successful" => {
            object.pointer("/status/succeeded").map_or("0".to_owned(), Value::to_string)
        }
        _ => String::new(),
    }
}

/// Fields that are `false` when they are absent.
const FLAGS: &[&str] = &["spec.hostNetwork", "spec.unschedulable"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::kinds::{CONFIG_MAP, POD};
    use super::*;

    fn selects(labels: &str, object: &Value) -> bool {
        Selector::parse(&CONFIG_MAP, labels, "").unwrap().matches(object)
    }

    #[test]
    fn label_selectors_compare_as_the_server_does() {
        let object = json!({"metadata": {"labels": {"app": "x", "x.io/tier": "front"}}});
        for yes in [
            "",
            "app",
            "app=x",
            "app==x",
            "app!=y",
            "!other",
            "app in (x, y)",
            "x.io/tier notin (back)",
            "other!=x",
            "app in (x),x.io/tier=front",
            "other notin (a)",
        ] {
            assert!(selects(yes, &object), "{yes}");
        }
        for no in ["!app", "app=y", "app!=x", "other", "other=x", "app notin (x,y)", "app,other"] {
            assert!(!selects(no, &object), "{no}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for bad in ["a b", "app in x", "app in (x", "app=a b", "=x", "app=x,,b"] {
            assert_eq!(Selector::parse(&CONFIG_MAP, bad, "").unwrap_err().code, 400, "{bad}");
        }
        for bad in ["data.x=1", "metadata.name", "status.phase=Running"] {
            assert_eq!(Selector::parse(&CONFIG_MAP, "", bad).unwrap_err().code, 400, "{bad}");
        }
    }

    #[test]
    fn fields_of_pods_are_compared_as_text() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
        for (fields, matches) in [
            ("spec.nodeName=n,status.phase=Running", true),
            ("spec.nodeName!=", true),
            ("spec.hostNetwork=false", true),
            ("metadata.name=q", false),
        ] {
            assert_eq!(Selector::parse(&POD, "", fields).unwrap().matches(&pod), matches, "{fields}");
        }
    }
}
