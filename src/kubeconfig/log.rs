//! The log of requests. Bodies are never part of it, credentials neither (R43).

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderMap, Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use kube::client::Body;
use tower::{BoxError, Service};
use tracing::{debug, info, trace};

use super::LOG;
use super::failure::text_of;

/// Logs the requests of the service below it: at `info` method, URL, status and time, at `debug` the request's headers, at
/// `trace` the response's headers and the sizes of bodies.
#[derive(Clone)]
pub(super) struct Logged<S>(pub(super) S);

impl<S> Service<Request<Body>> for Logged<S>
where
    S: Service<Request<Body>, Response = Response<Incoming>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<Counted>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Counted>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let what = format!("{} {}", request.method(), request.uri());
        let sent = HttpBody::size_hint(request.body()).exact().unwrap_or_default();
        debug!(target: LOG, "{what} with {sent} bytes{}", Headers(request.headers()));
        let start = Instant::now();
        let answer = self.0.call(request);
        async move {
            let answer = answer.await.inspect_err(|error| {
                info!(target: LOG, "{what} failed in {} milliseconds: {}", millis(start), text_of(&**error));
            })?;
            info!(target: LOG, "{what} {} in {} milliseconds", answer.status(), millis(start));
            trace!(target: LOG, "{what} {:?}{}", answer.version(), Headers(answer.headers()));
            Ok(answer.map(|body| Counted { body, what, start, bytes: 0 }))
        }
        .boxed()
    }
}

fn millis(start: Instant) -> u128 {
    start.elapsed().as_millis()
}

/// Headers, one a line, as kubectl masks them.
struct Headers<'a>(&'a HeaderMap);

impl std::fmt::Display for Headers<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, value) in self.0 {
            let text = String::from_utf8_lossy(value.as_bytes());
            let secret = value.is_sensitive() || name.as_str().ends_with("authorization") || name == "set-cookie";
            let shown = match (secret, text.split_once(' ')) {
                (false, _) => text.as_ref(),
                (true, Some(("Bearer", _))) => "Bearer <masked>",
                (true, Some(("Basic", _))) => "Basic <masked>",
                (true, _) => "<masked>",
            };
            write!(formatter, "\n    {name}: {shown}")?;
        }
        Ok(())
    }
}

/// A body whose bytes are counted.
pub(super) struct Counted {
    body: Incoming,
    what: String,
    start: Instant,
    bytes: usize,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame {
            self.bytes += frame.data_ref().map_or(0, Bytes::len);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        trace!(target: LOG, "{}: {} bytes within {} milliseconds", self.what, self.bytes, millis(self.start));
    }
}
