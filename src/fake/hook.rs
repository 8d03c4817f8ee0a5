//! Hooks: what happens to a request before or after it is carried out.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::core::Status;
use serde_json::Value;
use tokio::sync::watch;

use super::request::Request;

/// What happens to a request.
#[derive(Clone)]
#[non_exhaustive]
pub enum Fault {
    /// It is answered with this instead. After its commit this is the answer to something that was done.
    Fail(Box<Status>),
    /// It takes that long.
    Delay(Duration),
    /// It waits for [`Hook::release`].
    Hold,
    /// There is no answer: the connection breaks. After its commit this is a lost answer.
    Drop,
    /// Its body, or after its commit its answer, is changed on the way.
    Change(Arc<dyn Fn(&mut Value) + Send + Sync>),
}

impl Fault {
    /// A refusal with an HTTP code, a reason such as `Forbidden`, and a message.
    #[must_use]
    pub fn fail(code: u16, reason: &str, message: &str) -> Self {
        Self::Fail(Status::failure(message, reason).with_code(code).boxed())
    }

    /// A change of the body or the answer.
    #[must_use]
    pub fn change(change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        Self::Change(Arc::new(change))
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fail(status) => f.debug_tuple("Fail").field(status).finish(),
            Self::Delay(time) => f.debug_tuple("Delay").field(time).finish(),
            Self::Hold => f.write_str("Hold"),
            Self::Drop => f.write_str("Drop"),
            Self::Change(_) => f.write_str("Change"),
        }
    }
}

/// When a hook acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    Before,
    After,
}

type When = dyn Fn(&Request) -> bool + Send + Sync;

struct Inner {
    point: Point,
    when: Box<When>,
    fault: Fault,
    hits: AtomicUsize,
    limit: AtomicUsize,
    lifted: AtomicBool,
    arrived: watch::Sender<usize>,
    open: watch::Sender<bool>,
}

/// A hook in force. Clones are handles on the same one; dropping them does not lift it.
#[derive(Clone)]
pub struct Hook(Arc<Inner>);

impl Hook {
    fn new(point: Point, when: Box<When>, fault: Fault) -> Self {
        Self(Arc::new(Inner {
            point,
            when,
            fault,
            hits: AtomicUsize::new(0),
            limit: AtomicUsize::new(usize::MAX),
            lifted: AtomicBool::new(false),
            arrived: watch::Sender::new(0),
            open: watch::Sender::new(false),
        }))
    }

    /// Confines the hook to the first requests that it fits.
    #[must_use]
    pub fn times(self, limit: usize) -> Self {
        self.0.limit.store(limit, Ordering::SeqCst);
        self
    }

    /// How many requests it acted on.
    #[must_use]
    pub fn hits(&self) -> usize {
        *self.0.arrived.borrow()
    }

    /// Waits until it acted on a request.
    pub async fn arrived(&self) {
        let mut arrived = self.0.arrived.subscribe();
        // The sender lives in `self`.
        let _ = arrived.wait_for(|hits| *hits > 0).await;
    }

    /// Lets go what it holds, now and later.
    pub fn release(&self) {
        self.0.open.send_replace(true);
    }

    /// Takes it out of force and lets go what it holds.
    pub fn lift(&self) {
        self.0.lifted.store(true, Ordering::SeqCst);
        self.release();
    }

    fn takes(&self, point: Point, request: &Request) -> bool {
        let hook = &self.0;
        hook.point == point
            && !hook.lifted.load(Ordering::SeqCst)
            && (hook.when)(request)
            && hook.hits.fetch_add(1, Ordering::SeqCst) < hook.limit.load(Ordering::SeqCst)
    }

    pub(super) fn fault(&self) -> &Fault {
        &self.0.fault
    }

    pub(super) fn note_arrival(&self) {
        self.0.arrived.send_modify(|hits| *hits += 1);
    }

    pub(super) async fn released(&self) {
        let mut open = self.0.open.subscribe();
        // The sender lives in `self`.
        let _ = open.wait_for(|open| *open).await;
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook").field("point", &self.0.point).field("fault", &self.0.fault).finish_non_exhaustive()
    }
}

/// The hooks of a cluster, in the order in which they were set.
#[derive(Debug, Default)]
pub(super) struct Hooks(Mutex<Vec<Hook>>);

impl Hooks {
    pub(super) fn add(&self, point: Point, when: Box<When>, fault: Fault) -> Hook {
        let hook = Hook::new(point, when, fault);
        let mut hooks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        hooks.retain(|hook| !hook.0.lifted.load(Ordering::SeqCst));
        hooks.push(hook.clone());
        hook
    }

    /// The hooks that act on a request.
    pub(super) fn of(&self, point: Point, request: &Request) -> Vec<Hook> {
        let hooks = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        hooks.into_iter().filter(|hook| hook.takes(point, request)).collect()
    }
}
