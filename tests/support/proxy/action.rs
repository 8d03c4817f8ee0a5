//! What a rule does to a request.

use std::time::Duration;

use super::status::Status;

/// What becomes of a request. The functions of this module make them.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// It passes; the rule only tells of it.
    Observe,
    /// The proxy answers, and the API server sees nothing.
    Answer(Status),
    /// Something goes wrong on its way.
    Fail(Point, Fault),
    /// The client loses it at once; it reaches the API server when the rule is
    /// released, as a request may that was on its way when its client died.
    CommitLate,
    /// The answer begins well and ends otherwise.
    Cut(Limit, End),
}

/// Where on a request's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// The API server has not seen it.
    Before,
    /// The API server has answered, the client has not heard.
    After,
}

/// What happens there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// HTTP/2 resets the one stream, HTTP/1.1 closes the connection.
    Drop,
    /// The connection ends with a TCP reset, and all that it carried with it.
    Reset,
    /// The connection stays, but no byte goes either way any more.
    Silence,
    /// No answer, ever.
    Hang,
    /// It goes on after a time.
    Delay(Duration),
    /// It goes on when the rule is released.
    Hold,
}

/// How far an answer's body goes before it is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// This long after its head.
    Time(Duration),
    /// After this many bytes.
    Bytes(usize),
    /// After this many whole lines.
    Lines(usize),
}

/// How a cut body ends.
#[derive(Clone, Debug)]
pub(crate) enum End {
    /// As if it were complete.
    Close,
    /// As `Fault::Drop`.
    Drop,
    /// As `Fault::Reset`.
    Reset,
    /// Not at all: nothing more comes.
    Stall,
    /// With an `ERROR` event of a watch, and then as if it were complete.
    Error(Status),
}

/// The proxy answers in the API server's place.
pub(crate) fn answer(status: Status) -> Action {
    Action::Answer(status)
}

/// Fails before the API server sees the request.
pub(crate) fn before(fault: Fault) -> Action {
    Action::Fail(Point::Before, fault)
}

/// Fails after the API server has answered the request.
pub(crate) fn after(fault: Fault) -> Action {
    Action::Fail(Point::After, fault)
}

/// Loses the request for the client, and commits it on release.
pub(crate) fn commit_late() -> Action {
    Action::CommitLate
}

/// Cuts the answer's body.
pub(crate) fn cut(limit: Limit, end: End) -> Action {
    Action::Cut(limit, end)
}
