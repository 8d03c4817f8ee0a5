//! Answers as HTTP responses.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::api::refusal::Refusal;
use super::api::view::View;
use super::api::watch::{Watching, is_last};
use super::cluster::Inner;
use super::service::Dropped;

pub(super) type Body = UnsyncBoxBody<Bytes, Dropped>;

/// How often a quiet watch says how far it has come.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);

/// How long before its end a watch does.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

const JSON: &str = "application/json";

pub(super) fn json_response(code: u16, content_type: &str, body: &Value) -> Response<Body> {
    response(code, content_type, full(body.to_string()))
}

/// A document that every client takes as JSON.
pub(super) fn document(body: &Value) -> Response<Body> {
    json_response(200, JSON, body)
}

pub(super) fn refused(refusal: &Refusal) -> Response<Body> {
    let mut body = json!(refusal);
    body["kind"] = "Status".into();
    body["apiVersion"] = "v1".into();
    if body["metadata"].is_null() {
        body["metadata"] = json!({});
    }
    let mut response = json_response(refusal.code, JSON, &body);
    let wait = refusal.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    if wait > 0 {
        response.headers_mut().insert(RETRY_AFTER, wait.into());
    }
    response
}

pub(super) fn text(code: u16, text: &str) -> Response<Body> {
    response(code, "text/plain; charset=utf-8", full(text.to_owned()))
}

pub(super) fn object(code: u16, view: View, body: &Value) -> Response<Body> {
    let content_type = match view {
        View::Whole => JSON.to_owned(),
        View::Metadata if body["kind"] == "PartialObjectMetadataList" => {
            format!("{JSON};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
        }
        View::Metadata => format!("{JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
        View::Table => format!("{JSON};as=Table;v=v1;g=meta.k8s.io"),
    };
    json_response(code, &content_type, body)
}

/// A log, as it comes.
pub(super) fn log(lines: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    response(200, "text/plain", stream_body(lines))
}

/// A watch: a line for each event, as it happens.
pub(super) fn watching(cluster: Arc<Inner>, watching: Watching, view: View) -> Response<Body> {
    let now = Instant::now();
    let end = watching.timeout.map(|timeout| now + timeout);
    let changed = cluster.api().store().subscribe();
    let stretch = Stretch { changed, cluster, view, end, bookmark_at: next_bookmark(now, end), watching, over: false };
    let lines = stream::unfold(stretch, |mut stretch| async {
        let line = stretch.next().await?;
        Some((Bytes::from(line), stretch))
    });
    response(200, JSON, stream_body(lines))
}

fn next_bookmark(now: Instant, end: Option<Instant>) -> Instant {
    let before_end = end.and_then(|end| end.checked_sub(BOOKMARK_BEFORE_END)).filter(|at| *at > now);
    before_end.map_or(now + BOOKMARK_EVERY, |at| at.min(now + BOOKMARK_EVERY))
}

/// One watch in its course.
struct Stretch {
    cluster: Arc<Inner>,
    changed: watch::Receiver<u64>,
    watching: Watching,
    view: View,
    end: Option<Instant>,
    bookmark_at: Instant,
    over: bool,
}

impl Stretch {
    /// The next lines; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        loop {
            if self.over {
                return None;
            }
            self.changed.borrow_and_update();
            let events = self.cluster.api().events(&mut self.watching);
            if !events.is_empty() {
                self.over = events.last().is_some_and(is_last);
                return Some(self.lines(events));
            }
            let end = self.end;
            let ended = async {
                match end {
                    Some(end) => sleep_until(end).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = self.changed.changed() => changed.ok()?,
                () = ended => return None,
                () = sleep_until(self.bookmark_at) => {
                    self.bookmark_at = next_bookmark(Instant::now(), self.end);
                    if self.watching.bookmarks {
                        return Some(self.lines(vec![self.watching.bookmark()]));
                    }
                }
            }
        }
    }

    fn lines(&self, events: Vec<Value>) -> String {
        let shown = events.into_iter().map(|event| self.view.show_event(self.watching.kind, event).to_string() + "\n");
        shown.collect()
    }
}

fn response(code: u16, content_type: &str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Ok(content_type) = HeaderValue::from_str(content_type) {
        response.headers_mut().insert(CONTENT_TYPE, content_type);
    }
    response
}

fn full(text: String) -> Body {
    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync()
}

fn stream_body(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Body {
    http_body_util::BodyExt::boxed_unsync(StreamBody::new(chunks.map(|chunk| Ok(Frame::data(chunk)))))
}
