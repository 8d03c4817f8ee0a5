//! Everything that can end a run badly, and the exit code of each (R42).

use std::fmt;
use std::time::Duration;

use crate::agent::object::ObjectRef;
use crate::agent::preflight::report::Report;
use crate::agent::run_id::RunId;
use crate::kubeconfig::{self, Diagnosis, DiagnosisKind};

/// Exit codes of the command line (R42).
pub mod exit {
    /// Done.
    pub const OK: u8 = 0;
    /// Any other error.
    pub const OTHER: u8 = 1;
    /// Invalid input, kubeconfig and context included, or declined.
    pub const INVALID: u8 = 2;
    /// Something named does not exist.
    pub const NOT_FOUND: u8 = 3;
    /// Not permitted or not authenticated; or a listing that showed only a part.
    pub const NOT_PERMITTED: u8 = 4;
    /// Timed out.
    pub const TIMED_OUT: u8 = 5;
    /// Cluster or identity provider unreachable, TLS failures included.
    pub const UNREACHABLE: u8 = 6;
    /// A bug of this program.
    pub const INTERNAL: u8 = 8;
    /// The agent's Job failed.
    pub const JOB_FAILED: u8 = 10;
    /// The document was delivered but objects were left; or a cleanup that left some.
    pub const LEFT_BEHIND: u8 = 11;
    /// Added to a signal's number when it ended the run.
    pub const SIGNAL: u8 = 128;
    /// The reader of stdout went away (128 + SIGPIPE).
    pub const STDOUT_CLOSED: u8 = 141;

    /// One word for an exit code, as reports hold it.
    #[must_use]
    pub fn reason(code: u8) -> &'static str {
        match code {
            OK => "Succeeded",
            INVALID => "Invalid",
            NOT_FOUND => "NotFound",
            NOT_PERMITTED => "NotPermitted",
            TIMED_OUT => "TimedOut",
            UNREACHABLE => "Unreachable",
            INTERNAL => "Internal",
            JOB_FAILED => "JobFailed",
            LEFT_BEHIND => "LeftBehind",
            STDOUT_CLOSED => "StdoutClosed",
            SIGNAL.. => "Interrupted",
            _ => "Failed",
        }
    }
}

/// Input that is refused before the cluster hears of it: which flag or field, its value, and the rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid value \"{value}\" for {input}: {rule}")]
pub struct Invalid {
    input: String,
    value: String,
    rule: String,
}

impl Invalid {
    pub(crate) fn new(input: impl Into<String>, value: impl Into<String>, rule: impl Into<String>) -> Self {
        Self { input: input.into(), value: value.into(), rule: rule.into() }
    }

    /// The flag or field.
    #[must_use]
    pub fn input(&self) -> &str {
        &self.input
    }

    /// The same, said of another flag or field.
    pub(crate) fn of(self, input: String) -> Self {
        Self { input, ..self }
    }
}

/// A call to the API server that did not give what it was made for.
#[derive(Debug)]
pub struct ApiError {
    /// What was attempted: "create Job gpu/aicr-1".
    pub action: String,
    /// What came of it.
    pub failure: Failure,
}

/// Why a call failed.
#[derive(Debug)]
pub enum Failure {
    /// The server answered with a refusal.
    Status(Box<kube::core::Status>),
    /// No answer within the bound of a single call. Whether a write was committed is unknown.
    NoAnswer(Duration),
    /// The connection, authentication plug-in or transfer failed. Whether a write was committed is unknown.
    Transport(Box<kube::Error>),
}

impl ApiError {
    pub(crate) fn new(action: impl Into<String>, source: kube::Error) -> Self {
        let failure = match source {
            kube::Error::Api(status) => Failure::Status(status),
            other => Failure::Transport(Box::new(other)),
        };
        Self { action: action.into(), failure }
    }

