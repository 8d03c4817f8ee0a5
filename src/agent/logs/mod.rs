//! The agent's log, line by line, taken up again after a cut without a repeated or lost line (R23).

mod lines;
mod place;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::AsyncReadExt as _;
use kube::Api;
use kube::api::LogParams;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::agent::cluster::{Cluster, Pause};
use crate::agent::event::Events;
use crate::agent::logs::lines::{LONGEST_PIECE, Lines};
use crate::agent::logs::place::Place;
use crate::agent::manifests::CONTAINER;
use crate::diagnose::objects::Pod;
use crate::error::{ApiError, Failure};

/// Lines kept for the error of a failed run.
const TAIL_LINES: usize = 20;

/// A log that is silent for this long is asked for again: a silent agent is no error, and a dead stream looks the same.
const LONGEST_SILENCE: Duration = Duration::from_mins(1);

/// The same once the container has ended: all of its log is there, and nothing has to be waited for.
const SILENCE_AFTER_END: Duration = Duration::from_secs(3);

/// How long the end of a log is waited for while it brings nothing.
const DRAIN: Duration = Duration::from_secs(7);

/// The log of the agent's container, followed in the background until this is dropped.
#[derive(Debug)]
pub(crate) struct FollowedLog {
    pod: String,
    ended: watch::Sender<bool>,
    task: JoinHandle<()>,
    tail: Tail,
}

impl Drop for FollowedLog {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FollowedLog {
    /// Follows the log until the container has ended and every line is there. RBAC: `get` on `pods/log`.
    pub(crate) fn start(cluster: Cluster, api: Api<Pod>, pod: String, events: Events) -> Self {
        let (sender, ended) = watch::channel(false);
        let tail = Tail::default();
        let place = Place::default();
        let follower = Follower { cluster, api, pod: pod.clone(), ended, events, tail: tail.clone(), place };
        Self { pod, ended: sender, task: tokio::spawn(follower.run()), tail }
    }

    /// The pod's name.
    pub(crate) fn pod(&self) -> &str {
        &self.pod
    }

    /// The container writes nothing more.
    pub(crate) fn container_has_ended(&self) {
        self.ended.send_replace(true);
    }

    /// Lets the log come to its end. It never decides the outcome: one that brings nothing is given up.
    pub(crate) async fn drain(&mut self, deadline: Instant) {
        self.container_has_ended();
        while !self.task.is_finished() && Instant::now() < deadline {
            let before = self.tail.count();
            let _ = timeout(DRAIN.min(deadline - Instant::now()), &mut self.task).await;
            if self.tail.count() == before {
                return;
            }
        }
    }

