//! Container logs as a kubelet keeps and serves them.

use std::collections::HashMap;
use std::fmt::{Display, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::Stream;
use futures::stream;
use jiff::{Timestamp, ToSpan as _};
use tokio::sync::watch;

use super::api::call::Query;

/// Why a container that was just created has no log.
const CREATING: &str = "ContainerCreating";

/// The logs of all containers, by namespace, pod and container.
#[derive(Debug, Default)]
pub struct Logs(Mutex<HashMap<[String; 3], Arc<Log>>>);

/// The log of one container.
#[derive(Debug)]
pub(crate) struct Log {
    lines: Mutex<Vec<Line>>,
    state: watch::Sender<State>,
}

#[derive(Debug)]
struct Line {
    at: Timestamp,
    text: String,
}

/// How far the container is. Its watchers are woken for each new line, too.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Waiting(String),
    Running,
    Ended,
}

/// What of a log is asked for.
#[derive(Debug, Default)]
struct Part {
    follow: bool,
    timestamps: bool,
    since: Option<Timestamp>,
    tail: Option<usize>,
    limit: Option<usize>,
}

impl Logs {
    /// The log of a container, made empty when it is asked for first.
    pub(crate) fn of(&self, namespace: &str, pod: &str, container: &str) -> Arc<Log> {
        let key = [namespace, pod, container].map(str::to_owned);
        let new = || {
            let state = watch::Sender::new(State::Waiting(CREATING.into()));
            Arc::new(Log { lines: Mutex::default(), state })
        };
        Arc::clone(self.all().entry(key).or_insert_with(new))
    }

    /// Forgets the logs of a pod that is gone, which ends who follows them.
    pub(crate) fn remove(&self, namespace: &str, pod: &str) {
        self.all().retain(|[of_namespace, of_pod, _], log| {
            let keep = of_namespace != namespace || of_pod != pod;
            if !keep {
                log.end();
            }
            keep
        });
    }

    /// The log of a container as the query of a request for it asks for, or why there is none yet.
    ///
    /// # Errors
    /// What a kubelet says of a container that has not started.
    pub fn read(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        query: &str,
    ) -> Result<impl Stream<Item = Bytes> + Send + use<>, String> {
        let waits = |reason: &str| format!("container {container:?} in pod {pod:?} is waiting to start: {reason}");
        let key = [namespace, pod, container].map(str::to_owned);
        let log = self.all().get(&key).cloned().ok_or_else(|| waits(CREATING))?;
        if let State::Waiting(reason) = &*log.state.borrow() {
            return Err(waits(reason));
        }
        Ok(log.stream(Part::asked_for(&Query::parse(query))))
    }

    fn all(&self) -> MutexGuard<'_, HashMap<[String; 3], Arc<Log>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    /// Why the container does not run yet.
    pub(crate) fn waits(&self, reason: &str) {
        self.state.send_replace(State::Waiting(reason.to_owned()));
    }

    pub(crate) fn runs(&self) {
        self.state.send_replace(State::Running);
    }

    /// The container has ended: nothing follows.
    pub(crate) fn end(&self) {
        self.state.send_replace(State::Ended);
    }

    /// Appends a line.
    pub(crate) fn line(&self, text: impl Display) {
        self.text(format!("{text}\n"));
    }

    /// Appends text, with or without a line feed at its end.
    pub(crate) fn text(&self, text: String) {
        self.lines().push(Line { at: Timestamp::now(), text });
        self.state.send_modify(|_| ());
    }

    fn stream(self: Arc<Self>, part: Part) -> impl Stream<Item = Bytes> + Send {
        let next = self.start(&part);
        let reader = Reader { changes: self.state.subscribe(), log: self, next, left: part.limit, part };
        stream::unfold(reader, |mut reader| async {
            let chunk = reader.chunk().await?;
            Some((Bytes::from(chunk), reader))
        })
    }

    /// Where a request's view of the log begins.
    fn start(&self, part: &Part) -> usize {
        let lines = self.lines();
        let since = part.since.map_or(0, |since| lines.partition_point(|line| line.at < since));
        part.tail.map_or(since, |tail| since.max(lines.len().saturating_sub(tail)))
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
    part: Part,
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
            if ended || !self.part.follow || self.left == Some(0) {
                return None;
            }
            self.changes.changed().await.ok()?;
        }
    }

    fn available(&mut self) -> String {
        let lines = self.log.lines();
        let mut chunk = String::new();
        for line in &lines[self.next..] {
            if self.part.timestamps {
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

impl Part {
    fn asked_for(query: &Query) -> Self {
        let since = match query.get("sinceSeconds").parse::<i64>() {
            Ok(seconds) => Some(Timestamp::now() - seconds.seconds()),
            Err(_) => query.get("sinceTime").parse().ok(),
        };
        Self {
            follow: query.is_true("follow"),
            timestamps: query.is_true("timestamps"),
            since,
            tail: query.get("tailLines").parse().ok(),
            limit: query.get("limitBytes").parse().ok(),
        }
    }
}
