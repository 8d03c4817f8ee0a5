//! The document as JSON: the same tree, nothing dropped, nothing reordered.

use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::error::Error;
use crate::snapshot::node::Node;

/// Re-encodes the agent's YAML as indented JSON.
///
/// # Errors
/// [`Error::Document`] if the document is not one YAML document or holds what JSON would lose.
pub(crate) fn encode(document: &[u8]) -> Result<Vec<u8>, Error> {
    let unreadable = |reason: String| Error::Document { format: "json", reason };
    let node = Node::parse(document).map_err(|error| unreadable(error.to_string()))?;
    let mut json = serde_json::to_vec_pretty(&node).map_err(|error| unreadable(error.to_string()))?;
    json.push(b'\n');
    Ok(json)
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            // Verbatim: a number type of Rust's would lose digits.
            Self::Number(text) => RawValue::from_string(text.clone()).map_err(S::Error::custom)?.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items),
            Self::Map(entries) => serializer.collect_map(entries.iter().map(|(key, value)| (key, value))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r26_json_keeps_order_keys_types_and_digits() {
        let yaml = "kind: Snapshot\napiVersion: aicr.run/v1alpha2\nz: 1\na:\n  \"\": empty\n  0: 18446744073709551616\n  \
                    a.b/c:d: '007'\n  f: 1.10\n  n: null\n  t: true\n  m: \"x\\ny\\u0007\"\n  e: []\n  o: {}\n";
        let expected = r#"{
  "kind": "Snapshot",
  "apiVersion": "aicr.run/v1alpha2",
  "z": 1,
  "a": {
    "": "empty",
    "0": 18446744073709551616,
    "a.b/c:d": "007",
    "f": 1.10,
    "n": null,
    "t": true,
    "m": "x\ny\u0007",
    "e": [],
    "o": {}
  }
}
"#;
        assert_eq!(String::from_utf8(encode(yaml.as_bytes()).unwrap()).unwrap(), expected);
    }

    #[test]
    fn r26_a_document_that_json_would_shorten_is_refused() {
        let error = encode(b"a: 1\na: 2\n").unwrap_err();
        assert_eq!(error.to_string(), "cannot show the snapshot as json: line 2: the key \"a\" stands there twice");
    }
}
