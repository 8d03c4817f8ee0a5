//! The way of a request: who sends it, what hooks make of it, what the API answers.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{HeaderMap, Request as HttpRequest, Response, header};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::time::sleep;
use tower::Service;

use super::api::call::{Call, Target};
use super::api::refusal::{Refusal, bad_request, status};
use super::api::user::User;
use super::api::view::View;
use super::api::{Answer, discovery};
use super::cluster::Inner;
use super::hook::{Fault, Hook, Point};
use super::request::Request;
use super::respond::{self, Body};

/// There is no answer, by the will of a hook.
#[derive(Debug, thiserror::Error)]
#[error("the connection broke: a hook dropped the answer")]
pub(super) struct Dropped;

impl From<Infallible> for Dropped {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// The API as a service, for one user.
#[derive(Clone, Debug)]
pub(super) struct ApiService {
    cluster: Arc<Inner>,
    user: User,
}

impl ApiService {
    pub(super) fn new(cluster: Arc<Inner>, user: User) -> Self {
        Self { cluster, user }
    }
}

impl<B> Service<HttpRequest<B>> for ApiService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Display + Send,
{
    type Response = Response<Body>;
    type Error = Dropped;
    type Future = BoxFuture<'static, Result<Response<Body>, Dropped>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Dropped>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<B>) -> Self::Future {
        let Self { cluster, user } = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            match body.collect().await {
                Ok(body) => answer(cluster, user, head, body.to_bytes()).await,
                Err(error) => Ok(respond::refused(&bad_request(&error.to_string()))),
            }
        })
    }
}

/// What comes of a request on its way.
enum Outcome {
    Shown(Response<Body>),
    Object(u16, Value),
}

async fn answer(cluster: Arc<Inner>, user: User, head: Parts, mut body: Bytes) -> Result<Response<Body>, Dropped> {
    let user = match authenticate(&cluster, user, &head.headers) {
        Ok(user) => user,
        Err(refusal) => return Ok(respond::refused(&refusal)),
    };
    let target = Target::parse(head.uri.path());
    let known = target.as_ref().and_then(|target| target.as_ref().ok());
    let request = Request::new(&head, known, user.clone(), body.clone());
    let number = cluster.log.push(request.clone());
    for hook in cluster.hooks.of(Point::Before, &request) {
        let mut object = serde_json::from_slice(&body).unwrap_or_default();
        if let Some(refused) = suffer(&hook, &mut object).await? {
            cluster.log.answered(number, refused.status().as_u16());
            return Ok(refused);
        }
        if matches!(hook.fault(), Fault::Change(_)) {
            body = object.to_string().into();
        }
    }
    let view = View::accepted(header_text(&head.headers, header::ACCEPT));
    let kind = known.map(|target| target.kind);
    let mut outcome = match carry_out(&cluster, user, &head, target, body, view) {
        Ok(outcome) => outcome,
        Err(refusal) => Outcome::Shown(respond::refused(&refusal)),
    };
    for hook in cluster.hooks.of(Point::After, &request) {
        let mut object = match &outcome {
            Outcome::Object(_, object) => object.clone(),
            Outcome::Shown(_) => Value::Null,
        };
        if let Some(refused) = suffer(&hook, &mut object).await? {
            outcome = Outcome::Shown(refused);
        } else if let Outcome::Object(code, _) = outcome {
            outcome = Outcome::Object(code, object);
        }
    }
    let response = match (outcome, kind) {
        (Outcome::Shown(response), _) => response,
        (Outcome::Object(code, object), Some(kind)) => respond::object(code, view, &view.show(kind, object)),
        (Outcome::Object(code, object), None) => respond::object(code, View::Whole, &object),
    };
    cluster.log.answered(number, response.status().as_u16());
    Ok(response)
}

/// Lets a hook act on a body or an answer.
async fn suffer(hook: &Hook, object: &mut Value) -> Result<Option<Response<Body>>, Dropped> {
    hook.note_arrival();
    match hook.fault() {
        Fault::Fail(refusal) => return Ok(Some(respond::refused(refusal))),
        Fault::Drop => return Err(Dropped),
        Fault::Delay(time) => sleep(*time).await,
        Fault::Hold => hook.released().await,
        Fault::Change(change) => change(object),
    }
    Ok(None)
}

fn carry_out(
    cluster: &Arc<Inner>,
    user: User,
    head: &Parts,
    target: Option<Result<Target, Refusal>>,
    body: Bytes,
    view: View,
) -> Result<Outcome, Refusal> {
    let Some(target) = target else {
        return elsewhere(cluster, &user, head).map(Outcome::Shown);
    };
    let call = Call::new(head, target?, user, body)?;
    let mut api = cluster.api();
    if cluster.enforces_rbac() {
        api.authorize_call(&call)?;
    }
    match api.handle(&call)? {
        Answer::Object(code, object) => Ok(Outcome::Object(code, object)),
        Answer::Watch(watching) => {
            drop(api);
            Ok(Outcome::Shown(respond::watching(Arc::clone(cluster), *watching, view)))
        }
        Answer::Log(None) => Ok(Outcome::Shown(respond::text(200, ""))),
        Answer::Log(Some(asked)) => {
            let lines = cluster.logs.read(&asked.namespace, &asked.pod, &asked.container, asked.query.text());
            Ok(Outcome::Shown(respond::log(lines.map_err(|why| bad_request(&why))?)))
        }
    }
}

/// Discovery, health and what else is no resource.
fn elsewhere(cluster: &Inner, user: &User, head: &Parts) -> Result<Response<Body>, Refusal> {
    let path = head.uri.path();
    if cluster.enforces_rbac() {
        cluster.api().authorize_path(user, &head.method.as_str().to_lowercase(), path)?;
    }
    let accept = header_text(&head.headers, header::ACCEPT);
    let aggregated = accept.contains("as=APIGroupDiscoveryList");
    Ok(match path {
        "/healthz" | "/livez" | "/readyz" => respond::text(200, "ok"),
        _ => match discovery::answer(path, aggregated) {
            Some(list) if list["kind"] == "APIGroupDiscoveryList" => respond::json_response(
                200,
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
                &list,
            ),
            Some(document) => respond::document(&document),
            None => respond::text(404, "404 page not found\n"),
        },
    })
}

/// Who sends a request: whose token it carries, or whom the service is for; then whom that one impersonates.
fn authenticate(cluster: &Inner, user: User, headers: &HeaderMap) -> Result<User, Refusal> {
    let user = match header_text(headers, header::AUTHORIZATION).strip_prefix("Bearer ") {
        None => user,
        Some(token) => match cluster.api().user_of_token(token) {
            Some(user) => user.clone(),
            None => return Err(status(401, "Unauthorized", "Unauthorized")),
        },
    };
    let Some(name) = headers.get("impersonate-user").and_then(|name| name.to_str().ok()) else { return Ok(user) };
    let groups: Vec<&str> =
        headers.get_all("impersonate-group").iter().filter_map(|group| group.to_str().ok()).collect();
    if cluster.enforces_rbac() {
        cluster.api().authorize_impersonation(&user, name, &groups)?;
    }
    Ok(User::new(name, &groups))
}

fn header_text(headers: &HeaderMap, name: header::HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
