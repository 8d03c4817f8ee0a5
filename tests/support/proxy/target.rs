//! What a request is about, read from its path.

use http::Method;
use serde_json::Value;

use super::log::Entry;

/// Verb, group, namespace, resource and name; empty where the path has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) verb: &'static str,
    pub(crate) group: String,
    pub(crate) namespace: String,
    pub(crate) resource: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
}

impl Target {
    pub(super) fn of(request: &Entry) -> Self {
        let parts: Vec<&str> = request.path.split('/').filter(|p| !p.is_empty()).collect();
        let (group, rest) = match parts.as_slice() {
            ["api", _version, rest @ ..] => ("", rest),
            ["apis", group, _version, rest @ ..] => (*group, rest),
            _ => return Self::default(),
        };
        let (namespace, rest) = match rest {
            // `namespaces/x` alone is the Namespace itself.
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let at = |index: usize| rest.get(index).copied().unwrap_or_default().to_owned();
        let mut name = at(1);
        if name.is_empty() && request.method == Method::POST {
            name = name_in(&request.body);
        }
        Self {
            verb: verb(request, at(1).is_empty()),
            group: group.to_owned(),
            namespace: namespace.to_owned(),
            resource: at(0),
            name,
            subresource: at(2),
        }
    }

    /// `jobs.batch`; the core group has no suffix.
    pub(super) fn qualified_resource(&self) -> String {
        if self.group.is_empty() { self.resource.clone() } else { format!("{}.{}", self.resource, self.group) }
    }

    /// The action as RBAC's refusals word it.
    pub(super) fn action(&self) -> String {
        let scope = if self.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {:?}", self.namespace)
        };
        format!("{} resource {:?} in API group {:?} {scope}", self.verb, self.resource, self.group)
    }
}

fn verb(request: &Entry, collection: bool) -> &'static str {
    match (request.method.as_str(), collection) {
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", false) => "delete",
        ("DELETE", true) => "deletecollection",
        (_, true) if request.query.contains("watch=") => "watch",
        (_, true) => "list",
        (_, false) => "get",
    }
}

fn name_in(body: &[u8]) -> String {
    let object: Value = serde_json::from_slice(body).unwrap_or_default();
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}
