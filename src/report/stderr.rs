//! Text on stderr that nobody has to read: what writes it is a thread, which a stalled reader may hold up.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Duration;

/// How long a reader that takes nothing is waited for, once.
const PATIENCE: Duration = Duration::from_secs(2);

/// The same once it was waited for in vain.
const NO_PATIENCE: Duration = Duration::from_millis(50);

/// Pieces of text that may wait to be written.
const ROOM: usize = 8192;

static WRITER: OnceLock<SyncSender<Piece>> = OnceLock::new();

static IS_STALLED: AtomicBool = AtomicBool::new(false);

enum Piece {
    Text(Vec<u8>),
    /// Answered when everything before it is written.
    Mark(mpsc::Sender<()>),
}

/// Writes text, and waits until it is written as long as somebody reads.
pub(crate) fn print(text: String) {
    send(Piece::Text(text.into_bytes()));
    flush();
}

/// Waits until everything is written, as long as somebody reads.
pub(crate) fn flush() {
    if WRITER.get().is_some() {
        let (mark, written) = mpsc::channel();
        send(Piece::Mark(mark));
        wait(&written, || false);
    }
}

/// Waits for `done`, longer as long as there is progress.
pub(crate) fn wait(done: &Receiver<()>, mut progress: impl FnMut() -> bool) {
    let patience = if IS_STALLED.load(Ordering::Relaxed) { NO_PATIENCE } else { PATIENCE };
    while done.recv_timeout(patience) == Err(mpsc::RecvTimeoutError::Timeout) {
        if !progress() {
            IS_STALLED.store(true, Ordering::Relaxed);
            return;
        }
    }
}

/// Writes what is worth nothing to those who do not read it: what finds no room is lost.
#[derive(Debug)]
pub(crate) struct Lossy;

impl Write for Lossy {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        send(Piece::Text(text.to_vec()));
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn send(piece: Piece) {
    let writer = WRITER.get_or_init(|| {
        let (sender, pieces) = mpsc::sync_channel(ROOM);
        std::thread::spawn(move || {
            for piece in pieces {
                match piece {
                    // Nobody is left to be told that stderr is closed.
                    Piece::Text(text) => drop(anstream::stderr().lock().write_all(&text)),
                    // Nobody waits any more.
                    Piece::Mark(mark) => drop(mark.send(())),
                }
            }
        });
        sender
    });
    // No room means that nobody has read for long.
    let _ = writer.try_send(piece);
}
