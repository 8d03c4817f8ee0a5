//! Tables as `kubectl get` shows them.

pub(crate) mod columns;

use serde_json::{Value, json};

use super::kind::Kind;
use super::view;

/// One column: what it is called, how important it is (0 is always shown), and what stands in it.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) priority: u8,
    pub(crate) cell: fn(&Value) -> Value,
}

pub(crate) use columns::{AGE, NAME};

/// The table of some objects.
pub(super) fn of(kind: &Kind, objects: &[Value], metadata: &Value) -> Value {
    let definitions: Vec<Value> = kind
        .columns
        .iter()
        .map(|column| {
            let format = if column.name == "Name" { "name" } else { "" };
            json!({
                "name": column.name, "type": "string", "format": format, "description": "",
                "priority": column.priority,
            })
        })
        .collect();
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let cells: Vec<Value> = kind.columns.iter().map(|column| (column.cell)(object)).collect();
            json!({ "cells": cells, "object": view::metadata(object) })
        })
        .collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": rows,
    })
}