    /// The server's refusal, if it gave one.
    #[must_use]
    pub fn status(&self) -> Option<&kube::core::Status> {
        match &self.failure {
            Failure::Status(status) => Some(status),
            Failure::NoAnswer(_) | Failure::Transport(_) => None,
        }
    }

    /// Whether the server refused with this HTTP status.
    pub(crate) fn has_code(&self, code: u16) -> bool {
        self.status().is_some_and(|status| status.code == code)
    }

    /// The reason decides, not the code: 409 can come from a quota race as well (R6).
    pub(crate) fn is_already_exists(&self) -> bool {
        self.status().is_some_and(kube::core::Status::is_already_exists)
    }

    /// Whether the API server itself says that the object is not there. What stands before it answers 404 as well, to
    /// anything, and kube's own helper takes that for the same.
    pub(crate) fn is_not_found(&self) -> bool {
        self.status().is_some_and(|status| status.reason == "NotFound")
    }

    pub(crate) fn is_forbidden(&self) -> bool {
        self.status().is_some_and(|status| status.is_forbidden() || status.code == 403)
    }

    fn exit_code(&self) -> u8 {
        match self.diagnosis().kind {
            DiagnosisKind::Unreachable => exit::UNREACHABLE,
            DiagnosisKind::Unauthenticated | DiagnosisKind::Forbidden => exit::NOT_PERMITTED,
            DiagnosisKind::Refused if self.has_code(504) => exit::TIMED_OUT,
            DiagnosisKind::Refused => exit::OTHER,
        }
    }

    fn diagnosis(&self) -> Diagnosis {
        match &self.failure {
            Failure::Status(status) => kubeconfig::refusal(status),
            Failure::NoAnswer(after) => Diagnosis {
                kind: DiagnosisKind::Unreachable,
                cause: format!("no answer from the API server within {after:?}"),
                next: Some("look at the API server's health, or allow more time with --request-timeout".to_owned()),
            },
            Failure::Transport(source) => kubeconfig::classify(source),
        }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.action, self.diagnosis().cause)
    }
}

impl std::error::Error for ApiError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.failure {
            Failure::Transport(source) => Some(source.as_ref()),
            Failure::Status(_) | Failure::NoAnswer(_) => None,
        }
    }
}

/// A signal that ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGHUP: the terminal went away.
    Hangup,
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM: asked to stop.
    Terminate,
}

impl Signal {
    /// The signal's number.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Hangup => 1,
            Self::Interrupt => 2,
            Self::Terminate => 15,
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hangup => "SIGHUP",
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        })
    }
}

/// What ended a run badly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Input that no cluster is needed to refuse.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The kubeconfig, context or connection flags do not lead to a cluster.
    #[error(transparent)]
    Connection(#[from] crate::kubeconfig::Error),
    /// The user said no, or could not be asked.
    #[error("{0}")]
    Declined(String),
    /// An object stands already at a name that carries this run ID.
    #[error("run ID {run_id} is in use: {object} exists already and is left as it is")]
    RunIdInUse {
        /// The run ID.
        run_id: RunId,
        /// What stands there.
        object: ObjectRef,
    },
    /// Something that was named does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The checks before the run found something that has to change. Nothing was written.
    #[error("{0}")]
    Preflight(Box<Report>),
    /// A call failed.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The deadline of the run passed.
    #[error("timed out after {after:?}: {waiting_for}")]
    TimedOut {
        /// The deadline.
        after: Duration,
        /// What was still awaited.
        waiting_for: String,
        /// What most likely helps against it, if that is known.
        next_step: Option<String>,
    },
    /// The agent's Job failed.
    #[error("{reason}")]
    JobFailed {
        /// Which object, and why in the cluster's words.
        reason: String,
        /// What most likely helps.
        next_step: String,
    },
    /// The Job is not there any more, or another one stands in its place.
    #[error("{reason}")]
    JobLost {
        /// The Job, and what became of it.
        reason: String,
        /// What most likely helps.
        next_step: String,
    },
    /// The agent finished but left no document.
    #[error("{config_map} {problem}")]
    NoDocument {
        /// Where it should have been.
        config_map: ObjectRef,
        /// "does not exist", "has no key snapshot.yaml", …
        problem: String,
    },
    /// The document cannot be shown in the format asked for.
    #[error("cannot show the snapshot as {format}: {reason}")]
    Document {
        /// The format.
        format: &'static str,
        /// Why.
        reason: String,
    },
    /// A file could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The reader of stdout went away.
    #[error("stdout was closed by its reader")]
    StdoutClosed,
    /// The document was delivered, or a cleanup ran, but objects were left.
    #[error("{count} object(s) of run {} could not be cleaned up", joined(runs, ", "))]
    LeftBehind {
        /// How many.
        count: usize,
        /// Of which runs.
        runs: Vec<RunId>,
    },
    /// A listing shows only what may be seen.
    #[error("the list is incomplete: not everything may be looked at")]
    Incomplete,
    /// A second signal ended the run before its cleanup had ended.
    #[error("stopped by a second signal ({signal}): objects of run {run_id} may be left")]
    Stopped {
        /// The signal.
        signal: Signal,
        /// Of which run.
        run_id: RunId,
    },
    /// A signal ended the run.
    #[error("interrupted by {0}")]
    Interrupted(Signal),
    /// A bug.
    #[error("internal error: {0}")]
    Internal(String),
}

