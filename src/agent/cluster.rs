//! Calls to the API server: each bounded, reads and UID-pinned deletes repeated where that is safe, creates never.

use std::future::Future;
use std::time::Duration;

use kube::api::{
    DeleteParams, DynamicObject, GetParams, ListParams, PartialObjectMeta, PostParams, Preconditions,
    PropagationPolicy, Request,
};
use kube::core::ListMeta;
use kube::{Api, Client};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};

use crate::agent::answer;
use crate::agent::created_set::Uid;
use crate::agent::manifests::Manifest;
use crate::agent::object::{Kind, ObjectRef};
use crate::error::{ApiError, Failure};

/// First pause before a call is repeated; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Longest pause before a call is repeated.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The longest that one attempt of a repeated call may take: a request that hangs must leave time for another.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(10);

/// The longest that the API server lets a create wait, whatever the client asks for (its own default).
const LONGEST_SERVER_TIMEOUT: Duration = Duration::from_mins(1);

/// The one way of this crate to the API server.
#[derive(Clone)]
pub(crate) struct Cluster {
    client: Client,
    request_timeout: Duration,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("request_timeout", &self.request_timeout).finish_non_exhaustive()
    }
}

/// What the server said to a delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deletion {
    /// The object is gone by this delete.
    Deleted,
    /// The delete was accepted; finalizers hold the object.
    Terminating,
    /// No object with that UID stands there.
    Gone,
}

