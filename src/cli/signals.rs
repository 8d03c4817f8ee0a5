//! Signals that end a run (R42).

use std::io;

#[cfg(unix)]
use futures::{FutureExt as _, future::select_all};

use crate::error::Signal;

/// Signals, from the moment of making this on. The first cancels, the second stops at once.
pub(crate) struct Signals {
    #[cfg(unix)]
    streams: Vec<(Signal, tokio::signal::unix::Signal)>,
}

impl Signals {
    /// A hangup that whoever started this process has it ignore stays ignored.
    #[cfg(unix)]
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut streams = vec![
            (Signal::Interrupt, signal(SignalKind::interrupt())?),
            (Signal::Terminate, signal(SignalKind::terminate())?),
        ];
        if !hangup_is_ignored() {
            streams.push((Signal::Hangup, signal(SignalKind::hangup())?));
        }
        Ok(Self { streams })
    }

    #[cfg(not(unix))]
    #[expect(clippy::unnecessary_wraps, reason = "the same signature on every platform")]
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// The next signal.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) -> Signal {
        let streams = self.streams.iter_mut();
        let each = streams.map(|(signal, stream)| stream.recv().map(|_| *signal).boxed());
        select_all(each).await.0
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

/// Whether this was started to outlive its terminal, as by nohup. Only Linux tells without unsafe code; elsewhere a hangup
/// always ends a run.
#[cfg(unix)]
fn hangup_is_ignored() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores_hangup(&status))
}

/// `SigIgn` is a mask in hexadecimal, SIGHUP its lowest bit (`proc_pid_status(5)`).
#[cfg(unix)]
fn ignores_hangup(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

#[cfg(all(test, unix))]
mod tests {
    use super::ignores_hangup;

    #[test]
    fn the_lowest_bit_of_the_mask_is_the_hangup() {
        assert!(ignores_hangup("Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000001\nSigCgt:\t0\n"));
        assert!(ignores_hangup("SigIgn:\t0000000000001001\n"));
        assert!(!ignores_hangup("SigBlk:\t0000000000000001\nSigIgn:\t0000000000001000\n"));
        assert!(!ignores_hangup("SigIgn:\tnonsense\n"));
        assert!(!ignores_hangup(""));
    }
}
