//! A request to the API, read from its method, path and query.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::request::Parts;
use percent_encoding::percent_decode_str;

use super::kind::{Kind, Subresource};
use super::refusal::{Refusal, bad_request, invalid_options, method_not_allowed, no_such_resource};
use super::user::User;

/// What is done, as RBAC names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads many.
    List,
    /// Follows the changes of many.
    Watch,
    /// Creates one.
    Create,
    /// Replaces one.
    Update,
    /// Changes one, or applies it.
    Patch,
    /// Deletes one.
    Delete,
    /// Deletes many.
    DeleteCollection,
}

impl Verb {
    /// The verb as it stands in RBAC rules.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    pub(crate) fn of(method: &Method, names_an_object: bool, watches: bool) -> Result<Self, Refusal> {
        Ok(match (method, names_an_object) {
            (&Method::GET, true) => Self::Get,
            (&Method::GET, false) if watches => Self::Watch,
            (&Method::GET, false) => Self::List,
            (&Method::POST, _) => Self::Create,
            (&Method::PUT, true) => Self::Update,
            (&Method::PATCH, true) => Self::Patch,
            (&Method::DELETE, true) => Self::Delete,
            (&Method::DELETE, false) => Self::DeleteCollection,
            _ => return Err(method_not_allowed()),
        })
    }
}

/// What a request is about.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) kind: &'static Kind,
    /// Empty for cluster-scoped kinds and for lists over all namespaces.
    pub(crate) namespace: String,
    /// Empty for collections.
    pub(crate) name: String,
    pub(crate) subresource: Option<Subresource>,
}

impl Target {
    /// The target of a path; `None` if it does not lead below an API group.
    pub(crate) fn parse(path: &str) -> Option<Result<Self, Refusal>> {
        let parts: Vec<String> = path
            .split('/')
            .filter(|part| !part.is_empty())
            .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
            .collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return None,
        };
        // `namespaces/x` and its own subresources are the Namespace itself.
        let (namespace, rest) = match rest {
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => ("", rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, "", None),
            [plural, name] => (*plural, *name, None),
            [plural, name, subresource] => (*plural, *name, Some(*subresource)),
            _ => return Some(Err(no_such_resource())),
        };
        Some(Self::new(group, version, plural, namespace, name, subresource).ok_or_else(no_such_resource))
    }

    fn new(
        group: &str,
        version: &str,
        plural: &str,
        namespace: &str,
        name: &str,
        subresource: Option<&str>,
    ) -> Option<Self> {
        let kind = Kind::find(group, version, plural)?;
        let subresource = match subresource {
            None => None,
            Some(text) => Some(*kind.subresources.iter().find(|subresource| subresource.as_str() == text)?),
        };
        let scoped = kind.namespaced || namespace.is_empty();
        let named_in_its_namespace = name.is_empty() || !kind.namespaced || !namespace.is_empty();
        (scoped && named_in_its_namespace).then(|| Self {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource,
        })
    }
}

/// The parameters of a query.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    pairs: Vec<(String, String)>,
    text: String,
}

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let decode = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        });
        Self { pairs: pairs.collect(), text: text.to_owned() }
    }

    /// The query as it was sent.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The value of a parameter, empty if it is not there.
    pub(crate) fn get(&self, key: &str) -> &str {
        self.pairs.iter().find(|(name, _)| name == key).map_or("", |(_, value)| value)
    }

    pub(crate) fn is_true(&self, key: &str) -> bool {
        matches!(self.get(key), "true" | "1")
    }

    pub(crate) fn number(&self, key: &str) -> Result<Option<u64>, Refusal> {
        match self.get(key) {
            "" => Ok(None),
            text => {
                let wrong = |_| bad_request(&format!("strconv.ParseUint: parsing {text:?}: invalid syntax"));
                text.parse().map(Some).map_err(wrong)
            }
        }
    }

    pub(crate) fn seconds(&self, key: &str) -> Result<Option<Duration>, Refusal> {
        Ok(self.number(key)?.map(Duration::from_secs))
    }

    pub(crate) fn dry_run(&self) -> Result<bool, Refusal> {
        match self.get("dryRun") {
            "" => Ok(false),
            "All" => Ok(true),
            other => {
                let what = format!("Unsupported value: {other:?}: supported values: \"All\"");
                Err(invalid_options("Options", "dryRun", &what))
            }
        }
    }
}

/// A request to one kind's API.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) verb: Verb,
    pub(crate) target: Target,
    pub(crate) query: Query,
    pub(crate) user: User,
    /// Who is said to manage the fields that are written, unless the query says.
    pub(crate) agent: String,
    pub(crate) content_type: String,
    pub(crate) body: Bytes,
}

impl Call {
    pub(crate) fn new(head: &Parts, target: Target, user: User, body: Bytes) -> Result<Self, Refusal> {
        let query = Query::parse(head.uri.query().unwrap_or_default());
        let verb = Verb::of(&head.method, !target.name.is_empty(), query.is_true("watch"))?;
        let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let agent = header(http::header::USER_AGENT).split('/').next().unwrap_or_default();
        let content_type = header(http::header::CONTENT_TYPE).split(';').next().unwrap_or_default();
        Ok(Self {
            verb,
            target,
            query,
            user,
            agent: if agent.is_empty() { "unknown".to_owned() } else { agent.to_owned() },
            content_type: content_type.trim().to_owned(),
            body,
        })
    }

    /// Who manages the fields that this call writes.
    pub(crate) fn manager(&self) -> &str {
        match self.query.get("fieldManager") {
            "" => &self.agent,
            manager => manager,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str) -> Target {
        Target::parse(path).unwrap().unwrap()
    }

    #[test]
    fn paths_lead_to_kinds_names_and_subresources() {
        let pod = target("/api/v1/namespaces/a/pods/p/log");
        assert_eq!((pod.kind.plural, &*pod.namespace, &*pod.name), ("pods", "a", "p"));
        assert_eq!(pod.subresource, Some(Subresource::Log));
        let namespace = target("/api/v1/namespaces/a");
        assert_eq!((namespace.kind.plural, &*namespace.namespace, &*namespace.name), ("namespaces", "", "a"));
        let all = target("/apis/batch/v1/jobs");
        assert_eq!((all.kind.plural, &*all.namespace, &*all.name), ("jobs", "", ""));
        let colon = target("/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode");
        assert_eq!(colon.name, "system:node");
    }

    #[test]
    fn paths_that_lead_nowhere_are_refused_or_left_to_others() {
        for nowhere in ["/apis/batch/v1/cronjobs", "/api/v1/pods/p", "/api/v1/namespaces/a/nodes", "/api/v1/nodes/n/x"]
        {
            assert_eq!(Target::parse(nowhere).unwrap().unwrap_err().code, 404, "{nowhere}");
        }
        for other in ["/api/v1", "/apis", "/version", "/"] {
            assert!(Target::parse(other).is_none(), "{other}");
        }
    }

    #[test]
    fn queries_are_decoded() {
        let query = Query::parse("labelSelector=a%3Db%2Cc&watch=1&limit=x&y=a+b");
        assert_eq!(query.get("labelSelector"), "a=b,c");
        assert!(query.is_true("watch"));
        assert_eq!(query.number("limit").unwrap_err().code, 400);
        assert_eq!((query.get("y"), query.get("absent")), ("a b", ""));
    }
}
