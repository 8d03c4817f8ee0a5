//! What may go wrong at a request.

use std::fmt;

use rustix::process::Signal;

use crate::support::proxy::{Action, Fault, Status, after, answer, before, commit_late};

/// Once, at one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disturbance {
    /// It is lost on its way to the server.
    Dropped,
    /// Its answer is lost.
    AnswerLost,
    Answered(u16),
    /// No answer comes.
    Hangs,
    /// The connection is reset with all that it carries, before the server has seen the request or after.
    ResetBefore,
    ResetAfter,
    /// The client loses it at once, and the server commits it when the process has ended.
    Late,
    /// The process gets a signal while the server has not seen the request.
    SignalBefore(Signal),
    /// The process gets a signal while the server has answered and the process has not heard.
    SignalAfter(Signal),
    /// The process is killed, and the server commits the request after that.
    KilledThenLate,
}

impl Disturbance {
    /// Those that may befall any request.
    pub(super) const ANYWHERE: [Self; 18] = [
        Self::Dropped,
        Self::SignalBefore(Signal::INT),
        Self::AnswerLost,
        Self::SignalAfter(Signal::INT),
        Self::Answered(403),
        Self::SignalBefore(Signal::KILL),
        Self::Answered(409),
        Self::SignalAfter(Signal::KILL),
        Self::Answered(429),
        Self::SignalBefore(Signal::TERM),
        Self::Answered(500),
        Self::SignalAfter(Signal::TERM),
        Self::Answered(503),
        Self::SignalBefore(Signal::HUP),
        Self::Hangs,
        Self::SignalAfter(Signal::HUP),
        Self::ResetBefore,
        Self::ResetAfter,
    ];

    /// Those that may befall a write besides.
    pub(super) const OF_WRITES: [Self; 2] = [Self::Late, Self::KilledThenLate];

    /// What the proxy does to the request.
    pub(super) fn action(self) -> Action {
        match self {
            Self::Dropped => before(Fault::Drop),
            Self::AnswerLost => after(Fault::Drop),
            Self::Answered(403) => answer(Status::forbidden()),
            Self::Answered(409) => answer(Status::conflict()),
            Self::Answered(429) => answer(Status::too_many_requests(1)),
            Self::Answered(500) => answer(Status::internal_error()),
            Self::Answered(503) => answer(Status::unavailable()),
            Self::Answered(code) => unreachable!("no answer {code} is made"),
            Self::Hangs => before(Fault::Hang),
            Self::ResetBefore => before(Fault::Reset),
            Self::ResetAfter => after(Fault::Reset),
            Self::Late | Self::KilledThenLate => commit_late(),
            Self::SignalBefore(_) => before(Fault::Hold),
            Self::SignalAfter(_) => after(Fault::Hold),
        }
    }

    /// The signal that comes when the request has got there.
    pub(super) fn signal(self) -> Option<Signal> {
        match self {
            Self::SignalBefore(signal) | Self::SignalAfter(signal) => Some(signal),
            Self::KilledThenLate => Some(Signal::KILL),
            _ => None,
        }
    }

    /// Whether the request has got there only when the server has answered it.
    pub(super) fn awaits_commit(self) -> bool {
        matches!(self, Self::SignalAfter(_))
    }

    /// Whether the server commits the request when the process has ended.
    pub(super) fn comes_late(self) -> bool {
        matches!(self, Self::Late | Self::KilledThenLate)
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dropped => f.write_str("dropped before the server"),
            Self::AnswerLost => f.write_str("answer lost"),
            Self::Answered(code) => write!(f, "answered {code}"),
            Self::Hangs => f.write_str("hangs"),
            Self::ResetBefore => f.write_str("connection reset before the server"),
            Self::ResetAfter => f.write_str("connection reset after the server"),
            Self::Late => f.write_str("lost, and committed after the process has ended"),
            Self::SignalBefore(signal) => write!(f, "signal {} before the server", signal.as_raw()),
            Self::SignalAfter(signal) => write!(f, "signal {} after the server", signal.as_raw()),
            Self::KilledThenLate => f.write_str("killed, and committed after that"),
        }
    }
}
