//! Signals that end a run (R42).

use std::io;

use crate::error::Signal;

/// Signals, from the moment of making this on. The first cancels, the second stops at once.
pub(crate) struct Signals {
    #[cfg(unix)]
    streams: [(Signal, tokio::signal::unix::Signal); 3],
}

impl Signals {
    #[cfg(unix)]
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            streams: [
                (Signal::Hangup, signal(SignalKind::hangup())?),
                (Signal::Interrupt, signal(SignalKind::interrupt())?),
                (Signal::Terminate, signal(SignalKind::terminate())?),
            ],
        })
    }

    #[cfg(not(unix))]
    #[expect(clippy::unnecessary_wraps, reason = "the same signature on every platform")]
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// The next signal.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) -> Signal {
        let [(hangup, a), (interrupt, b), (terminate, c)] = &mut self.streams;
        tokio::select! {
            _ = a.recv() => *hangup,
            _ = b.recv() => *interrupt,
            _ = c.recv() => *terminate,
        }
    }

    /// The next signal: Ctrl-C is the only one there is.
    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) -> Signal {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Signal::Interrupt,
            Err(_) => std::future::pending().await,
        }
    }
}
