//! What distinguishes one kind of object from another.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::kinds;
use super::refusal::Fault;
use super::table::Column;

/// A served kind.
#[derive(Debug)]
pub(crate) struct Kind {
    /// Empty for the core group.
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) name: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) short: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
    pub(crate) namespaced: bool,
    pub(crate) serves: Serves,
    pub(crate) subresources: &'static [Subresource],
    pub(crate) names: NameRule,
    /// Whether `metadata.generation` counts the changes of the spec.
    pub(crate) generation: bool,
    /// Brings an object into the kind's shape: unknown fields go, wrong types are errors.
    pub(crate) decode: fn(Value) -> Result<Value, serde_json::Error>,
    /// Sets what the server sets on a new object.
    pub(crate) prepare: fn(&mut Value),
    /// Sets what the server sets on every object that is written.
    pub(crate) default: fn(&mut Value),
    /// Finds what is wrong with an object; the second is what it replaces.
    pub(crate) check: fn(&Value, Option<&Value>) -> Vec<Fault>,
    /// Field selectors beside `metadata.name` and `metadata.namespace`.
    pub(crate) fields: &'static [&'static str],
    pub(crate) columns: &'static [Column],
}

/// What may be done with a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serves {
    /// Stored: all verbs.
    Objects,
    /// Answered at once and never stored.
    Reviews,
}

/// A part of an object with a path of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subresource {
    Status,
    /// A pod's log.
    Log,
    /// What a scheduler sends.
    Binding,
    /// A `ServiceAccount`'s tokens.
    Token,
    /// A Namespace's last step.
    Finalize,
}

/// What a kind's objects may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    Subdomain,
    Label,
    PathSegment,
}

impl Kind {
    /// Plural and group: `jobs.batch`.
    pub(crate) fn qualified(&self) -> String {
        qualify(self.plural, self.group)
    }

    /// Kind and group: `Job.batch`.
    pub(crate) fn qualified_kind(&self) -> String {
        qualify(self.name, self.group)
    }

    /// The resource's key in the store: unique as long as no two groups serve the same plural.
    pub(crate) fn resource(&self) -> &'static str {
        self.plural
    }

    /// `batch/v1`
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    pub(crate) fn list_kind(&self) -> String {
        format!("{}List", self.name)
    }

    pub(crate) fn has_status(&self) -> bool {
        self.subresources.contains(&Subresource::Status)
    }

    /// The kind with that plural, as it stands in paths.
    pub(crate) fn find(group: &str, version: &str, plural: &str) -> Option<&'static Self> {
        kinds::ALL.iter().copied().find(|kind| kind.group == group && kind.version == version && kind.plural == plural)
    }

    /// The kind of an object, as it stands in `apiVersion` and `kind`.
    pub(crate) fn of_object(api_version: &str, name: &str) -> Option<&'static Self> {
        kinds::ALL.iter().copied().find(|kind| kind.name == name && kind.api_version() == api_version)
    }
}

fn qualify(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

impl Subresource {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Log => "log",
            Self::Binding => "binding",
            Self::Token => "token",
            Self::Finalize => "finalize",
        }
    }
}

/// [`Kind::decode`] of a type.
pub(crate) fn decode<T: DeserializeOwned + Serialize>(object: Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(serde_json::from_value::<T>(object)?)
}