    /// The last lines, oldest first.
    pub(crate) fn last_lines(&self) -> Vec<String> {
        self.tail.lines()
    }
}

/// The last lines of the log, as far as they can be had now. RBAC: `get` on `pods/log`.
pub(crate) async fn last_lines(cluster: &Cluster, api: &Api<Pod>, pod: &str) -> Vec<String> {
    let parameters = LogParams {
        container: Some(CONTAINER.to_owned()),
        tail_lines: i64::try_from(TAIL_LINES).ok(),
        limit_bytes: i64::try_from(LONGEST_PIECE).ok(),
        ..LogParams::default()
    };
    let action = "read the end of the agent's log";
    let text = match timeout(DRAIN, cluster.bounded(action, api.logs(pod, &parameters))).await {
        Ok(answer) => answer,
        Err(_) => Err(ApiError { action: action.to_owned(), failure: Failure::NoAnswer(DRAIN) }),
    };
    match text {
        Ok(text) => text.lines().map(str::to_owned).collect(),
        Err(error) => vec![format!("({error})")],
    }
}

/// The last lines of a log, and how many there were.
#[derive(Clone, Debug, Default)]
struct Tail(Arc<Mutex<(VecDeque<String>, usize)>>);

impl Tail {
    fn push(&self, line: String) {
        let (lines, count) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == TAIL_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
        *count += 1;
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.iter().cloned().collect()
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

/// What reads the log.
struct Follower {
    cluster: Cluster,
    api: Api<Pod>,
    pod: String,
    ended: watch::Receiver<bool>,
    events: Events,
    tail: Tail,
    place: Place,
}

/// A stream that came to an end.
struct Read {
    /// It repeated all that was read before it.
    is_whole: bool,
    /// What stands at its end without a line end: whether that is all of the line, another stream has to tell.
    unfinished: Option<String>,
}

impl Follower {
    async fn run(mut self) {
        let mut pause = Pause::default();
        // A stream that ends well may have been cut all the same, and a refusal may pass. After the container's
        // end two streams that bring nothing are the end of the log, or one that repeats what was read.
        let mut futile = 0;
        loop {
            let before = self.place.clone();
            // Read before the log: what was written until the container ended is then in it.
            let had_ended = *self.ended.borrow();
            let read = self.read().await;
            let is_new = self.place != before;
            if is_new {
                (pause, futile) = (Pause::default(), 0);
            } else if had_ended {
                futile += match &read {
                    Ok(read) if read.is_whole => 2,
                    Ok(_) => 1,
                    // The pod is gone, and its log with it.
                    Err(error) => usize::from(error.is_not_found()),
                };
            }
            let wait = match read {
                Ok(read) if futile >= 2 => {
                    if let Some(text) = read.unfinished {
                        self.show(text).await;
                    }
                    return;
                }
                Err(_) if futile >= 2 => return,
                Ok(_) if is_new => Duration::ZERO,
                Ok(_) => pause.next(),
                Err(error) => {
                    tracing::debug!(%error, "the agent's log was cut");
                    pause.after(&error)
                }
            };
            if had_ended {
                sleep(wait).await;
            } else if timeout(wait, self.ended.wait_for(|ended| *ended)).await.is_ok() {
                // Now the end of the log is there.
                pause = Pause::default();
            }
        }
    }

    /// Shows what one stream brings that is new.
    async fn read(&mut self) -> Result<Read, ApiError> {
        let parameters = LogParams {
            // Injectors add containers, and the server refuses to choose among several.
            container: Some(CONTAINER.to_owned()),
            follow: true,
            timestamps: true,
            since_time: self.place.since(),
            ..LogParams::default()
        };
        let action = format!("read the log of pod {}", self.pod);
        let at_end = SILENCE_AFTER_END.min(self.cluster.request_timeout());
        let silent = |limit| ApiError { action: action.clone(), failure: Failure::NoAnswer(limit) };

        let opening = self.cluster.bounded(&action, self.api.log_stream(&self.pod, &parameters));
        let stream = unless_silent(&mut self.ended, at_end, opening).await.map_err(silent)??;
        let mut stream = pin!(stream);
        let mut repetition = self.place.repetition();
        let mut lines = Lines::default();
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let reading = unless_silent(&mut self.ended, at_end, stream.read(&mut buffer)).await.map_err(silent)?;
            let read = reading.map_err(|error| ApiError::new(&action, kube::Error::ReadEvents(error)))?;
            if read == 0 {
                let unfinished = lines.unfinished();
                // Another stream repeats it, so it must not count as read.
                let unfinished = unfinished.and_then(|piece| self.place.clone().take(&piece, &mut repetition));
                return Ok(Read { is_whole: repetition.is_whole(), unfinished });
            }
            lines.feed(&buffer[..read]);
            while let Some(piece) = lines.next() {
                if let Some(text) = self.place.take(&piece, &mut repetition) {
                    self.show(text).await;
                }
            }
        }
    }

    async fn show(&self, text: String) {
        self.tail.push(text.clone());
        self.events.log(text).await;
    }
}

/// What a step gives, or how long it was waited for in vain: less once the container has ended.
async fn unless_silent<T>(
    ended: &mut watch::Receiver<bool>,
    at_end: Duration,
    step: impl Future<Output = T>,
) -> Result<T, Duration> {
    let mut step = pin!(step);
    loop {
        let has_ended = *ended.borrow_and_update();
        let limit = if has_ended { at_end } else { LONGEST_SILENCE };
        tokio::select! {
            biased;
            outcome = &mut step => return Ok(outcome),
            // The limit is another one then.
            Ok(()) = ended.changed() => {}
            () = sleep(limit) => return Err(limit),
        }
    }
}