fn joined(runs: &[RunId], separator: &str) -> String {
    runs.iter().map(RunId::as_str).collect::<Vec<_>>().join(separator)
}

impl Error {
    /// The command line's exit code (R42).
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Connection(error) if error.is_unauthenticated() => exit::NOT_PERMITTED,
            Self::Connection(error) if error.is_unreachable() => exit::UNREACHABLE,
            Self::Invalid(_) | Self::Connection(_) | Self::Declined(_) => exit::INVALID,
            Self::NotFound(_) => exit::NOT_FOUND,
            Self::Preflight(report) => report.exit_code(),
            Self::Api(error) => error.exit_code(),
            Self::Incomplete => exit::NOT_PERMITTED,
            Self::TimedOut { .. } => exit::TIMED_OUT,
            Self::JobFailed { .. } => exit::JOB_FAILED,
            Self::StdoutClosed => exit::STDOUT_CLOSED,
            Self::LeftBehind { .. } => exit::LEFT_BEHIND,
            Self::Interrupted(signal) | Self::Stopped { signal, .. } => exit::SIGNAL + signal.number(),
            Self::Internal(_) => exit::INTERNAL,
            Self::RunIdInUse { .. }
            | Self::JobLost { .. }
            | Self::NoDocument { .. }
            | Self::Document { .. }
            | Self::Write { .. } => exit::OTHER,
        }
    }

    /// The command or change that most likely helps.
    #[must_use]
    pub fn next_step(&self) -> Option<String> {
        match self {
            Self::RunIdInUse { run_id, .. } => Some(format!(
                "leave --run-id out for a new run ID; if the other run has ended, finish it with `kubectl aicr cleanup {run_id}`"
            )),
            Self::LeftBehind { runs, .. } => Some(format!(
                "see why with `kubectl aicr orphans -A`, and finish with `kubectl aicr cleanup {}`",
                joined(runs, " ")
            )),
            Self::Stopped { run_id, .. } => Some(format!("finish with `kubectl aicr cleanup {run_id}`")),
            Self::Api(error) => error.diagnosis().next,
            Self::TimedOut { next_step, .. } => {
                Some(next_step.clone().unwrap_or_else(|| "give the run more time with --timeout".to_owned()))
            }
            Self::JobFailed { next_step, .. } | Self::JobLost { next_step, .. } => Some(next_step.clone()),
            Self::NoDocument { .. } => {
                Some("run again with --debug, and see what the agent says in its log".to_owned())
            }
            Self::Invalid(_) => Some("see `kubectl aicr --help`".to_owned()),
            _ => None,
        }
    }
}
