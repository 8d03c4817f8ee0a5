//! One request on its way through the proxy.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tokio::time::sleep;

use super::action::{Action, Fault};
use super::log::{Entry, Fate, Log};
use super::rule::Rule;
use super::socket::Line;

/// Why an answer ends early.
#[derive(Debug, thiserror::Error)]
#[error("broken off by the fault proxy")]
pub(super) struct Broken;

/// A request, the rules that are for it, and where to write down its story.
pub(super) struct Case {
    pub(super) entry: Entry,
    pub(super) line: Arc<Line>,
    log: Arc<Log>,
    rules: Vec<Rule>,
    over: AtomicBool,
}

impl Case {
    pub(super) fn new(entry: Entry, line: Arc<Line>, log: Arc<Log>, rules: Vec<Rule>) -> Self {
        let case = Self { entry, line, log, rules, over: AtomicBool::new(false) };
        if let Some(rule) = case.acting() {
            case.update(|entry| entry.rule = Some(rule.to_string()));
        }
        case.rules.iter().for_each(Rule::note_arrived);
        case
    }

    /// The first rule that does more than look on.
    fn acting(&self) -> Option<&Rule> {
        self.rules.iter().find(|rule| !matches!(rule.action(), Action::Observe))
    }

    pub(super) fn action(&self) -> Action {
        let rule = self.acting();
        rule.map_or(Action::Observe, |rule| rule.action().clone())
    }

    /// The API server's answer has begun.
    pub(super) fn committed(&self) {
        self.update(|entry| entry.committed = Some(Instant::now()));
        self.rules.iter().for_each(Rule::note_committed);
    }

    /// The API server could not be asked.
    pub(super) fn unreachable(&self, why: &str) {
        self.update(|entry| entry.rule = Some(format!("no answer from the API server: {why}")));
        self.end(Fate::Broken);
    }

    /// The client is being sent an answer with this status.
    pub(super) fn answering(&self, status: u16) {
        self.update(|entry| entry.status = Some(status));
        if self.entry.is_stream() {
            self.rules.iter().for_each(Rule::note_answered);
        }
    }

    /// The request is over; only the first call counts.
    pub(super) fn end(&self, fate: Fate) {
        if self.over.swap(true, Ordering::SeqCst) {
            return;
        }
        self.update(|entry| {
            entry.fate = fate;
            entry.ended = Some(Instant::now());
        });
        if fate == Fate::Done && !self.entry.is_stream() {
            self.rules.iter().for_each(Rule::note_answered);
        }
    }

    /// Lets `fault` happen. It goes on after that, or breaks the stream, or never returns.
    pub(super) async fn suffer(&self, fault: Fault) -> Result<(), Broken> {
        match fault {
            Fault::Delay(time) => sleep(time).await,
            Fault::Hold => self.released().await,
            Fault::Hang => pending::<()>().await,
            Fault::Drop => {
                self.end(Fate::Broken);
                return Err(Broken);
            }
            Fault::Reset => {
                self.end(Fate::Broken);
                self.line.reset();
                pending::<()>().await;
            }
            Fault::Silence => {
                self.line.silence();
                pending::<()>().await;
            }
        }
        Ok(())
    }

    /// Waits until the acting rule lets go of what it holds.
    pub(super) async fn released(&self) {
        if let Some(rule) = self.acting() {
            rule.released().await;
        }
    }

    fn update(&self, change: impl FnOnce(&mut Entry)) {
        self.log.update(self.entry.seq, change);
    }
}

/// Whoever holds this carries the request on; if it is dropped before the
/// request is over, the client has gone away.
pub(super) struct Carrier(pub(super) Arc<Case>);

impl Drop for Carrier {
    fn drop(&mut self) {
        self.0.end(Fate::Abandoned);
    }
}
