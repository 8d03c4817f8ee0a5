//! Requests over one connection.
//!
//! The first request opens the connection, all others wait for it: with HTTP/2 they share it, so that a wave of requests
//! costs one TLS handshake. Where the server speaks HTTP/1.1 only, a pool takes over.
//!
//! A request is sent again only when it is proven that the server has not seen it (R6): a create that was repeated could
//! meet its own object.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::Body;
use tower::{BoxError, Service, ServiceExt as _};

use super::stream::{Connector, Stream};

/// A document of 1 MiB arrives without waiting for the window to be opened again.
const STREAM_WINDOW: u32 = 2 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;

/// A connection over which nothing came for this long is asked whether it lives …
const PING_AFTER: Duration = Duration::from_secs(20);
/// … and is given up when no answer comes for this long.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// A pooled HTTP/1.1 connection is used again within this time only: a server that closes an older one could do so while
/// a request is on its way.
const POOL_IDLE: Duration = Duration::from_secs(30);

/// How often a request is sent that the server has refused to look at.
const ATTEMPTS: usize = 3;

/// Why there is no connection.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum ConnectError {
    /// The attempt failed.
    #[error("{0}")]
    Failed(#[source] Arc<BoxErrorSource>),
    /// The attempt took too long.
    #[error("no connection within {}s", .0.as_secs())]
    TimedOut(Duration),
}

/// The cause of a failed connection, shared by all that waited for it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct BoxErrorSource(#[source] BoxError);

/// Counts the client certificates of a run. A connection stands for the one that it was opened with.
pub(super) type Epoch = Arc<AtomicUsize>;

/// The service at the bottom of the client.
#[derive(Clone)]
pub(super) struct Transport(Arc<Inner>);

struct Inner {
    server: Uri,
    connector: Connector,
    connect_timeout: Duration,
    epoch: Epoch,
    state: Mutex<State>,
}

type Opening = Shared<BoxFuture<'static, Result<Protocol, ConnectError>>>;

enum State {
    /// There is no connection.
    Closed,
    /// The one attempt, which all requests wait for.
    Opening(Opening, usize),
    Open(Protocol, usize),
}

/// What requests are sent with.
#[derive(Clone)]
enum Protocol {
    Http2(http2::SendRequest<Body>),
    Http1(Box<legacy::Client<Reuse, Body>>),
}

impl Transport {
    pub(super) fn new(server: Uri, connector: Connector, connect_timeout: Duration, epoch: Epoch) -> Self {
        let state = Mutex::new(State::Closed);
        Self(Arc::new(Inner { server, connector, connect_timeout, epoch, state }))
    }

    async fn send(&self, mut request: Request<Body>) -> Result<Response<Incoming>, BoxError> {
        for _ in 1..ATTEMPTS {
            let again = duplicate(&request);
            match (self.protocol().await?.send(request).await, again) {
                (Err(Failure { unseen: true, .. }), Some(again)) => request = again,
                (outcome, _) => return outcome.map_err(|failure| failure.cause),
            }
        }
        self.protocol().await?.send(request).await.map_err(|failure| failure.cause)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The open connection; the first that finds none opens it for all.
    async fn protocol(&self) -> Result<Protocol, ConnectError> {
        let epoch = self.0.epoch.load(Ordering::Acquire);
        let opening = match &mut *self.state() {
            State::Open(protocol, of) if *of == epoch && protocol.is_open() => return Ok(protocol.clone()),
            State::Opening(opening, of) if *of == epoch => opening.clone(),
            state => {
                let (connector, server) = (self.0.connector.clone(), self.0.server.clone());
                let opening = open(connector, server, self.0.connect_timeout).boxed().shared();
                *state = State::Opening(opening.clone(), epoch);
                opening
            }
        };
        let outcome = opening.clone().await;
        let mut state = self.state();
        if matches!(&*state, State::Opening(current, _) if current.ptr_eq(&opening)) {
            *state = outcome.clone().map_or(State::Closed, |protocol| State::Open(protocol, epoch));
        }
        outcome
    }
}

/// A copy of a request whose body is held in memory, as all of ours are.
pub(super) fn duplicate(request: &Request<Body>) -> Option<Request<Body>> {
    let body = request.body().try_clone()?;
    let mut copy = Request::new(body);
    request.method().clone_into(copy.method_mut());
    request.uri().clone_into(copy.uri_mut());
    request.headers().clone_into(copy.headers_mut());
    Some(copy)
}

/// Connects and settles the protocol.
async fn open(connector: Connector, server: Uri, limit: Duration) -> Result<Protocol, ConnectError> {
    let failed = |cause| ConnectError::Failed(Arc::new(BoxErrorSource(cause)));
    let connecting = tokio::time::timeout(limit, connector.clone().oneshot(server));
    let stream = connecting.await.map_err(|_| ConnectError::TimedOut(limit))?.map_err(failed)?;
    if !stream.speaks_http2() {
        let reuse = Reuse { first: Arc::new(Mutex::new(Some(stream))), connector };
        // The pool sends again what it knows not to have been written, and nothing else.
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .build(reuse);
        return Ok(Protocol::Http1(Box::new(client)));
    }
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true)
        .handshake(stream)
        .await
        .map_err(|error| failed(error.into()))?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(target: super::LOG, "connection lost: {error}");
        }
    });
    Ok(Protocol::Http2(sender))
}

/// Why a request got no answer.
struct Failure {
    cause: BoxError,
    /// It is proven that the server did not look at the request.
    unseen: bool,
}

impl Protocol {
    fn is_open(&self) -> bool {
        match self {
            Self::Http2(sender) => sender.is_ready(),
            Self::Http1(_) => true,
        }
    }

    async fn send(&mut self, request: Request<Body>) -> Result<Response<Incoming>, Failure> {
        match self {
            Self::Http2(sender) => sender.try_send_request(request).await.map_err(|failure| {
                let unseen = failure.message().is_some() || was_refused(failure.error());
                Failure { cause: failure.into_error().into(), unseen }
            }),
            Self::Http1(client) => {
                client.request(request).await.map_err(|error| Failure { cause: error.into(), unseen: false })
            }
        }
    }
}

/// Whether the server said that it has not processed the request (RFC 9113, 8.7): it reset the stream as refused, or it
/// went away without an error before it came to this stream. For older streams h2 reports a lost connection instead.
fn was_refused(error: &hyper::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<h2::Error>());
    cause.is_some_and(|cause| {
        let reason = cause.reason();
        cause.is_remote()
            && (cause.is_reset() && reason == Some(h2::Reason::REFUSED_STREAM)
                || cause.is_go_away() && reason == Some(h2::Reason::NO_ERROR))
    })
}

/// A connector that gives out the stream that settled the protocol before it makes others.
#[derive(Clone)]
struct Reuse {
    first: Arc<Mutex<Option<Stream>>>,
    connector: Connector,
}

impl Service<Uri> for Reuse {
    type Response = Stream;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Stream, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        match self.first.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(stream) => futures::future::ok(stream).boxed(),
            None => self.connector.clone().oneshot(server).boxed(),
        }
    }
}

impl Service<Request<Body>> for Transport {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Incoming>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let transport = self.clone();
        async move { transport.send(request).await }.boxed()
    }
}
