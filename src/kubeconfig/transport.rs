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

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use hyper::body::Incoming;
use kube::client::Body;
use tokio::sync::watch;
use tower::{BoxError, Service};

use super::route::{ConnectError, Protocol, Route};

/// How often a request is sent that the server has refused to look at.
const ATTEMPTS: usize = 3;

/// Counts the client certificates of a run. A connection stands for the one that it was opened with.
pub(super) type Epoch = Arc<AtomicUsize>;

/// The service at the bottom of the client.
#[derive(Clone)]
pub(super) struct Transport(Arc<Inner>);

struct Inner {
    route: Route,
    epoch: Epoch,
    state: Mutex<State>,
}

/// What an attempt to connect came to.
type Outcome = Result<Protocol, ConnectError>;

enum State {
    /// There is no connection.
    Closed,
    /// The one attempt, which all requests wait for.
    Opening(watch::Receiver<Option<Outcome>>, usize),
    Open(Protocol, usize),
}

impl Transport {
    pub(super) fn new(route: Route, epoch: Epoch) -> Self {
        Self(Arc::new(Inner { route, epoch, state: Mutex::new(State::Closed) }))
    }

    async fn send(&self, mut request: Request<Body>) -> Result<Response<Incoming>, BoxError> {
        let mut left = ATTEMPTS;
        loop {
            left -= 1;
            let again = duplicate(&request).filter(|_| left > 0);
            match (self.protocol().await?.send(request).await, again) {
                (Err(failure), Some(again)) if failure.unseen => request = again,
                (outcome, _) => return outcome.map_err(|failure| self.0.route.lost(failure.cause).into()),
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The open connection; the first that finds none opens it for all.
    async fn protocol(&self) -> Outcome {
        let epoch = self.0.epoch.load(Ordering::Acquire);
        let mut outcome = match &mut *self.state() {
            State::Open(protocol, of) if *of == epoch && protocol.is_open() => return Ok(protocol.clone()),
            State::Opening(outcome, of) if *of == epoch => outcome.clone(),
            state => {
                let outcome = self.open(epoch);
                *state = State::Opening(outcome.clone(), epoch);
                outcome
            }
        };
        // The sender goes away without a word only when the runtime ends.
        let outcome = outcome.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone());
        outcome.unwrap_or_else(|| Err(self.0.route.cancelled()))
    }

    /// Opens a connection in a task of its own: it goes on when the request that needed it is given up.
    fn open(&self, epoch: usize) -> watch::Receiver<Option<Outcome>> {
        let (sender, receiver) = watch::channel(None);
        let transport = self.clone();
        tokio::spawn(async move {
            let outcome = transport.0.route.clone().open().await;
            let mut state = transport.state();
            if matches!(&*state, State::Opening(_, of) if *of == epoch) {
                *state = outcome.clone().map_or(State::Closed, |protocol| State::Open(protocol, epoch));
            }
            drop(state);
            sender.send_replace(Some(outcome));
        });
        receiver
    }
}

/// A copy of a request whose body is held in memory, as all of ours are.
pub(super) fn duplicate(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    request.method().clone_into(copy.method_mut());
    request.uri().clone_into(copy.uri_mut());
    request.headers().clone_into(copy.headers_mut());
    Some(copy)
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
