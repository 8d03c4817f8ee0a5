//! The API itself: objects in, objects and refusals out. It knows neither HTTP nor time.

mod admit;
mod apply;
mod body;
pub(crate) mod call;
mod collect;
mod create;
mod delete;
pub(crate) mod discovery;
mod fields;
mod json_patch;
pub(crate) mod kind;
pub(crate) mod kinds;
mod list;
mod names;
pub(crate) mod object;
mod patch;
mod pod;
pub(crate) mod rbac;
pub(crate) mod refusal;
mod review;
mod selector;
mod store;
mod strategic;
mod table;
mod update;
pub(crate) mod user;
pub(crate) mod view;
pub(crate) mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use call::{Call, Target, Verb};
use kind::{Serves, Subresource};
use refusal::{Refusal, method_not_allowed, not_found};
use store::{Key, Store};
use user::User;

/// The objects of a cluster and what watches over them.
#[derive(Debug)]
pub(crate) struct Api {
    store: Store,
    /// Up to which change the garbage collector and its kin have looked.
    settled: u64,
    /// `ServiceAccount` tokens that were given out.
    tokens: BTreeMap<String, User>,
}

/// What a request is answered with.
#[derive(Debug)]
pub(crate) enum Answer {
    /// An object or a list, with its HTTP status.
    Object(u16, Value),
    /// A stream of changes.
    Watch(Box<watch::Watching>),
    /// The log of a container; empty if its pod has no node.
    Log(Option<pod::LogRequest>),
}

impl Api {
    pub(crate) fn new() -> Self {
        let store = Store::default();
        let mut api = Self { settled: store.revision(), store, tokens: BTreeMap::new() };
        api.bootstrap();
        api
    }

    /// Answers a request. What follows from it (garbage collection and the like) has happened when this returns.
    pub(crate) fn handle(&mut self, call: &Call) -> Result<Answer, Refusal> {
        let answer = self.dispatch(call);
        self.settle();
        answer
    }

    fn dispatch(&mut self, call: &Call) -> Result<Answer, Refusal> {
        let object = |code, object| Ok(Answer::Object(code, object));
        match (call.verb, call.target.kind.serves, call.target.subresource) {
            (Verb::Create, Serves::Reviews, _) => object(201, self.review(call)?),
            (_, Serves::Reviews, _) => Err(method_not_allowed()),
            (Verb::Get, _, Some(Subresource::Log)) => self.log(call).map(Answer::Log),
            (Verb::Get, _, None | Some(Subresource::Status)) => object(200, Value::clone(self.find(&call.target)?)),
            (Verb::List, _, None) => object(200, self.list(call)?),
            (Verb::Watch, _, None) => self.watch(call).map(|watching| Answer::Watch(Box::new(watching))),
            (Verb::Create, _, None) => object(201, self.create(call)?),
            (Verb::Create, _, Some(Subresource::Binding)) => object(201, self.bind(call)?),
            (Verb::Create, _, Some(Subresource::Token)) => object(201, self.issue_token(call)?),
            (Verb::Update, _, None | Some(Subresource::Status | Subresource::Finalize)) => {
                object(200, self.update(call)?)
            }
            (Verb::Patch, _, None | Some(Subresource::Status)) => {
                let (code, patched) = self.patch(call)?;
                object(code, patched)
            }
            (Verb::Delete, _, None) => object(200, self.delete(call)?),
            (Verb::DeleteCollection, _, None) => object(200, self.delete_collection(call)?),
            _ => Err(method_not_allowed()),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Forgets the changes until now: older watches are lost.
    pub(crate) fn compact(&mut self) {
        self.store.compact();
        self.settled = self.store.revision();
    }

    /// Whose token this is.
    pub(crate) fn user_of_token(&self, token: &str) -> Option<&User> {
        self.tokens.get(token)
    }

    fn find(&self, target: &Target) -> Result<&Arc<Value>, Refusal> {
        self.store.get(&key(target)).ok_or_else(|| not_found(target.kind, &target.name))
    }
}

fn key(target: &Target) -> Key {
    Key { resource: target.kind.resource(), namespace: target.namespace.clone(), name: target.name.clone() }
}
