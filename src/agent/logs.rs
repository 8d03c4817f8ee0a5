//! The agent's log, line by line, taken up again after a cut without a repeated or lost line (R23).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::AsyncReadExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::agent::cluster::{Cluster, Pause};
use crate::agent::event::Events;
use crate::agent::manifests::CONTAINER;
use crate::error::ApiError;

/// Lines kept for the error of a failed run.
const TAIL_LINES: usize = 20;

/// Longest line shown; the rest of a longer one follows as a line of its own. Container runtimes split at 16 KiB.
const LONGEST_LINE: usize = 64 * 1024;

/// The last lines of a log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail(Arc<Mutex<VecDeque<String>>>);

impl Tail {
    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == TAIL_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// The last lines, oldest first.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// Follows the log of the agent's container until the container has ended and every line is there.
/// RBAC: `get` on `pods/log`.
pub(crate) async fn follow(
    cluster: Cluster,
    api: Api<Pod>,
    pod: String,
    ended: watch::Receiver<bool>,
    events: Events,
    tail: Tail,
) {
    let mut place = Place::default();
    let mut pause = Pause::default();
    loop {
        let before = place.clone();
        // Read before the log: what was written until the container ended is then in it.
        let had_ended = *ended.borrow();
        let wait = match read(&cluster, &api, &pod, &mut place, &events, &tail).await {
            // A stream that ends may have been cut: only one that brings nothing new after the container's end is whole.
            Ok(()) if place == before && had_ended => return,
            Ok(()) if place == before => pause.next(),
            Ok(()) => Duration::ZERO,
            Err(error) if error.is_not_found() => return,
            Err(error) => {
                tracing::debug!(%error, "the agent's log was cut");
                if place != before {
                    pause = Pause::default();
                }
                pause.after(&error)
            }
        };
        sleep(wait).await;
    }
}

/// The last lines of the log, as far as they can be had now. RBAC: `get` on `pods/log`.
pub(crate) async fn last_lines(cluster: &Cluster, api: &Api<Pod>, pod: &str) -> Vec<String> {
    let parameters = LogParams {
        container: Some(CONTAINER.to_owned()),
        tail_lines: i64::try_from(TAIL_LINES).ok(),
        limit_bytes: i64::try_from(LONGEST_LINE).ok(),
        ..LogParams::default()
    };
    match cluster.bounded("read the end of the agent's log", api.logs(pod, &parameters)).await {
        Ok(text) => text.lines().map(str::to_owned).collect(),
        Err(error) => vec![format!("({error})")],
    }
}

async fn read(
    cluster: &Cluster,
    api: &Api<Pod>,
    pod: &str,
    place: &mut Place,
    events: &Events,
    tail: &Tail,
) -> Result<(), ApiError> {
    let parameters = LogParams {
        // Injectors add containers, and the server refuses to choose among several.
        container: Some(CONTAINER.to_owned()),
        follow: true,
        timestamps: true,
        since_time: place.at,
        ..LogParams::default()
    };
    let action = format!("read the log of pod {pod}");
    let stream = cluster.bounded(&action, api.log_stream(pod, &parameters)).await?;
    let mut stream = std::pin::pin!(stream);
    let mut resumed = place.resume();
    let mut lines = Lines::default();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read =
            stream.read(&mut buffer).await.map_err(|error| ApiError::new(&action, kube::Error::ReadEvents(error)))?;
        lines.feed(&buffer[..read]);
        while let Some(line) = lines.next(read == 0) {
            if let Some(text) = place.take(&line, &mut resumed) {
                tail.push(text.clone());
                events.log(text).await;
            }
        }
        if read == 0 {
            return Ok(());
        }
    }
}

/// How far a log was read: the time of the last line, and how many lines bore it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Place {
    at: Option<Timestamp>,
    lines_at: usize,
}

/// What a stream that was taken up again repeats: `sinceTime` has whole seconds, and lines may share a time.
struct Resumed {
    from: Option<Timestamp>,
    repeated: usize,
}

impl Place {
    fn resume(&self) -> Resumed {
        Resumed { from: self.at, repeated: self.lines_at }
    }

    /// The text of a line that has not been seen yet.
    fn take(&mut self, line: &[u8], resumed: &mut Resumed) -> Option<String> {
        let line = String::from_utf8_lossy(line);
        // The rest of a long line, or a server that sends no times: there is nothing to compare.
        let Some((Ok(at), text)) = line.split_once(' ').map(|(stamp, text)| (stamp.parse::<Timestamp>(), text)) else {
            return Some(line.into_owned());
        };
        if let Some(from) = resumed.from {
            if at < from {
                return None;
            }
            if at == from && resumed.repeated > 0 {
                resumed.repeated -= 1;
                return None;
            }
        }
        if self.at == Some(at) {
            self.lines_at += 1;
        } else {
            *self = Self { at: Some(at), lines_at: 1 };
        }
        Some(text.to_owned())
    }
}

/// Splits bytes into lines of bounded length.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    start: usize,
}

impl Lines {
    fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next line without its end; at the end of the stream also what has no line end.
    fn next(&mut self, at_end: bool) -> Option<Vec<u8>> {
        let rest = &self.bytes[self.start..];
        let (line, used) = match rest.iter().position(|&byte| byte == b'\n') {
            Some(end) => (&rest[..end], end + 1),
            None if rest.len() >= LONGEST_LINE || (at_end && !rest.is_empty()) => (rest, rest.len()),
            None => return None,
        };
        let line = line.strip_suffix(b"\r").unwrap_or(line).to_vec();
        self.start += used;
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamped(second: u32, nanos: u32, text: &str) -> Vec<u8> {
        format!("2026-08-21T14:22:{second:02}.{nanos:09}Z {text}").into_bytes()
    }

    #[test]
    fn r23_a_resumed_log_repeats_and_loses_no_line_even_where_lines_share_a_time() {
        let mut place = Place::default();
        let mut first = place.resume();
        let all = [stamped(1, 0, "a"), stamped(1, 5, "b"), stamped(1, 5, "c"), stamped(1, 5, "d"), stamped(2, 0, "e")];
        let mut seen: Vec<String> = all[..3].iter().filter_map(|line| place.take(line, &mut first)).collect();
        let mut again = place.resume();
        seen.extend(all.iter().filter_map(|line| place.take(line, &mut again)));
        assert_eq!(seen, ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn a_log_without_times_is_shown_as_it_comes() {
        let mut place = Place::default();
        let mut resumed = place.resume();
        assert_eq!(place.take(b"plain text", &mut resumed).as_deref(), Some("plain text"));
        assert_eq!(place.take(b"\xff\xfe x", &mut resumed).as_deref(), Some("\u{fffd}\u{fffd} x"));
    }

    #[test]
    fn lines_are_split_whatever_the_reads_and_long_ones_bounded() {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for piece in ["on", "e\r\ntw", "o\n\nth"] {
            lines.feed(piece.as_bytes());
            while let Some(line) = lines.next(false) {
                seen.push(String::from_utf8(line).unwrap());
            }
        }
        seen.extend(lines.next(true).map(|line| String::from_utf8(line).unwrap()));
        assert_eq!(seen, ["one", "two", "", "th"]);
        lines.feed(&vec![b'x'; LONGEST_LINE]);
        assert_eq!(lines.next(false).map(|line| line.len()), Some(LONGEST_LINE));
    }
}
