//! Which requests a rule is for, and the handle by which a test follows it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::action::Action;
use super::log::{Entry, Log};

/// A rule that nothing comes to within this time is a test that would hang.
const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Clone, Copy, Debug)]
enum Which {
    Every,
    Nth(usize),
    First(usize),
    From(usize),
}

type Test = Arc<dyn Fn(&Entry) -> bool + Send + Sync>;

/// Selects requests, and of those that match, by count.
#[derive(Clone)]
pub(crate) struct When {
    what: String,
    test: Test,
    which: Which,
}

/// Every request.
pub(crate) fn any() -> When {
    When { what: "any".to_owned(), test: Arc::new(|_| true), which: Which::Every }
}

/// By method and path; in the path `*` stands for anything but `/`, `**` for
/// anything.
pub(crate) fn request(method: &str, path: &str) -> When {
    let (wanted, glob) = (method.to_owned(), path.to_owned());
    any()
        .matching(move |entry| entry.method == *wanted && matches(&glob, &entry.path))
        .named(format!("{method} {path}"))
}

/// `GET` on a path.
pub(crate) fn get(path: &str) -> When {
    request("GET", path)
}

/// `POST` on a path.
pub(crate) fn post(path: &str) -> When {
    request("POST", path)
}

/// `PATCH` on a path.
pub(crate) fn patch(path: &str) -> When {
    request("PATCH", path)
}

/// `DELETE` on a path.
pub(crate) fn delete(path: &str) -> When {
    request("DELETE", path)
}

impl When {
    /// Only those whose query holds this text.
    pub(crate) fn query(self, part: &str) -> Self {
        let wanted = part.to_owned();
        let what = format!("{}?{part}", self.what);
        self.matching(move |entry| entry.query.contains(&wanted)).named(what)
    }

    /// Only those that pass a test of one's own.
    pub(crate) fn matching(mut self, test: impl Fn(&Entry) -> bool + Send + Sync + 'static) -> Self {
        let before = self.test;
        self.test = Arc::new(move |entry| before(entry) && test(entry));
        self
    }

    /// The k-th match alone, counted from 1.
    pub(crate) fn nth(mut self, k: usize) -> Self {
        self.which = Which::Nth(k);
        self
    }

    /// The first n matches.
    pub(crate) fn first(mut self, n: usize) -> Self {
        self.which = Which::First(n);
        self
    }

    /// The k-th match and all after it.
    pub(crate) fn from(mut self, k: usize) -> Self {
        self.which = Which::From(k);
        self
    }

    fn named(mut self, what: String) -> Self {
        self.what = what;
        self
    }

    pub(super) fn test(&self, entry: &Entry) -> bool {
        (self.test)(entry)
    }

    fn counts(&self, n: usize) -> bool {
        match self.which {
            Which::Every => true,
            Which::Nth(k) => n == k,
            Which::First(last) => n <= last,
            Which::From(k) => n >= k,
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.what, self.which)
    }
}

/// Whether `path` has the form of `glob`.
pub(super) fn matches(glob: &str, path: &str) -> bool {
    let Some(star) = glob.find('*') else {
        return glob == path;
    };
    let Some(rest) = path.strip_prefix(&glob[..star]) else {
        return false;
    };
    let (deep, glob) = match glob[star..].strip_prefix("**") {
        Some(glob) => (true, glob),
        None => (false, &glob[star + 1..]),
    };
    let reach = if deep { rest.len() } else { rest.find('/').unwrap_or(rest.len()) };
    (0..=reach).filter(|end| rest.is_char_boundary(*end)).any(|end| matches(glob, &rest[end..]))
}

/// How many of a rule's requests have come how far.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    arrived: usize,
    committed: usize,
    answered: usize,
}

/// A rule in force. Clones are handles on the same rule.
#[derive(Clone)]
pub(crate) struct Rule(Arc<Inner>);

struct Inner {
    when: When,
    action: Action,
    seen: AtomicUsize,
    lifted: AtomicBool,
    progress: watch::Sender<Progress>,
    gate: watch::Sender<bool>,
    log: Arc<Log>,
}

impl Rule {
    pub(super) fn new(when: When, action: Action, log: Arc<Log>) -> Self {
        Self(Arc::new(Inner {
            when,
            action,
            seen: AtomicUsize::new(0),
            lifted: AtomicBool::new(false),
            progress: watch::Sender::default(),
            gate: watch::Sender::new(false),
            log,
        }))
    }

    /// Waits until a request came to this rule.
    pub(crate) async fn arrived(&self) {
        self.reaches("arrive", |progress| progress.arrived > 0).await;
    }

    /// Waits until the API server has answered such a request, whatever the
    /// client learns of it.
    pub(crate) async fn committed(&self) {
        self.reaches("be committed", |progress| progress.committed > 0).await;
    }

    /// Waits until the client was given the whole answer to such a request; of
    /// a watch or a followed log, the answer's head.
    pub(crate) async fn answered(&self) {
        self.reaches("be answered", |progress| progress.answered > 0).await;
    }

    /// How many requests came to this rule.
    pub(crate) fn hits(&self) -> usize {
        self.0.progress.borrow().arrived
    }

    /// Lets go what the rule holds, now and later.
    pub(crate) fn release(&self) {
        self.0.gate.send_replace(true);
    }

    /// Takes the rule out of force and lets go what it holds.
    pub(crate) fn lift(&self) {
        self.0.lifted.store(true, Ordering::SeqCst);
        self.release();
    }

    pub(super) async fn released(&self) {
        let mut gate = self.0.gate.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
        let _ = gate.wait_for(|open| *open).await;
    }

    pub(super) fn action(&self) -> &Action {
        &self.0.action
    }

    /// Counts `entry` if it matches; true if it is one of those that the rule
    /// is for.
    pub(super) fn takes(&self, entry: &Entry) -> bool {
        !self.0.lifted.load(Ordering::SeqCst)
            && self.0.when.test(entry)
            && self.0.when.counts(self.0.seen.fetch_add(1, Ordering::SeqCst) + 1)
    }

    pub(super) fn note_arrived(&self) {
        self.0.progress.send_modify(|progress| progress.arrived += 1);
    }

    pub(super) fn note_committed(&self) {
        self.0.progress.send_modify(|progress| progress.committed += 1);
    }

    pub(super) fn note_answered(&self) {
        self.0.progress.send_modify(|progress| progress.answered += 1);
    }

    async fn reaches(&self, what: &str, goal: impl Fn(&Progress) -> bool) {
        let mut progress = self.0.progress.subscribe();
        let reached = timeout(PATIENCE, progress.wait_for(|p| goal(p))).await.is_ok();
        assert!(reached, "no request came to {what} at the rule {self}; what passed:\n{}", self.0.log.transcript());
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.0.when, self.0.action)
    }
}
