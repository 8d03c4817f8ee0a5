//! The test bed: a control plane, the double of its nodes, and its users.

use std::{
    ops::Deref,
    path::Path,
    sync::{Arc, LazyLock},
};

use futures::{FutureExt as _, StreamExt as _};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use k8s_openapi::api::{authentication::v1::TokenRequest, rbac::v1::PolicyRule};
use kube::Client;
use tokio::{
    runtime::Runtime,
    sync::{OnceCell, Semaphore, SemaphorePermit},
    task::JoinHandle,
};

use super::{
    control_plane::ControlPlane,
    https::{Body, Server, reply},
    kubeconfig::{self, Credential, User},
    namespace::TestNamespace,
    node::{self, Logs, NodeSpec, Nodes},
    pki::Authority,
    rbac,
    tokens::Tokens,
};

/// A Kubernetes cluster for tests.
///
/// Clients belong to the runtime on which they are made, and each test has its
/// own: take one per test.
pub(crate) struct Bed {
    nodes: Nodes,
    plane: ControlPlane,
    authority: Authority,
    tokens: Arc<Tokens>,
    _server: Server,
}

/// A bed that ends with this value.
pub(crate) struct Private {
    bed: Bed,
    _room: SemaphorePermit<'static>,
}

impl Deref for Private {
    type Target = Bed;

    fn deref(&self) -> &Bed {
        &self.bed
    }
}

/// The node that every bed has. It shows no GPU label (R25).
pub(crate) const NODE: &str = "worker-1";

impl Bed {
    /// The bed that the tests of a process share. It starts with the first call.
    pub(crate) async fn shared() -> &'static Self {
        static SHARED: OnceCell<Result<Bed, String>> = OnceCell::const_new();
        let bed = SHARED.get_or_init(|| async {
            let started = Self::start().await;
            started.map_err(|failed| match failed.into_panic().downcast::<String>() {
                Ok(message) => *message,
                Err(_) => "see above".into(),
            })
        });
        match bed.await {
            Ok(bed) => bed,
            Err(why) => panic!("the test bed did not start: {why}"),
        }
    }

    /// A bed of one's own, for tests that stop its API server or change what
    /// concerns the whole cluster. It takes some seconds, and memory: two at a
    /// time exist, so no test may hold two.
    pub(crate) async fn private() -> Private {
        static ROOM: Semaphore = Semaphore::const_new(2);
        let room = ROOM.acquire().await.expect("never closed");
        match Self::start().await {
            Ok(bed) => Private { bed, _room: room },
            Err(failed) => std::panic::resume_unwind(failed.into_panic()),
        }
    }

    /// Starts a bed on its own runtime. It blocks a thread there, because a
    /// build of the control plane does.
    fn start() -> JoinHandle<Self> {
        runtime().spawn_blocking(|| runtime().block_on(Self::assemble()))
    }

    async fn assemble() -> Self {
        let authority = Authority::new();
        let (tokens, logs) = (Arc::new(Tokens::default()), Arc::new(Logs::default()));
        let server = {
            let (tokens, logs) = (Arc::clone(&tokens), Arc::clone(&logs));
            Server::start(&authority, move |request| answer(Arc::clone(&tokens), Arc::clone(&logs), request)).await
        };
        let apiserver = User {
            name: "kube-apiserver".into(),
            credential: Credential::Certificate(authority.client("kube-apiserver", None)),
        };
        let url = format!("https://127.0.0.1:{}/tokenreview", server.port);
        let webhook = kubeconfig::kubeconfig(&url, authority.pem(), &apiserver, None);
        let plane = ControlPlane::start(&authority, &webhook).await;
        let kubeconfig = kubeconfig::kubeconfig(&plane.server, authority.pem(), &plane.admin, None);
        let client = kubeconfig::client(&kubeconfig).await;
        let (address, ca) = (plane.server.clone(), authority.pem().to_owned());
        let connect = move |token: String| {
            let user = User::with_token("agent", &token);
            let kubeconfig = kubeconfig::kubeconfig(&address, &ca, &user, None);
            async move { kubeconfig::client(&kubeconfig).await }.boxed()
        };
        let nodes = Nodes::start(client.clone(), Arc::new(connect), logs, server.port);
        nodes.add(client, &NodeSpec::new(NODE)).await.expect("a node");
        Self { nodes, plane, authority, tokens, _server: server }
    }

    /// The API server's URL.
    pub(crate) fn server(&self) -> &str {
        &self.plane.server
    }

    /// The certificate that the API server's is signed by, as PEM.
    pub(crate) fn ca_pem(&self) -> &str {
        self.authority.pem()
    }

    /// Where the bed keeps its state, logs of the control plane included.
    pub(crate) fn dir(&self) -> &Path {
        self.plane.dir()
    }

    /// A user who may do everything, by client certificate.
    pub(crate) fn admin(&self) -> &User {
        &self.plane.admin
    }

    /// A kubeconfig file whose one context `test` leads here.
    pub(crate) fn kubeconfig(&self, user: &User, namespace: Option<&str>) -> String {
        kubeconfig::kubeconfig(self.server(), self.ca_pem(), user, namespace)
    }

    /// A client for a user, on the current runtime.
    pub(crate) async fn client(&self, user: &User) -> Client {
        kubeconfig::client(&self.kubeconfig(user, None)).await
    }

    /// A client that may do everything, on the current runtime.
    pub(crate) async fn admin_client(&self) -> Client {
        self.client(self.admin()).await
    }

    /// A user of any name and groups, by bearer token.
    pub(crate) fn user(&self, name: &str, groups: &[&str]) -> User {
        User::with_token(name, &self.tokens.issue(name, groups))
    }

    /// A user by client certificate, which has room for one group.
    pub(crate) fn user_with_certificate(&self, name: &str, group: Option<&str>) -> User {
        User { name: name.to_owned(), credential: Credential::Certificate(self.authority.client(name, group)) }
    }

    /// Makes the token of a user of [`Bed::user`] invalid, as expiry does.
    pub(crate) fn revoke(&self, user: &User) {
        if let Credential::Token(token) = &user.credential {
            self.tokens.revoke(token);
        }
    }

    /// A new token of a `ServiceAccount`.
    pub(crate) async fn token_for(&self, namespace: &str, account: &str) -> String {
        let client = self.admin_client().await;
        node::token(&client, namespace, account, &TokenRequest::default()).await.expect("a token")
    }

    /// A namespace that no other test uses, in which pods can be created.
    pub(crate) async fn namespace(&self, prefix: &str) -> TestNamespace {
        self.namespace_with_labels(prefix, &[]).await
    }

    /// As [`Bed::namespace`], with labels; Pod Security allows everything unless they say otherwise.
    pub(crate) async fn namespace_with_labels(&self, prefix: &str, labels: &[(&str, &str)]) -> TestNamespace {
        TestNamespace::create(self.admin_client().await, prefix, labels).await
    }

    /// Grants rules to a user (of any kind of credential), in a namespace or in
    /// the whole cluster, and waits until the API server heeds it.
    pub(crate) async fn grant(&self, user: &User, namespace: Option<&str>, rules: &[PolicyRule]) {
        rbac::grant(&self.admin_client().await, &user.name, namespace, rules).await;
    }

    /// Adds a node, on a private bed or with a taint and labels that disturb no other test.
    pub(crate) async fn add_node(&self, spec: &NodeSpec) {
        self.nodes.add(self.admin_client().await, spec).await.expect("the node is registered");
    }

    /// Removes a node.
    pub(crate) async fn remove_node(&self, name: &str) {
        self.nodes.remove(self.admin_client().await, name).await.expect("the node is removed");
    }

    /// The document that the agent of a Job sent last, byte for byte.
    pub(crate) fn document(&self, namespace: &str, job: &str) -> Option<String> {
        self.nodes.document(namespace, job)
    }

    /// Makes the API server forget the versions before one, as it does by itself every five minutes.
    pub(crate) async fn compact(&self, version: u64) {
        self.plane.compact(version).await;
    }

    /// Kills the API server of a private bed.
    pub(crate) fn stop_apiserver(&self) {
        self.plane.stop_apiserver();
    }

    /// Starts the API server again, on the same port, and waits until it is ready.
    pub(crate) async fn start_apiserver(&self) {
        self.plane.start_apiserver(&self.admin_client().await).await;
    }
}

