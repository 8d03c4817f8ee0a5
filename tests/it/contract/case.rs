//! What a case works with.

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt};
use http::{Method, Request};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{DynamicObject, PostParams, WatchEvent, WatchParams};
use kube::core::{ApiResource, GroupVersionKind, Status};
use kube::{Api, Client, Resource};
use kubectl_aicr::fake::{Cluster, User};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::bed::Bed;
use crate::support::kubeconfig;
use crate::support::wait::{PATIENCE, until};

/// A version from before any test, which none needs.
const EARLY: u64 = 20;

/// One server, and a namespace of the case's own on it.
pub(super) struct Case {
    server: Server,
    pub(super) client: Client,
    pub(super) namespace: String,
}

enum Server {
    Fake(Cluster),
    Real(&'static Bed),
}

/// A user and what it can be called in a review.
pub(super) struct Someone {
    pub(super) name: String,
    pub(super) client: Client,
}

impl Case {
    pub(super) async fn in_memory() -> Self {
        let cluster = Cluster::new();
        cluster.enforce_rbac(true);
        let client = cluster.client();
        let namespaces = Api::<Namespace>::all(client.clone());
        let namespace = object(json!({ "metadata": { "name": "contract" } }));
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        Self { server: Server::Fake(cluster), client, namespace: "contract".to_owned() }
    }

    pub(super) async fn on_kube_apiserver() -> Self {
        let bed = Bed::shared().await;
        let namespace = bed.namespace("contract").await.name;
        let client = client_of(bed, bed.admin()).await;
        Self { server: Server::Real(bed), client, namespace }
    }

    /// A user with some rights in the case's namespace.
    pub(super) async fn user(&self, rules: &[PolicyRule]) -> Someone {
        self.user_with(Some(&self.namespace), rules).await
    }

    /// A user with some rights everywhere.
    pub(super) async fn cluster_user(&self, rules: &[PolicyRule]) -> Someone {
        self.user_with(None, rules).await
    }

    async fn user_with(&self, namespace: Option<&str>, rules: &[PolicyRule]) -> Someone {
        let name = format!("user-{:016x}", getrandom::u64().unwrap());
        let client = match &self.server {
            Server::Fake(cluster) => cluster.client_as(&User::new(&name, &[])),
            Server::Real(bed) => client_of(bed, &bed.user(&name, &[])).await,
        };
        crate::support::rbac::grant(&self.client, &name, namespace, rules).await;
        Someone { name, client }
    }

    /// The API of a kind in the case's namespace.
    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(super) fn config_maps(&self) -> Api<ConfigMap> {
        self.api()
    }

