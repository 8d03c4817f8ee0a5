//! Objects as text that `kubectl apply -f` reads.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Value, json};

/// One YAML document, ended by a line end.
pub(crate) fn yaml(object: &impl Serialize) -> String {
    let mut text = Vec::new();
    // Maps with string keys, strings and finite numbers: there is nothing in an object that YAML cannot say.
    let _ = write_yaml(object, &mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// As [`yaml`], as it comes.
pub(crate) fn write_yaml(object: &impl Serialize, mut out: &mut dyn Write) -> io::Result<()> {
    let options = serde_saphyr::ser_options! { compact_list_indent: true, prefer_block_scalars: false };
    serde_saphyr::to_io_writer_with_options(&mut out, object, options).map_err(|error| match error {
        serde_saphyr::ser::Error::IO { error } => error,
        other => io::Error::other(other),
    })
}

/// A `v1/List` as JSON, ended by a line end.
pub(crate) fn json_list<'a>(objects: impl IntoIterator<Item = &'a Value>) -> String {
    let items: Vec<&Value> = objects.into_iter().collect();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
    format!("{list:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_that_another_reader_could_take_for_something_else_are_quoted() {
        let texts = ["1e3", "0x1f", "on", "n", "null", "20260821", "012", "1_000", "", "*", "a: b", "2026-01-01"];
        let document = yaml(&json!({ "strings": texts }));
        for text in texts {
            assert!(document.contains(&format!("- \"{text}\"\n")), "{text}: {document}");
        }
    }

    #[test]
    fn objects_come_back_from_yaml_as_they_went_in() {
        let object = json!({
            "apiVersion": "v1",
            "kind": "Role",
            "metadata": { "name": "1e3", "labels": { "a/b.c": "true", "n": "" } },
            "rules": [{ "apiGroups": [""], "verbs": ["*"], "text": "x: y # z", "long": "word ".repeat(60) }],
            "empty": { "list": [], "map": {} },
            "lines": "one\ntwo\n",
            "number": 3,
        });
        assert_eq!(serde_saphyr::from_str::<Value>(&yaml(&object)).unwrap(), object);
        assert!(yaml(&object).starts_with("apiVersion: v1\n"));
    }
}