/// The runtime of everything that must go on between the tests, each of which
/// has a runtime of its own.
fn runtime() -> &'static Runtime {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("bed")
            .enable_all()
            .build()
            .expect("a runtime")
    });
    &RUNTIME
}

/// Answers what the API server asks of the bed.
async fn answer(tokens: Arc<Tokens>, logs: Arc<Logs>, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    if let Some(container) = path.strip_prefix("/containerLogs/") {
        return container_log(&logs, container, head.uri.query().unwrap_or_default());
    }
    if path != "/tokenreview" {
        return reply(StatusCode::NOT_FOUND, "404 page not found");
    }
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    match serde_json::from_slice(&body) {
        Ok(review) => {
            let review = serde_json::to_vec(&tokens.review(review)).expect("a TokenReview");
            reply(StatusCode::OK, review)
        }
        Err(e) => reply(StatusCode::BAD_REQUEST, e.to_string()),
    }
}

/// Answers `GET /containerLogs/NAMESPACE/POD/CONTAINER?QUERY` as a kubelet does.
fn container_log(logs: &Logs, path: &str, query: &str) -> Response<Body> {
    let Some([namespace, pod, container]) = path.split('/').collect::<Vec<_>>().first_chunk().copied() else {
        return reply(StatusCode::NOT_FOUND, format!("no log of {path}"));
    };
    match logs.read(namespace, pod, container, query) {
        Ok(lines) => Response::new(BodyExt::boxed(StreamBody::new(lines.map(|chunk| Ok(Frame::data(chunk)))))),
        Err(why) => reply(StatusCode::BAD_REQUEST, why),
    }
}