impl Cluster {
    pub(crate) fn new(client: Client, request_timeout: Duration) -> Self {
        Self { client, request_timeout }
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// The longest that a single call may take.
    pub(crate) fn request_timeout(&self) -> Duration {
        self.request_timeout
    }

    /// Creates an object, once: a repeated create would meet its own first attempt and report it as someone else's.
    /// The server is told to give up in time, so that a lost create cannot commit much later (R31).
    /// RBAC: `create` on the kind.
    pub(crate) async fn create(&self, manifest: &Manifest) -> Result<PartialObjectMeta<DynamicObject>, ApiError> {
        let action = format!("create {}", manifest.object);
        let request = self.create_request(manifest, false).map_err(|error| ApiError::new(&action, error))?;
        self.bounded(&action, answer::object(&self.client, request)).await
    }

    /// Asks what the server would say to a create. Nothing is written, so this may be repeated.
    /// RBAC: `create` on the kind.
    pub(crate) async fn dry_run(
        &self,
        manifest: &Manifest,
        deadline: Instant,
    ) -> Result<PartialObjectMeta<DynamicObject>, ApiError> {
        let action = format!("try to create {}", manifest.object);
        let send = async || answer::object(&self.client, self.create_request(manifest, true)?).await;
        self.repeated(&action, deadline, send).await
    }

    fn create_request(&self, manifest: &Manifest, dry_run: bool) -> Result<http::Request<Vec<u8>>, kube::Error> {
        let object = &manifest.object;
        let url = url(object.kind, object.namespace.as_deref());
        let parameters = PostParams { dry_run, field_manager: Some(FIELD_MANAGER.to_owned()) };
        let body = serde_json::to_vec(&manifest.body).map_err(kube::Error::SerdeError)?;
        let mut request = Request::new(url).create(&parameters, body).map_err(kube::Error::BuildRequest)?;
        let seconds = self.request_timeout.min(LONGEST_SERVER_TIMEOUT).as_secs().max(1);
        let uri = format!("{}&timeout={seconds}s", request.uri());
        *request.uri_mut() = uri.parse().map_err(|error| kube::Error::HttpError(http::Error::from(error)))?;
        Ok(request)
    }

    /// Metadata of an object, `None` if it does not exist. RBAC: `get` on the kind.
    pub(crate) async fn metadata(
        &self,
        object: &ObjectRef,
        deadline: Instant,
    ) -> Result<Option<PartialObjectMeta<DynamicObject>>, ApiError> {
        let api = self.api(object.kind, object.namespace.as_deref());
        if_found(self.repeated(&format!("read {object}"), deadline, || api.get_metadata(&object.name)).await)
    }

    /// A whole object, `None` if it does not exist. RBAC: `get` on the kind.
    pub(crate) async fn get<K>(&self, object: &ObjectRef, deadline: Instant) -> Result<Option<K>, ApiError>
    where
        K: DeserializeOwned,
    {
        let Some(body) = self.get_raw(object, deadline).await? else { return Ok(None) };
        let read = serde_json::from_slice(&body).map_err(kube::Error::SerdeError);
        read.map(Some).map_err(|error| ApiError::new(format!("read {object}"), error))
    }

    /// A whole object as the server sends it, `None` if it does not exist. RBAC: `get` on the kind.
    pub(crate) async fn get_raw(&self, object: &ObjectRef, deadline: Instant) -> Result<Option<Vec<u8>>, ApiError> {
        let path = url(object.kind, object.namespace.as_deref());
        let send = || async {
            let request = Request::new(path.clone()).get(&object.name, &GetParams::default());
            answer::body(&self.client, request.map_err(kube::Error::BuildRequest)?).await
        };
        if_found(self.repeated(&format!("read {object}"), deadline, send).await)
    }

    /// One page of a list: each object, as it comes, goes to `take`. RBAC: `list` on the kind.
    pub(crate) async fn page(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        parameters: &ListParams,
        whole: bool,
        take: impl FnMut(&[u8]) -> Result<(), serde_json::Error>,
    ) -> Result<ListMeta, kube::Error> {
        /// Every list has metadata; without it, something else answered, and says nothing of what there is.
        #[derive(Deserialize)]
        struct Page {
            metadata: ListMeta,
        }
        let request = Request::new(url(kind, namespace));
        let request = if whole { request.list(parameters) } else { request.list_metadata(parameters) };
        let page: Page = answer::list(&self.client, request.map_err(kube::Error::BuildRequest)?, take).await?;
        Ok(page.metadata)
    }

    /// Deletes the object that has this UID, and no other. Repeating it is safe: the UID pins it.
    /// RBAC: `delete` on the kind; `get` settles a `Conflict`.
    pub(crate) async fn delete(&self, object: &ObjectRef, uid: &Uid, deadline: Instant) -> Result<Deletion, ApiError> {
        let api = self.api(object.kind, object.namespace.as_deref());
        let propagation = match object.kind {
            // Its pods go with it, and before it.
            Kind::Job => PropagationPolicy::Foreground,
            _ => PropagationPolicy::Background,
        };
        let parameters = DeleteParams {
            propagation_policy: Some(propagation),
            preconditions: Some(Preconditions { uid: Some(uid.as_str().to_owned()), resource_version: None }),
            ..DeleteParams::default()
        };
        let action = format!("delete {object}");
        let answer = self.repeated(&action, deadline, || api.delete(&object.name, &parameters)).await;
        let conflict = match answer {
            // Some kinds, as ServiceAccounts, answer with the object as it was before it went.
            Ok(either::Either::Left(last)) if last.metadata.deletion_timestamp.is_none() => {
                return Ok(Deletion::Deleted);
            }
            Ok(either::Either::Left(_)) => return Ok(Deletion::Terminating),
            Ok(either::Either::Right(_)) => return Ok(Deletion::Deleted),
            Err(error) if error.is_not_found() => return Ok(Deletion::Gone),
            Err(error) if error.has_code(409) => error,
            Err(error) => return Err(error),
        };
        // A webhook answers 409 as well: only absence or another UID means that ours is gone (R30).
        match self.metadata(object, deadline).await? {
            Some(live) if live.metadata.uid.as_deref() == Some(uid.as_str()) => Err(conflict),
            Some(_) | None => Ok(Deletion::Gone),
        }
    }

    pub(crate) fn api(&self, kind: Kind, namespace: Option<&str>) -> Api<DynamicObject> {
        let resource = kind.api_resource();
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// One call, bounded.
    pub(crate) async fn bounded<T>(
        &self,
        action: &str,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, ApiError> {
        bounded(action, self.request_timeout, call).await
    }

    /// A call that may be made more than once: repeated with growing pauses while its failure may pass, until the
    /// deadline.
    pub(crate) async fn repeated<T, F>(
        &self,
        action: &str,
        deadline: Instant,
        call: impl Fn() -> F,
    ) -> Result<T, ApiError>
    where
        F: Future<Output = Result<T, kube::Error>>,
    {
        let mut pause = Pause::default();
        let bound = self.request_timeout.min(LONGEST_ATTEMPT);
        loop {
            let error = match bounded(action, bound, call()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let wait = pause.after(&error);
            if !may_pass(&error) || Instant::now() + wait >= deadline {
                return Err(error);
            }
            tracing::debug!(%error, ?wait, "call failed, repeating it");
            sleep(wait).await;
        }
    }
}

/// `None` for what the API server says is not there.
pub(crate) fn if_found<T>(answer: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

async fn bounded<T>(
    action: &str,
    bound: Duration,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ApiError> {
    match timeout(bound, call).await {
        Ok(answer) => answer.map_err(|error| ApiError::new(action, error)),
        Err(_) => Err(ApiError { action: action.to_owned(), failure: Failure::NoAnswer(bound) }),
    }
}

/// The pause before a call is repeated, doubled each time.
#[derive(Debug)]
pub(crate) struct Pause(Duration);

impl Default for Pause {
    fn default() -> Self {
        Self(FIRST_PAUSE)
    }
}

impl Pause {
    /// The next pause.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(LONGEST_PAUSE);
        pause
    }

    /// The next pause, at least as long as the server asked for.
    pub(crate) fn after(&mut self, error: &ApiError) -> Duration {
        let seconds = error.status().and_then(|status| status.details.as_ref()).map_or(0, |d| d.retry_after_seconds);
        self.next().max(Duration::from_secs(seconds.into()).min(LONGEST_PAUSE))
    }
}

/// Field manager of what the plugin writes.
pub(crate) const FIELD_MANAGER: &str = "kubectl-aicr";

fn url(kind: Kind, namespace: Option<&str>) -> String {
    let root = if kind.group().is_empty() { "/api/v1".to_owned() } else { format!("/apis/{}/v1", kind.group()) };
    match namespace {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{}", kind.plural()),
        None => format!("{root}/{}", kind.plural()),
    }
}

/// Whether the same call may succeed a moment later.
pub(crate) fn may_pass(error: &ApiError) -> bool {
    match &error.failure {
        Failure::Status(status) => matches!(status.code, 429 | 500 | 502 | 503 | 504),
        Failure::NoAnswer(_) => true,
        Failure::Transport(source) => {
            !matches!(source.as_ref(), kube::Error::Auth(_) | kube::Error::SerdeError(_) | kube::Error::BuildRequest(_))
        }
    }
}
