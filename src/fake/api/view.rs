//! How an answer is shown: whole, as metadata alone, or as a table.

use serde_json::{Value, json};

use super::kind::Kind;
use super::object::Object as _;
use super::table;

/// What a client takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Whole,
    Metadata,
    Table,
}

impl View {
    /// The first of the accepted forms that is served.
    pub(crate) fn accepted(accept: &str) -> Self {
        for form in accept.split(',') {
            if form.contains("as=Table") {
                return Self::Table;
            }
            if form.contains("as=PartialObjectMetadata") {
                return Self::Metadata;
            }
            if form.trim().starts_with("application/json") || form.trim().starts_with("*/*") {
                return Self::Whole;
            }
        }
        Self::Whole
    }

    /// An object or list of a kind in this form. What is neither (a `Status`) stays as it is.
    pub(crate) fn show(self, kind: &Kind, object: Value) -> Value {
        let is_list = object["kind"] == kind.list_kind().as_str();
        if !is_list && object["kind"] != kind.name {
            return object;
        }
        match self {
            Self::Whole => object,
            Self::Metadata if is_list => {
                let items: Vec<Value> = object.list("/items").iter().map(metadata).collect();
                json!({
                    "kind": "PartialObjectMetadataList",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": object["metadata"],
                    "items": items,
                })
            }
            Self::Metadata => metadata(&object),
            Self::Table if is_list => table::of(kind, object.list("/items"), &object["metadata"]),
            Self::Table => {
                let version = json!({ "resourceVersion": object.meta("resourceVersion") });
                table::of(kind, std::slice::from_ref(&object), &version)
            }
        }
    }

    /// An event of a watch in this form.
    pub(crate) fn show_event(self, kind: &Kind, mut event: Value) -> Value {
        event["object"] = self.show(kind, event["object"].take());
        event
    }
}

/// An object as metadata alone.
pub(super) fn metadata(object: &Value) -> Value {
    json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"] })
}
