//! The body of an answer on its way to the client.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::time::{Sleep, sleep};

use super::action::{End, Limit};
use super::case::{Broken, Carrier};
use super::log::Fate;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Polled = Poll<Option<Result<Frame<Bytes>, Error>>>;

/// What was to pass before an abrupt end gets this long to reach the client: a
/// reset throws away what is not sent yet.
const FLUSH: Duration = Duration::from_millis(50);

/// Passes a body on piece by piece, cuts it where a rule says so, and writes
/// down how it ended.
pub(super) struct Relay {
    source: Source,
    /// Bytes still to come, where the length is known.
    left: Option<u64>,
    cut: Option<Cut>,
    carrier: Carrier,
}

enum Source {
    /// From the API server.
    Server(Incoming),
    /// The proxy's own.
    Own(Full<Bytes>),
    /// There is no more.
    Dry,
    /// There is no more, and that is not said.
    Stalled,
}

struct Cut {
    left: Left,
    end: End,
}

enum Left {
    Time(Pin<Box<Sleep>>),
    Bytes(usize),
    Lines(usize),
    /// Nothing, but what has passed is still on its way.
    Flush(Pin<Box<Sleep>>),
}

impl Relay {
    pub(super) fn server(body: Incoming, cut: Option<(Limit, End)>, carrier: Carrier) -> Self {
        let cut = cut.map(|(limit, end)| Cut {
            left: match limit {
                Limit::Time(time) => Left::Time(Box::pin(sleep(time))),
                Limit::Bytes(n) => Left::Bytes(n),
                Limit::Lines(n) => Left::Lines(n),
            },
            end,
        });
        Self { left: body.size_hint().exact(), source: Source::Server(body), cut, carrier }
    }

    pub(super) fn own(body: Bytes, carrier: Carrier) -> Self {
        Self { left: Some(body.len() as u64), source: Source::Own(Full::new(body)), cut: None, carrier }
    }

    fn poll_source(&mut self, cx: &mut Context<'_>) -> Polled {
        match &mut self.source {
            Source::Server(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            Source::Own(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            Source::Dry => Poll::Ready(None),
            Source::Stalled => Poll::Pending,
        }
    }

    /// Dropping the source here also ends the request at the API server.
    fn end(&mut self, end: &End) -> Polled {
        let case = &self.carrier.0;
        match end {
            End::Close => {
                self.source = Source::Dry;
                case.end(Fate::Done);
                Poll::Ready(None)
            }
            End::Error(status) => {
                self.source = Source::Dry;
                let event = status.watch_event(&case.entry);
                Poll::Ready(Some(Ok(Frame::data(event))))
            }
            End::Drop => {
                case.end(Fate::Broken);
                Poll::Ready(Some(Err(Broken.into())))
            }
            End::Reset => {
                self.source = Source::Stalled;
                case.end(Fate::Broken);
                case.line.reset();
                Poll::Pending
            }
            End::Stall => {
                self.source = Source::Stalled;
                Poll::Pending
            }
        }
    }
}

impl Body for Relay {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled {
        if self.cut.as_mut().is_some_and(|cut| cut.is_due(cx))
            && let Some(cut) = self.cut.take()
        {
            return self.end(&cut.end);
        }
        if matches!(&self.cut, Some(cut) if matches!(cut.left, Left::Flush(_))) {
            return Poll::Pending;
        }
        match self.poll_source(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => {
                self.carrier.0.end(Fate::Done);
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => {
                self.carrier.0.end(Fate::Broken);
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(Some(Ok(frame))) => {
                let frame = frame.map_data(|data| match &mut self.cut {
                    Some(cut) => cut.shorten(data),
                    None => data,
                });
                let passed = frame.data_ref().map_or(0, Bytes::len) as u64;
                self.left = self.left.map(|left| left.saturating_sub(passed));
                Poll::Ready(Some(Ok(frame)))
            }
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // HTTP/1.1 does not ask for more than the length that was announced.
        if self.left == Some(0) {
            self.carrier.0.end(Fate::Done);
        }
    }
}

impl Cut {
    fn is_due(&mut self, cx: &mut Context<'_>) -> bool {
        if matches!(self.left, Left::Bytes(0) | Left::Lines(0)) {
            if !matches!(self.end, End::Drop | End::Reset) {
                return true;
            }
            self.left = Left::Flush(Box::pin(sleep(FLUSH)));
        }
        match &mut self.left {
            Left::Time(time) | Left::Flush(time) => time.as_mut().poll(cx).is_ready(),
            Left::Bytes(_) | Left::Lines(_) => false,
        }
    }

    /// What may still pass of `data`.
    fn shorten(&mut self, data: Bytes) -> Bytes {
        match &mut self.left {
            Left::Time(_) | Left::Flush(_) => data,
            Left::Bytes(left) => {
                let passed = data.slice(..data.len().min(*left));
                *left -= passed.len();
                passed
            }
            Left::Lines(left) => {
                let ends = data.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
                let ends: Vec<usize> = ends.map(|(at, _)| at + 1).take(*left).collect();
                *left -= ends.len();
                match ends.last() {
                    Some(end) if *left == 0 => data.slice(..*end),
                    _ => data,
                }
            }
        }
    }
}
