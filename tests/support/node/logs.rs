//! Container logs as a kubelet keeps and serves them.

use std::{
    collections::HashMap,
    convert::Infallible,
    fmt::{Display, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use futures::stream;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use jiff::{Timestamp, ToSpan};
use tokio::sync::watch;

use crate::support::https::{Body, reply};

/// The logs of all containers, by namespace, pod and container.
#[derive(Default)]
pub(crate) struct Logs(Mutex<HashMap<[String; 3], Arc<Log>>>);

/// The log of one container.
pub(crate) struct Log {
    lines: Mutex<Vec<Line>>,
    state: watch::Sender<State>,
}

struct Line {
    at: Timestamp,
    text: String,
}

/// How far the container is. Its watchers are woken for each new line, too.
#[derive(PartialEq, Eq)]
enum State {
    Waiting(String),
    Running,
    Ended,
}

/// What a request for a log asks for.
#[derive(Default)]
struct Query {
    follow: bool,
    timestamps: bool,
    since: Option<Timestamp>,
    tail: Option<usize>,
    limit: Option<usize>,
}

impl Logs {
    /// The log of a container, made empty when it is asked for first.
    pub(super) fn of(&self, namespace: &str, pod: &str, container: &str) -> Arc<Log> {
        let key = [namespace, pod, container].map(str::to_owned);
        let new = || {
            let state = watch::Sender::new(State::Waiting("ContainerCreating".into()));
            Arc::new(Log { lines: Mutex::default(), state })
        };
        Arc::clone(self.all().entry(key).or_insert_with(new))
    }

    /// Forgets the logs of a pod that is gone, which ends who follows them.
    pub(super) fn remove(&self, namespace: &str, pod: &str) {
        self.all().retain(|[of_namespace, of_pod, _], log| {
            let keep = of_namespace != namespace || of_pod != pod;
            if !keep {
                log.end();
            }
            keep
        });
    }

    /// Answers `GET /containerLogs/NAMESPACE/POD/CONTAINER?QUERY`.
    pub(crate) fn answer(&self, path: &str, query: Option<&str>) -> Response<Body> {
        let parts: Vec<_> = path.split('/').map(str::to_owned).collect();
        let log = <[String; 3]>::try_from(parts).ok().and_then(|key| self.all().get(&key).cloned());
        let Some(log) = log else {
            return reply(StatusCode::NOT_FOUND, format!("no log of {path}"));
        };
        if let (State::Waiting(reason), Some((pod, container))) = (&*log.state.borrow(), of_pod(path)) {
            let text = format!("container {container:?} in pod {pod:?} is waiting to start: {reason}");
            return reply(StatusCode::BAD_REQUEST, text);
        }
        log.stream(Query::parse(query.unwrap_or_default()))
    }

    fn all(&self) -> MutexGuard<'_, HashMap<[String; 3], Arc<Log>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    /// Why the container does not run yet.
    pub(super) fn waits(&self, reason: &str) {
        self.state.send_replace(State::Waiting(reason.to_owned()));
    }

    pub(super) fn runs(&self) {
        self.state.send_replace(State::Running);
    }

    /// The container has ended: nothing follows.
    pub(super) fn end(&self) {
        self.state.send_replace(State::Ended);
    }

    /// Appends a line.
    pub(super) fn line(&self, text: impl Display) {
        self.text(format!("{text}\n"));
    }

    /// Appends text, with or without a line feed at its end.
    pub(super) fn text(&self, text: String) {
        self.lines().push(Line { at: Timestamp::now(), text });
        self.state.send_modify(|_| ());
    }

    fn stream(self: Arc<Self>, query: Query) -> Response<Body> {
        let next = self.start(&query);
        let reader = Reader { changes: self.state.subscribe(), log: self, next, left: query.limit, query };
        let chunks = stream::unfold(reader, |mut reader| async {
            let chunk = reader.chunk().await?;
            Some((Ok::<_, Infallible>(Frame::data(Bytes::from(chunk))), reader))
        });
        Response::new(BodyExt::boxed(StreamBody::new(chunks)))
    }

    /// Where a request's view of the log begins.
    fn start(&self, query: &Query) -> usize {
        let lines = self.lines();
        let since = query.since.map_or(0, |since| lines.partition_point(|line| line.at < since));
        query.tail.map_or(since, |tail| since.max(lines.len().saturating_sub(tail)))
    }

    fn lines(&self) -> MutexGuard<'_, Vec<Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request's progress through a log.
struct Reader {
    log: Arc<Log>,
    changes: watch::Receiver<State>,
    next: usize,
    left: Option<usize>,
    query: Query,
}

impl Reader {
    /// What is there to send; waits for it if the request follows the log.
    async fn chunk(&mut self) -> Option<String> {
        loop {
            let ended = *self.changes.borrow_and_update() == State::Ended;
            let chunk = self.available();
            if !chunk.is_empty() {
                return Some(chunk);
            }
            if ended || !self.query.follow || self.left == Some(0) {
                return None;
            }
            self.changes.changed().await.ok()?;
        }
    }

    fn available(&mut self) -> String {
        let lines = self.log.lines();
        let mut chunk = String::new();
        for line in &lines[self.next..] {
            if self.query.timestamps {
                let _ = write!(chunk, "{:.9} ", line.at);
            }
            chunk.push_str(&line.text);
        }
        self.next = lines.len();
        if let Some(left) = &mut self.left {
            chunk.truncate(chunk.floor_char_boundary(*left));
            *left -= chunk.len();
        }
        chunk
    }
}

impl Query {
    fn parse(text: &str) -> Self {
        let mut query = Self::default();
        for (key, value) in text.split('&').filter_map(|pair| pair.split_once('=')) {
            match key {
                "follow" => query.follow = value == "true",
                "timestamps" => query.timestamps = value == "true",
                "tailLines" => query.tail = value.parse().ok(),
                "limitBytes" => query.limit = value.parse().ok(),
                "sinceTime" => query.since = value.replace("%3A", ":").replace("%2B", "+").parse().ok(),
                "sinceSeconds" => {
                    let seconds = value.parse::<i64>().unwrap_or_default();
                    query.since = Some(Timestamp::now() - seconds.seconds());
                }
                _ => {}
            }
        }
        query
    }
}

/// Pod and container of `NAMESPACE/POD/CONTAINER`.
fn of_pod(path: &str) -> Option<(&str, &str)> {
    path.split_once('/')?.1.split_once('/')
}
