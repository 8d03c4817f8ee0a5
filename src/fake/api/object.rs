//! Objects as JSON, and the parts of them that every kind has.

use jiff::Timestamp;
use serde_json::{Map, Value};

/// Letters of generated names: no vowels, so that none becomes a word.
const SUFFIX_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Length of the generated part of a name.
const SUFFIX_LENGTH: usize = 5;

/// Longest base of a generated name.
const LONGEST_BASE: usize = 58;

/// Reading and writing an object's metadata.
pub(crate) trait Object {
    /// A string of `metadata`, empty if it is not there.
    fn meta(&self, field: &str) -> &str;
    fn set_meta(&mut self, field: &str, value: impl Into<Value>);
    fn remove_meta(&mut self, field: &str);
    fn metadata_mut(&mut self) -> &mut Map<String, Value>;
    /// The strings of a list of `metadata`.
    fn meta_list(&self, field: &str) -> Vec<&str>;
    /// A string anywhere, empty if it is not there.
    fn text(&self, pointer: &str) -> &str;
    /// A list anywhere.
    fn list(&self, pointer: &str) -> &[Value];
    /// Whether a delete was accepted and not finished.
    fn is_terminating(&self) -> bool;
}

impl Object for Value {
    fn meta(&self, field: &str) -> &str {
        self.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or_default()
    }

    fn set_meta(&mut self, field: &str, value: impl Into<Value>) {
        self.metadata_mut().insert(field.to_owned(), value.into());
    }

    fn remove_meta(&mut self, field: &str) {
        self.metadata_mut().remove(field);
    }

    fn metadata_mut(&mut self) -> &mut Map<String, Value> {
        map_in(as_map(self), "metadata")
    }

    fn meta_list(&self, field: &str) -> Vec<&str> {
        let list = self.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    fn text(&self, pointer: &str) -> &str {
        self.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    fn list(&self, pointer: &str) -> &[Value] {
        self.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn is_terminating(&self) -> bool {
        !self.meta("deletionTimestamp").is_empty()
    }
}

/// The value as a map; anything else is replaced by an empty one.
pub(crate) fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it was just made a map"),
    }
}

/// The map at a key, made if need be.
pub(crate) fn map_in<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    as_map(map.entry(key).or_insert(Value::Null))
}

/// Sets a field unless it has a value.
pub(crate) fn default_to(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    let slot = map.entry(key).or_insert(Value::Null);
    if slot.is_null() {
        *slot = value.into();
    }
}

/// Now, as the API writes it.
pub(crate) fn now() -> String {
    format!("{:.0}", Timestamp::now())
}

/// A new UID.
pub(crate) fn new_uid() -> String {
    let bits = random();
    let hex = format!("{bits:032x}");
    // Version 4, variant 1.
    format!("{}-{}-4{}-a{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
}

/// A name that starts with `base`.
pub(crate) fn generated_name(base: &str) -> String {
    let mut bits = random();
    let base: String = base.chars().take(LONGEST_BASE).collect();
    let letters = u128::try_from(SUFFIX_LETTERS.len()).unwrap_or(1);
    let suffix = (0..SUFFIX_LENGTH).map(|_| {
        let letter = usize::try_from(bits % letters).unwrap_or_default();
        bits /= letters;
        char::from(SUFFIX_LETTERS[letter])
    });
    base + &suffix.collect::<String>()
}

fn random() -> u128 {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u128::from_be_bytes(bytes),
        Err(error) => unreachable!("the system has no random numbers: {error}"),
    }
}
