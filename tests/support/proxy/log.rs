//! What passed through the proxy, in order.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Version, header};

use super::target::Target;

/// How a request ended, as far as it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The answer, or its end, is still to come.
    Open,
    /// The client got the whole answer.
    Done,
    /// The proxy or the server broke it off.
    Broken,
    /// The client went away first.
    Abandoned,
}

/// One request and what became of it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) seq: usize,
    pub(crate) connection: usize,
    pub(crate) version: Version,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    /// As sent, but of `Authorization` only the scheme.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The rule that acted on it.
    pub(crate) rule: Option<String>,
    pub(crate) arrived: Instant,
    /// When the API server's answer began: the request is committed by then. A
    /// request whose client went away before that may be, unseen.
    pub(crate) committed: Option<Instant>,
    /// Status of the answer that the client was sent.
    pub(crate) status: Option<u16>,
    pub(crate) ended: Option<Instant>,
    pub(crate) fate: Fate,
}

impl Entry {
    /// The object or collection that the request is about.
    pub(crate) fn target(&self) -> Target {
        Target::of(self)
    }

    /// Whether it may change the cluster; reviews and dry runs do not.
    pub(crate) fn is_write(&self) -> bool {
        !self.method.is_safe()
            && !self.query.contains("dryRun=")
            && !self.path.starts_with("/apis/authorization.k8s.io/")
            && !self.path.starts_with("/apis/authentication.k8s.io/")
    }

    /// Whether its answer has no end of its own: a watch, or a followed log.
    pub(crate) fn is_stream(&self) -> bool {
        self.query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1" | "follow=true" | "follow=1"))
    }

    /// Whether the run goes on only when it is answered. Watches, their lists and the log go on beside it while the
    /// agent works; looks at the Job after its delete wait for its termination.
    pub(crate) fn holds_up_the_run(&self) -> bool {
        let resource = self.target().resource;
        let beside = ["jobs", "pods", "events"].contains(&resource.as_str()) && self.method == Method::GET;
        !beside && !self.is_stream()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {} {}", self.seq, self.method, self.path)?;
        if !self.query.is_empty() {
            write!(f, "?{}", self.query)?;
        }
        match self.status {
            Some(status) => write!(f, " -> {status}")?,
            None => write!(f, " -> no answer")?,
        }
        write!(f, " {:?}", self.fate)?;
        if let Some(ended) = self.ended {
            write!(f, " after {:?}", ended - self.arrived)?;
        }
        if let Some(rule) = &self.rule {
            write!(f, " [{rule}]")?;
        }
        Ok(())
    }
}

/// The entries and the connections that they came on.
#[derive(Debug, Default)]
pub(super) struct Log {
    entries: Mutex<Vec<Entry>>,
    seq: AtomicUsize,
    pub(super) connections: AtomicUsize,
    pub(super) handshakes: AtomicUsize,
}

impl Log {
    /// Opens the entry of a request that has arrived whole.
    pub(super) fn open(&self, connection: usize, parts: &Parts, body: &Bytes) -> Entry {
        // The number is taken under the lock, so that the order of the numbers
        // is the order of the entries.
        let mut entries = self.entries.lock().unwrap();
        let entry = Entry {
            seq: self.seq.fetch_add(1, Ordering::SeqCst) + 1,
            connection,
            version: parts.version,
            method: parts.method.clone(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            headers: without_secret(parts.headers.clone()),
            body: body.clone(),
            rule: None,
            arrived: Instant::now(),
            committed: None,
            status: None,
            ended: None,
            fate: Fate::Open,
        };
        entries.push(entry.clone());
        entry
    }

    pub(super) fn update(&self, seq: usize, change: impl FnOnce(&mut Entry)) {
        let mut entries = self.entries.lock().unwrap();
        // None after a reset of the log.
        if let Some(entry) = entries.iter_mut().rfind(|entry| entry.seq == seq) {
            change(entry);
        }
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        self.entries.lock().unwrap().clone()
    }

    pub(super) fn reset(&self) {
        self.entries.lock().unwrap().clear();
        self.connections.store(0, Ordering::SeqCst);
        self.handshakes.store(0, Ordering::SeqCst);
    }

    /// For a person who reads why a test failed.
    pub(super) fn transcript(&self) -> String {
        let lines: Vec<String> = self.entries().iter().map(Entry::to_string).collect();
        lines.join("\n")
    }
}

fn without_secret(mut headers: HeaderMap) -> HeaderMap {
    if let Some(value) = headers.get_mut(header::AUTHORIZATION) {
        let text = value.to_str().unwrap_or_default();
        let scheme = text.split(' ').next().unwrap_or_default();
        *value = HeaderValue::from_str(scheme).unwrap();
    }
    headers
}

/// Sorts requests into the waves in which they must have been sent.
///
/// A request belongs to the wave after the last one of those that had ended
/// before it arrived, so the number of waves is the number of round trips that
/// followed one another. Give the proxy a round-trip time that outlasts the
/// client's own scheduling, or requests that were sent together may not overlap.
pub(crate) fn waves(entries: &[Entry]) -> Vec<Vec<Entry>> {
    let mut waves: Vec<Vec<Entry>> = Vec::new();
    for entry in entries {
        let before = |earlier: &Entry| earlier.ended.is_some_and(|ended| ended < entry.arrived);
        let wave = waves.iter().rposition(|wave| wave.iter().any(before)).map_or(0, |last| last + 1);
        if wave == waves.len() {
            waves.push(Vec::new());
        }
        waves[wave].push(entry.clone());
    }
    waves
}
