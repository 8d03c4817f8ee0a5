//! Requests as hooks and tests see them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::Method;
use http::request::Parts;
use serde_json::Value;

use super::api::call::{Query, Target, Verb};
use super::api::object::Object as _;
use super::api::user::User;
use super::workers::COMPONENT;

/// A request that reached the API.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request {
    /// The HTTP method.
    pub method: Method,
    /// The path, without the query.
    pub path: String,
    /// The query, as it was sent.
    pub query: String,
    /// Who sent it.
    pub user: User,
    /// What is done; `None` for what is no resource, such as discovery.
    pub verb: Option<Verb>,
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural of the resource: `jobs`. Empty for what is no resource.
    pub resource: String,
    /// Such as `status` or `log`.
    pub subresource: String,
    /// Empty for cluster-scoped kinds and lists over all namespaces.
    pub namespace: String,
    /// Empty for lists, watches and creates that leave the name to the server.
    pub name: String,
    /// The body, as it was sent.
    pub body: Bytes,
    /// The HTTP status of the answer, `None` until there is one or if it was dropped.
    pub status: Option<u16>,
}

impl Request {
    /// Whether this does that to objects of that resource, such as a create of `jobs`.
    #[must_use]
    pub fn is(&self, verb: Verb, resource: &str) -> bool {
        self.verb == Some(verb) && self.resource == resource && self.subresource.is_empty()
    }

    pub(super) fn new(head: &Parts, target: Option<&Target>, user: User, body: Bytes) -> Self {
        let query = head.uri.query().unwrap_or_default();
        let text = |text: fn(&Target) -> &str| target.map(text).unwrap_or_default().to_owned();
        let mut name = text(|target| &target.name);
        let watches = Query::parse(query).is_true("watch");
        let verb = target.and_then(|_| Verb::of(&head.method, !name.is_empty(), watches).ok());
        if name.is_empty() && verb == Some(Verb::Create) {
            let object: Value = serde_json::from_slice(&body).unwrap_or_default();
            object.meta("name").clone_into(&mut name);
        }
        Self {
            method: head.method.clone(),
            path: head.uri.path().to_owned(),
            query: query.to_owned(),
            user,
            verb,
            group: text(|target| target.kind.group),
            resource: text(|target| target.kind.plural),
            subresource: text(|target| target.subresource.map_or("", |subresource| subresource.as_str())),
            namespace: text(|target| &target.namespace),
            name,
            body,
            status: None,
        }
    }
}

/// Requests that are remembered at most, so that a cluster can be left running.
const KEPT: usize = 10_000;

/// The requests, in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct Log(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    requests: VecDeque<Request>,
    /// The number of the first of them.
    first: usize,
}

impl Log {
    /// Writes a request down and gives its number.
    pub(super) fn push(&self, request: Request) -> usize {
        let mut kept = self.kept();
        if kept.requests.len() == KEPT {
            kept.requests.pop_front();
            kept.first += 1;
        }
        kept.requests.push_back(request);
        kept.first + kept.requests.len() - 1
    }

    pub(super) fn answered(&self, number: usize, status: u16) {
        let mut kept = self.kept();
        // It may have been forgotten since.
        let request = number.checked_sub(kept.first).and_then(|index| kept.requests.get_mut(index));
        if let Some(request) = request {
            request.status = Some(status);
        }
    }

    pub(super) fn all(&self) -> Vec<Request> {
        let kept = self.kept();
        kept.requests.iter().filter(|request| !request.user.name.starts_with(COMPONENT)).cloned().collect()
    }

    pub(super) fn clear(&self) {
        let mut kept = self.kept();
        kept.first += kept.requests.len();
        kept.requests.clear();
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
