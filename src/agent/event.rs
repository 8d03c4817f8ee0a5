//! What happens during a run, for whoever renders it. The library itself prints nothing.

use std::fmt;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::agent::created_set::Uid;
use crate::agent::object::ObjectRef;
use crate::agent::run_id::{InvocationId, RunId};
use crate::diagnose::evidence::Evidence;

/// Bytes of log lines that may wait for a slow reader before the log's stream is held back. The run itself never waits.
const LOG_ROOM: u32 = 256 * 1024;

/// What a line takes beside its text.
const LINE_OVERHEAD: u32 = 64;

/// A step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Checks, reads only.
    Preflight,
    /// Creating the run's objects.
    Deploy,
    /// Waiting for the agent.
    Wait,
    /// Reading the document.
    Fetch,
    /// Handing the document to the user.
    Deliver,
    /// Deleting what the run created.
    Cleanup,
}

impl Phase {
    /// The phase's name in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Preflight => "preflight",
            Self::Deploy => "deploy",
            Self::Wait => "wait",
            Self::Fetch => "fetch",
            Self::Deliver => "deliver",
            Self::Cleanup => "cleanup",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Something that happened. Texts that come from the cluster may hold control characters.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The run has its identity.
    Started {
        /// The run ID.
        run_id: RunId,
        /// The invocation ID.
        invocation_id: InvocationId,
        /// The run's namespace.
        namespace: String,
    },
    /// A step begins.
    Phase(Phase),
    /// Something worth knowing that needs no action.
    Note(String),
    /// Something that may need action; the run goes on.
    Warning(String),
    /// An object was created.
    Created {
        /// The object.
        object: ObjectRef,
        /// The UID that the server gave it.
        uid: Uid,
    },
    /// What the run waits for. Sent once per change.
    Waiting(String),
    /// A line of the agent's log.
    Log(LogLine),
    /// What the cluster shows of a run that failed, before cleanup takes it away.
    Evidence(Evidence),
}

/// A line of the agent's log, without its line end. Dropping it makes room for another.
#[derive(Debug)]
pub struct LogLine {
    /// The line as the agent wrote it, invalid UTF-8 replaced.
    pub text: String,
    _room: OwnedSemaphorePermit,
}

/// The sending half: cheap to clone, never blocks a run.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    sender: Option<mpsc::UnboundedSender<Event>>,
    log_room: Arc<Semaphore>,
}

impl Events {
    /// Events that nobody listens to.
    pub(crate) fn nowhere() -> Self {
        Self { sender: None, log_room: Arc::new(Semaphore::new(LOG_ROOM as usize)) }
    }

    /// Events and their receiver.
    pub(crate) fn channel() -> (Self, mpsc::UnboundedReceiver<Event>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self { sender: Some(sender), ..Self::nowhere() }, receiver)
    }

    pub(crate) fn emit(&self, event: Event) {
        if let Some(sender) = &self.sender {
            // A receiver that is gone wants no more events.
            let _ = sender.send(event);
        }
    }

    pub(crate) fn note(&self, text: impl Into<String>) {
        self.emit(Event::Note(text.into()));
    }

    pub(crate) fn warn(&self, text: impl Into<String>) {
        self.emit(Event::Warning(text.into()));
    }

    /// Sends a log line, waiting for room while the reader is slow.
    pub(crate) async fn log(&self, text: String) {
        let size = u32::try_from(text.len()).unwrap_or(LOG_ROOM).saturating_add(LINE_OVERHEAD).min(LOG_ROOM);
        if self.sender.is_some()
            && let Ok(room) = Arc::clone(&self.log_room).acquire_many_owned(size).await
        {
            self.emit(Event::Log(LogLine { text, _room: room }));
        }
    }
}
