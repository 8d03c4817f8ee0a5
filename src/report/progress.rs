//! Renders a run's events to stderr, on a thread of its own: a reader that is slow or gone never holds the run up.

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::agent::event::{Event, Phase};
use crate::diagnose::evidence::Evidence;
use crate::report::stderr;
use crate::report::text::harmless;

const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const LOG: Style = Style::new().dimmed();

/// What the status line of a terminal shows before its text.
const STATUS: &str = "{spinner} {elapsed} {wide_msg}";

/// How often a terminal's status line moves.
const TICK: Duration = Duration::from_millis(200);

/// Bytes of lines that are written in one go.
const AT_ONCE: usize = 16 * 1024;

/// The thread that renders events.
pub(crate) struct Progress {
    done: mpsc::Receiver<()>,
    shown: Arc<AtomicUsize>,
}

impl Progress {
    /// Renders until the sender of the events is dropped. Quiet leaves warnings only.
    pub(crate) fn start(mut events: UnboundedReceiver<Event>, quiet: bool) -> Self {
        let (finished, done) = mpsc::channel();
        let shown = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut screen = Screen::new(quiet);
            while let Some(first) = events.blocking_recv() {
                screen.show(std::iter::once(first).chain(std::iter::from_fn(|| events.try_recv().ok())));
                count.fetch_add(1, Ordering::Relaxed);
            }
            screen.status.finish_and_clear();
            let _ = finished.send(());
        });
        Self { done, shown }
    }

    /// Lets everything be shown that was emitted, as long as somebody reads.
    pub(crate) fn finish(self) {
        let mut before = self.shown.load(Ordering::Relaxed);
        stderr::wait(&self.done, || before != std::mem::replace(&mut before, self.shown.load(Ordering::Relaxed)));
    }
}

/// Lines, and on a terminal a status line below them.
struct Screen {
    quiet: bool,
    status: ProgressBar,
    since: Instant,
}

impl Screen {
    fn new(quiet: bool) -> Self {
        let status = if quiet { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        if let Ok(style) = ProgressStyle::with_template(STATUS) {
            status.set_style(style);
        }
        Self { quiet, status, since: Instant::now() }
    }

    /// Shows what came at once at once, up to a bound: to redraw the status line for each of many lines takes long.
    fn show(&mut self, mut events: impl Iterator<Item = Event>) {
        let mut lines = String::new();
        while lines.len() < AT_ONCE
            && let Some(event) = events.next()
        {
            match &event {
                Event::Phase(phase) => self.set_status(doing(*phase)),
                Event::Waiting(text) => self.set_status(&harmless(text)),
                _ => {}
            }
            if let Some(line) = line(&event, self.quiet, self.since.elapsed()) {
                lines.push_str(&line);
                lines.push('\n');
            }
        }
        if !lines.is_empty() {
            self.status.suspend(|| {
                // Nobody is left to be told that stderr is closed.
                let _ = anstream::stderr().lock().write_all(lines.as_bytes());
            });
        }
    }

    fn set_status(&self, text: &str) {
        self.status.set_message(text.replace('\n', " "));
        if !self.quiet {
            self.status.enable_steady_tick(TICK);
        }
    }
}

fn doing(phase: Phase) -> &'static str {
    match phase {
        Phase::Preflight => "checking what the run needs",
        Phase::Deploy => "creating the run's objects",
        Phase::Wait => "waiting for the agent",
        Phase::Fetch => "reading the document",
        Phase::Deliver => "handing the document over",
        Phase::Cleanup => "deleting what the run created",
    }
}

fn line(event: &Event, quiet: bool, elapsed: Duration) -> Option<String> {
    if let Event::Warning(text) = event {
        return Some(format!("{WARNING}warning:{WARNING:#} {}", harmless(text)));
    }
    if let Event::Evidence(evidence) = event {
        return (!evidence.is_empty()).then(|| harmless(&shown(evidence)).into_owned());
    }
    if quiet {
        return None;
    }
    match event {
        Event::Started { run_id, namespace, .. } => Some(format!("run {run_id} in namespace {namespace}")),
        Event::Created { object, .. } => Some(format!("created {object}")),
        Event::Note(text) => Some(harmless(text).into_owned()),
        Event::Waiting(text) => Some(format!("waiting ({}s): {}", elapsed.as_secs(), harmless(text))),
        Event::Log(line) => Some(format!("{LOG}agent |{LOG:#} {}", harmless(&line.text))),
        Event::Phase(_) | Event::Warning(_) | Event::Evidence(_) => None,
    }
}

/// One indented line for each thing that the cluster showed.
fn shown(evidence: &Evidence) -> String {
    let parts = [("job", &evidence.job), ("pod", &evidence.pods), ("event", &evidence.events), ("log", &evidence.log)];
    let lines = parts.iter().flat_map(|(what, lines)| lines.iter().map(move |line| format!("\n  {what:<5} | {line}")));
    std::iter::once("what the cluster showed:".to_owned()).chain(lines).collect()
}
