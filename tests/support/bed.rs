//! The test bed: a control plane, the double of its nodes, and its users.

use std::{
    path::Path,
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use kube::Client;
use tokio::{runtime::Runtime, sync::OnceCell, task::JoinHandle};

use super::{
    control_plane::ControlPlane,
    https::{Body, Server},
    kubeconfig::{self, Credential, User},
    pki::Authority,
    tokens::Tokens,
};

/// A Kubernetes cluster for tests.
pub(crate) struct Bed {
    plane: ControlPlane,
    authority: Authority,
    tokens: Arc<Tokens>,
    _server: Server,
}

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
    /// concerns the whole cluster. It takes some seconds.
    pub(crate) async fn private() -> Self {
        match Self::start().await {
            Ok(bed) => bed,
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
        let tokens = Arc::new(Tokens::default());
        let server = {
            let tokens = Arc::clone(&tokens);
            Server::start(&authority, move |request| answer(Arc::clone(&tokens), request)).await
        };
        let apiserver = User {
            name: "kube-apiserver".into(),
            credential: Credential::Certificate(authority.client("kube-apiserver", None)),
        };
        let url = format!("https://127.0.0.1:{}/tokenreview", server.port);
        let webhook = kubeconfig::kubeconfig(&url, authority.pem(), &apiserver, None);
        let plane = ControlPlane::start(&authority, &webhook).await;
        Self { plane, authority, tokens, _server: server }
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
async fn answer(tokens: Arc<Tokens>, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    match (head.method, head.uri.path()) {
        (Method::POST, "/tokenreview") => {
            let body = body.collect().await.map(http_body_util::Collected::to_bytes);
            let review = serde_json::from_slice(&body.unwrap_or_default());
            let review = tokens.review(review.expect("a TokenReview"));
            let text = serde_json::to_vec(&review).expect("a TokenReview");
            reply(StatusCode::OK, text)
        }
        _ => reply(StatusCode::NOT_FOUND, "404 page not found"),
    }
}

fn reply(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).boxed());
    *response.status_mut() = status;
    response
}
