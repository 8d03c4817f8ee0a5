//! Accepting connections and carrying requests through.

use std::collections::HashMap;
use std::convert::identity;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use super::Outage;
use super::action::{Action, End, Limit, Point};
use super::case::{Broken, Carrier, Case};
use super::log::{Fate, Log};
use super::relay::Relay;
use super::rule::Rule;
use super::socket::{Line, Socket};
use super::upstream::{Upstream, end_to_end};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// All that the proxy's connections share.
pub(super) struct Core {
    pub(super) upstream: Upstream,
    pub(super) rtt: Duration,
    pub(super) log: Arc<Log>,
    pub(super) rules: Mutex<Vec<Rule>>,
    outage: Mutex<Option<Outage>>,
    lines: Mutex<HashMap<usize, Arc<Line>>>,
    last_line: AtomicUsize,
}

impl Core {
    pub(super) fn new(upstream: Upstream, rtt: Duration) -> Self {
        Self {
            upstream,
            rtt,
            log: Arc::default(),
            rules: Mutex::default(),
            outage: Mutex::default(),
            lines: Mutex::default(),
            last_line: AtomicUsize::default(),
        }
    }

    pub(super) async fn accept(self: Arc<Self>, listener: TcpListener, tls: TlsAcceptor) {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            tokio::spawn(Arc::clone(&self).connection(tcp, tls.clone()));
        }
    }

    /// Strikes the connections of now and of later.
    pub(super) fn set_outage(&self, outage: Option<Outage>) {
        *self.outage.lock().unwrap() = outage;
        if let Some(outage) = outage {
            let lines = self.lines.lock().unwrap();
            lines.values().for_each(|line| outage.strike(line));
        }
    }

    async fn connection(self: Arc<Self>, tcp: TcpStream, tls: TlsAcceptor) {
        let line = Line::new(self.last_line.fetch_add(1, Ordering::SeqCst) + 1);
        self.lines.lock().unwrap().insert(line.id, Arc::clone(&line));
        self.log.connections.fetch_add(1, Ordering::SeqCst);
        if let Some(outage) = *self.outage.lock().unwrap() {
            outage.strike(&line);
        }
        // A client that has gone already is told nothing anyway.
        let _ = tcp.set_nodelay(true);
        let socket = Socket { tcp, line: Arc::clone(&line) };
        tokio::select! {
            () = line.is_reset() => {}
            () = Arc::clone(&self).serve(socket, tls) => {}
        }
        self.lines.lock().unwrap().remove(&line.id);
    }

    /// Errors of a connection are the client's to report.
    async fn serve(self: Arc<Self>, socket: Socket, tls: TlsAcceptor) {
        let line = Arc::clone(&socket.line);
        let Ok(stream) = tls.accept(socket).await else {
            return;
        };
        self.log.handshakes.fetch_add(1, Ordering::SeqCst);
        let service = service_fn(|request| Arc::clone(&self).carry(Arc::clone(&line), request));
        let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
    }

    async fn carry(self: Arc<Self>, line: Arc<Line>, request: Request<Incoming>) -> Result<Response<Relay>, Error> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let case = Arc::new(self.open(line, &parts, &body));
        let carrier = Carrier(Arc::clone(&case));
        if !self.rtt.is_zero() {
            sleep(self.rtt).await;
        }
        let action = case.action();
        let answer = match action {
            Action::Answer(status) => {
                let answer = status.response(&case.entry);
                case.answering(answer.status().as_u16());
                return Ok(answer.map(|body| Relay::own(body, carrier)));
            }
            Action::CommitLate => {
                case.end(Fate::Broken);
                tokio::spawn(async move {
                    case.released().await;
                    self.forward(case, parts, body).await
                });
                return Err(Broken.into());
            }
            Action::Fail(Point::Before, fault) => {
                case.suffer(fault).await?;
                self.forward(case, parts, body).await?
            }
            Action::Fail(Point::After, fault) => {
                // In a task of its own, so that it is committed even if the
                // client does not stay for the answer.
                let forward = tokio::spawn(self.forward(Arc::clone(&case), parts, body));
                let answer = forward.await.map_err(Error::from).and_then(identity)?;
                case.suffer(fault).await?;
                answer
            }
            Action::Observe | Action::Cut(..) => self.forward(case, parts, body).await?,
        };
        let cut = match action {
            Action::Cut(limit, end) => Some((limit, end)),
            _ => None,
        };
        Ok(pass(answer, cut, carrier))
    }

    fn open(&self, line: Arc<Line>, parts: &Parts, body: &Bytes) -> Case {
        // Under one lock, so that rules count in the order of the log.
        let rules = self.rules.lock().unwrap();
        let entry = self.log.open(line.id, parts, body);
        // Each rule counts what matches it, whichever one acts.
        let mut taken = rules.clone();
        taken.retain(|rule| rule.takes(&entry));
        Case::new(entry, line, Arc::clone(&self.log), taken)
    }

    async fn forward(self: Arc<Self>, case: Arc<Case>, parts: Parts, body: Bytes) -> Result<Response<Incoming>, Error> {
        match self.upstream.send(&parts, body).await {
            Ok(answer) => {
                case.committed();
                Ok(answer)
            }
            Err(error) => {
                case.unreachable(&error.to_string());
                Err(error.into())
            }
        }
    }
}

/// Starts the API server's answer on its way to the client.
fn pass(answer: Response<Incoming>, cut: Option<(Limit, End)>, carrier: Carrier) -> Response<Relay> {
    let (parts, body) = answer.into_parts();
    carrier.0.answering(parts.status.as_u16());
    let mut answer = Response::new(Relay::server(body, cut, carrier));
    *answer.status_mut() = parts.status;
    *answer.headers_mut() = end_to_end(&parts.headers);
    answer
}
