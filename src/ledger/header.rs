//! The first line of a ledger: whose it is and of which cluster.

use std::io;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::agent::object::ObjectRef;
use crate::agent::run_id::{InvocationId, RunId};
use crate::ledger::{ClusterId, line};

/// Version of the format that this program writes, and the newest that it reads.
const SCHEMA_VERSION: u32 = 1;

/// Whose ledger it is, and where the run's Job and document are to be found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Header {
    pub(crate) run_id: RunId,
    #[serde(deserialize_with = "recorded")]
    pub(crate) invocation_id: InvocationId,
    pub(crate) cluster: ClusterId,
    pub(crate) namespace: String,
    pub(crate) job: ObjectRef,
    /// The `ConfigMap` that the agent writes, if the run owns it.
    pub(crate) staging: Option<ObjectRef>,
    pub(crate) started_at: Timestamp,
    pub(crate) pid: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Versioned<T> {
    /// Tells a ledger from other JSON.
    kind: String,
    schema_version: u32,
    #[serde(flatten)]
    header: T,
}

const KIND: &str = "kubectl-aicr-ledger";

impl Header {
    pub(super) fn line(&self) -> io::Result<Vec<u8>> {
        line(&Versioned { kind: KIND.to_owned(), schema_version: SCHEMA_VERSION, header: self })
    }

    /// Reads a file's first line, or says what is wrong with it.
    pub(super) fn parse(line: &[u8]) -> Result<Self, String> {
        // The version first: a newer header may hold what this program does not know.
        let version: Versioned<serde::de::IgnoredAny> = match serde_json::from_slice(line) {
            Ok(version) => version,
            Err(_) => return Err("it is not a ledger".to_owned()),
        };
        if version.kind != KIND {
            return Err("it is not a ledger".to_owned());
        }
        if version.schema_version > SCHEMA_VERSION {
            return Err(format!("it was written by a newer kubectl-aicr (schema version {})", version.schema_version));
        }
        let parsed: Result<Versioned<Self>, _> = serde_json::from_slice(line);
        parsed.map(|versioned| versioned.header).map_err(|error| format!("its header cannot be read: {error}"))
    }
}

fn recorded<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<InvocationId, D::Error> {
    String::deserialize(deserializer).map(InvocationId::recorded)
}
