//! One TCP connection that can be reset or made silent from outside.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Silent,
    Reset,
}

/// The handle that decides what becomes of a connection.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) id: usize,
    state: watch::Sender<State>,
}

impl Line {
    pub(super) fn new(id: usize) -> Arc<Self> {
        let state = watch::Sender::new(State::Open);
        Arc::new(Self { id, state })
    }

    /// Ends the connection with a TCP reset.
    pub(super) fn reset(&self) {
        self.state.send_replace(State::Reset);
    }

    /// From now on not a byte goes either way, and nothing is closed.
    pub(super) fn silence(&self) {
        self.state.send_replace(State::Silent);
    }

    /// Returns when the connection is to be reset.
    pub(super) async fn is_reset(&self) {
        let mut state = self.state.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
        let _ = state.wait_for(|state| *state == State::Reset).await;
    }
}

/// The socket below TLS.
pub(super) struct Socket {
    pub(super) tcp: TcpStream,
    pub(super) line: Arc<Line>,
}

impl Socket {
    fn is_silent(&self) -> bool {
        *self.line.state.borrow() == State::Silent
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if *self.line.state.borrow() == State::Reset {
            // A socket that lost its peer already may refuse.
            let _ = self.tcp.set_zero_linger();
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.is_silent() {
            return Poll::Pending;
        }
        Pin::new(&mut self.tcp).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_silent() {
            return Poll::Pending;
        }
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_silent() {
            return Poll::Pending;
        }
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
