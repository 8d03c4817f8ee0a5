//! The way to the server, and what is spoken once it is connected.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::Body;
use tower::{BoxError, Service, ServiceExt as _};
use tracing::trace;

use super::LOG;
use super::failure::text_of;
use super::stream::{Connector, Stream};
use super::target::is_tls;

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

/// The most that an HTTP/1.1 connection reads ahead; hyper's own bound is six times as much, for each connection.
const HTTP1_BUFFER: usize = 64 * 1024;

/// How to connect.
#[derive(Clone)]
pub(super) struct Route {
    pub(super) server: Uri,
    /// The server, and the proxy before it, for messages.
    pub(super) to: Arc<str>,
    pub(super) through_proxy: bool,
    pub(super) connector: Connector,
    pub(super) limit: Duration,
    pub(super) ping: Ping,
}

/// When a silent HTTP/2 connection counts as dead.
#[derive(Clone, Copy)]
pub(super) struct Ping {
    pub(super) after: Duration,
    pub(super) timeout: Duration,
}

impl Default for Ping {
    fn default() -> Self {
        Self { after: PING_AFTER, timeout: PING_TIMEOUT }
    }
}

/// Why there is no connection. All that waited for it get the same.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", .source.as_ref().map_or_else(|| format!("no answer within {limit:?}"), ToString::to_string))]
pub(super) struct ConnectError {
    pub(super) to: Arc<str>,
    pub(super) through_proxy: bool,
    limit: Duration,
    /// The cause; none if it took too long.
    source: Option<Arc<Cause>>,
}

/// The cause of a failed connection.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Cause(#[source] BoxError);

/// A connection ended before the answer came.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub(super) struct Lost {
    pub(super) to: Arc<str>,
    /// The request was sent as plain http.
    pub(super) plain: bool,
    source: BoxError,
}

/// What requests are sent with.
#[derive(Clone)]
pub(super) enum Protocol {
    Http2(http2::SendRequest<Body>),
    Http1(Box<legacy::Client<Reuse, Body>>),
}

/// Why a request got no answer.
pub(super) struct Unanswered {
    pub(super) cause: BoxError,
    /// It is proven that the server did not look at the request.
    pub(super) unseen: bool,
}

impl Route {
    fn failed(&self, cause: Option<BoxError>) -> ConnectError {
        ConnectError {
            to: self.to.clone(),
            through_proxy: self.through_proxy,
            limit: self.limit,
            source: cause.map(|cause| Arc::new(Cause(cause))),
        }
    }

    /// The error for an attempt that was not brought to an end.
    pub(super) fn cancelled(&self) -> ConnectError {
        self.failed(Some("the program is ending".into()))
    }

    /// An error that says where to a connection was lost.
    pub(super) fn lost(&self, source: BoxError) -> Lost {
        Lost { to: self.to.clone(), plain: !is_tls(&self.server), source }
    }

    /// Connects, and settles the protocol.
    pub(super) async fn open(self) -> Result<Protocol, ConnectError> {
        let connecting = tokio::time::timeout(self.limit, self.connector.clone().oneshot(self.server.clone()));
        let stream = match connecting.await {
            Ok(Ok(stream)) => stream,
            Ok(Err(cause)) => return Err(self.failed(Some(cause))),
            Err(_) => return Err(self.failed(None)),
        };
        if !stream.speaks_http2() {
            trace!(target: LOG, "connected to {} with HTTP/1.1", self.to);
            return Ok(Protocol::http1(stream, self.connector));
        }
        trace!(target: LOG, "connected to {} with HTTP/2", self.to);
        Protocol::http2(stream, self.ping).await.map_err(|error| self.failed(Some(error.into())))
    }
}

impl Protocol {
    async fn http2(stream: Stream, ping: Ping) -> hyper::Result<Self> {
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(ping.after)
            .keep_alive_timeout(ping.timeout)
            .keep_alive_while_idle(true)
            .handshake(stream)
            .await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                trace!(target: LOG, "the connection was lost: {}", text_of(&error));
            }
        });
        Ok(Self::Http2(sender))
    }

    /// A pool, because HTTP/1.1 needs a connection for each request that is under way. It sends again what it knows not to
    /// have been written, and nothing else.
    fn http1(first: Stream, connector: Connector) -> Self {
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .http1_max_buf_size(HTTP1_BUFFER)
            .build(Reuse { first: Arc::new(Mutex::new(Some(first))), connector });
        Self::Http1(Box::new(client))
    }

    /// Whether a request can be sent.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Http2(sender) => sender.is_ready(),
            Self::Http1(_) => true,
        }
    }

    pub(super) async fn send(&mut self, request: Request<Body>) -> Result<Response<Incoming>, Unanswered> {
        match self {
            Self::Http2(sender) => sender.try_send_request(request).await.map_err(|failure| {
                let unseen = failure.message().is_some() || was_refused(failure.error());
                Unanswered { cause: failure.into_error().into(), unseen }
            }),
            Self::Http1(client) => {
                let sent = client.request(request).await;
                sent.map_err(|error| Unanswered { cause: error.into(), unseen: false })
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
pub(super) struct Reuse {
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