    /// The API of any kind in the case's namespace, for objects that its type would not let one write.
    pub(super) fn dynamic(&self, group: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    /// Creates a `ConfigMap` with one label `n` and one key `n`.
    pub(super) async fn config_map(&self, name: &str, n: &str) -> ConfigMap {
        let map = object(json!({ "metadata": { "name": name, "labels": { "n": n } }, "data": { "n": n } }));
        self.config_maps().create(&PostParams::default(), &map).await.unwrap()
    }

    /// Sends any request; the answer is a JSON document or a refusal.
    pub(super) async fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Result<Value, Box<Status>> {
        let path = path.replace("NAMESPACE", &self.namespace);
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let answer = self.client.request(request.body(body).unwrap()).await;
        answer.map_err(|error| match error {
            kube::Error::Api(status) => status,
            other => panic!("no answer of the API: {other}"),
        })
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value, Box<Status>> {
        self.request(Method::GET, path, &[], &Value::Null).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, Box<Status>> {
        self.request(Method::POST, path, &[("content-type", "application/json")], body).await
    }

    /// A request with a bearer token in the place of the case's own user.
    pub(super) async fn get_with_token(&self, token: &str, path: &str) -> Result<Value, Box<Status>> {
        let Server::Real(bed) = &self.server else {
            let header = format!("Bearer {token}");
            return self.request(Method::GET, path, &[("authorization", &header)], &Value::Null).await;
        };
        // The client's own certificate would win.
        let client = client_of(bed, &kubeconfig::User::with_token("someone", token)).await;
        let case = Self { server: Server::Real(bed), client, namespace: self.namespace.clone() };
        case.request(Method::GET, path, &[], &Value::Null).await
    }

    /// Makes the server forget its first versions, as it does by itself after some minutes.
    pub(super) async fn forget_history(&self) {
        match &self.server {
            Server::Fake(cluster) => cluster.compact(),
            Server::Real(bed) => bed.compact(EARLY).await,
        }
    }

    /// Whether controllers work beside the server, which then writes more than the case does.
    pub(super) fn has_controllers(&self) -> bool {
        matches!(self.server, Server::Real(_))
    }

    /// One more namespace of the case.
    pub(super) async fn another_namespace(&self) -> String {
        if let Server::Real(bed) = &self.server {
            return bed.namespace("contract").await.name;
        }
        let namespace = object(json!({ "metadata": { "generateName": "another-" } }));
        let namespaces = Api::<Namespace>::all(self.client.clone());
        namespaces.create(&PostParams::default(), &namespace).await.unwrap().metadata.name.unwrap()
    }

    pub(super) async fn service_account_exists(&self, name: &str) {
        let accounts = self.api::<ServiceAccount>();
        until("a ServiceAccount", async || accounts.get_opt(name).await.unwrap()).await;
    }

    /// Waits until the garbage collector knows what was created until now.
    pub(super) async fn collector_has_caught_up(&self) {
        let gone = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "never", "uid": "never" });
        let probe = object(json!({ "metadata": { "name": "probe", "ownerReferences": [gone] } }));
        self.config_maps().create(&PostParams::default(), &probe).await.unwrap();
        self.config_map_goes("probe").await;
    }

    /// Waits until a `ConfigMap` is gone.
    pub(super) async fn config_map_goes(&self, name: &str) {
        let maps = self.config_maps();
        until("a ConfigMap to go", async || maps.get_opt(name).await.unwrap().is_none().then_some(())).await;
    }
}

/// A client that shows every answer as it is.
async fn client_of(bed: &Bed, user: &kubeconfig::User) -> Client {
    kubeconfig::literal_client(&bed.kubeconfig(user, None)).await
}

/// An object of a type, from JSON.
pub(super) fn object<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

pub(super) fn rule(group: &str, resource: &str, verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    }
}

/// The refusal of a call that must be refused.
#[track_caller]
pub(super) fn refusal<T: Debug>(result: kube::Result<T>) -> Box<Status> {
    match result {
        Err(kube::Error::Api(status)) => status,
        other => panic!("not a refusal: {other:?}"),
    }
}

/// Code, reason, and the fields that the causes name.
#[track_caller]
pub(super) fn assert_refused(status: &Status, code: u16, reason: &str) {
    assert_eq!((status.code, status.reason.as_str()), (code, reason), "{}", status.message);
}

/// A refusal with 422 whose causes are about these fields, for these reasons.
#[track_caller]
pub(super) fn assert_invalid(status: &Status, causes: &[(&str, &str)]) {
    assert_refused(status, 422, "Invalid");
    let found: Vec<(&str, &str)> =
        status.details.iter().flat_map(|d| &d.causes).map(|c| (c.field.as_str(), c.reason.as_str())).collect();
    assert_eq!(found, causes, "{}", status.message);
}

/// Name, group and kind of a refusal's details.
#[track_caller]
pub(super) fn assert_about(status: &Status, name: &str, group: &str, kind: &str) {
    let details = status.details.as_ref().unwrap();
    assert_eq!((details.name.as_str(), details.group.as_str(), details.kind.as_str()), (name, group, kind));
}

/// The events of a watch.
pub(super) struct Watch<K>(Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<K>>> + Send>>);

impl<K> Watch<K>
where
    K: Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + Debug + Send + 'static,
{
    pub(super) async fn of(api: &Api<K>, params: &WatchParams, version: &str) -> Self {
        Self(api.watch(params, version).await.unwrap().boxed())
    }

    /// The next event that is no bookmark, in short: `ADDED name`, or `ERROR code`.
    pub(super) async fn next(&mut self) -> Option<String> {
        let name = |object: &K| object.meta().name.clone().unwrap_or_default();
        loop {
            return Some(match self.event_or_end().await? {
                WatchEvent::Added(object) => format!("ADDED {}", name(&object)),
                WatchEvent::Modified(object) => format!("MODIFIED {}", name(&object)),
                WatchEvent::Deleted(object) => format!("DELETED {}", name(&object)),
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(status) => format!("ERROR {}", status.code),
            });
        }
    }

    /// Whether the watch comes to its end, and nothing before.
    pub(super) async fn ends_without_event(&mut self) -> bool {
        self.event_or_end().await.is_none()
    }

    /// The next event whole, bookmarks included.
    pub(super) async fn event(&mut self) -> WatchEvent<K> {
        self.event_or_end().await.expect("an event")
    }

    pub(super) async fn event_or_end(&mut self) -> Option<WatchEvent<K>> {
        timeout(PATIENCE, self.0.next()).await.expect("an event in time").transpose().unwrap()
    }

    /// Whether nothing comes for a moment.
    pub(super) async fn is_quiet(&mut self) -> bool {
        timeout(Duration::from_millis(300), self.0.next()).await.is_err()
    }
}
