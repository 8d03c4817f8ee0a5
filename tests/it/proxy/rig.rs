//! A server, a proxy in front of it and a client, for each HTTP version.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::support::{
    pki::Authority,
    proxy::{Builder, Clients, Fate, Proxy, client_tls, server_tls},
    wait::until,
};

/// Longer than anything that a test waits for, shorter than a test that hangs.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// Long enough to believe that nothing comes.
pub(crate) const QUIET: Duration = Duration::from_millis(300);
/// Between two events of the server's watch.
pub(crate) const TICK: Duration = Duration::from_millis(20);

/// What the server saw of a request.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) request: http::request::Parts,
    pub(crate) body: Bytes,
}

/// A server that answers everything with 200 or 201, and a watch with an event
/// each `TICK`, numbered from 0.
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) ca_pem: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    streams: Arc<Mutex<usize>>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::for_clients(Clients::Any).await
    }

    /// A server for these clients.
    pub(crate) async fn for_clients(clients: Clients<'_>) -> Self {
        let authority = Authority::new();
        let tls = server_tls(&authority.server("server"), &["h2"], clients);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let server = Self {
            url: format!("https://{}", listener.local_addr().unwrap()),
            ca_pem: authority.pem().to_owned(),
            seen: Arc::default(),
            streams: Arc::default(),
        };
        let (seen, streams) = (Arc::clone(&server.seen), Arc::clone(&server.streams));
        let tls = TlsAcceptor::from(Arc::new(tls));
        tokio::spawn(async move {
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let (tls, seen, streams) = (tls.clone(), Arc::clone(&seen), Arc::clone(&streams));
                tokio::spawn(async move {
                    let Ok(stream) = tls.accept(tcp).await else {
                        return;
                    };
                    let service = service_fn(|request| reply(request, Arc::clone(&seen), Arc::clone(&streams)));
                    let _ =
                        auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        server
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// How many watches are open.
    pub(crate) fn streams(&self) -> usize {
        *self.streams.lock().unwrap()
    }
}

/// Counts an open watch for as long as it lives.
struct Open(Arc<Mutex<usize>>);

impl Drop for Open {
    fn drop(&mut self) {
        *self.0.lock().unwrap() -= 1;
    }
}

async fn reply(
    request: Request<Incoming>,
    seen: Arc<Mutex<Vec<Seen>>>,
    streams: Arc<Mutex<usize>>,
) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, hyper::Error> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let watch = parts.uri.query().is_some_and(|q| q.contains("watch=true"));
    let status = match parts.method {
        Method::POST => StatusCode::CREATED,
        _ => StatusCode::OK,
    };
    let text = format!("{} {}", parts.method, parts.uri.path());
    seen.lock().unwrap().push(Seen { request: parts, body });
    let body = if watch {
        *streams.lock().unwrap() += 1;
        let open = Open(streams);
        let events = stream::iter(0..).then(move |n: u32| {
            let _ = &open;
            async move {
                sleep(TICK).await;
                Ok(Frame::data(Bytes::from(format!("event {n}\n"))))
            }
        });
        StreamBody::new(events).boxed_unsync()
    } else {
        Full::from(text).boxed_unsync()
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    Ok(response)
}

/// The version that the proxy and its client agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Http {
    One,
    Two,
}

pub(crate) struct Rig {
    pub(crate) http: Http,
    pub(crate) server: Server,
    pub(crate) proxy: Proxy,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// Runs a test over both versions.
pub(crate) async fn over_both(test: impl AsyncFn(Rig)) {
    over_both_with(|builder| builder, test).await;
}

/// Runs a test over both versions, through a proxy that is set up otherwise.
pub(crate) async fn over_both_with(set_up: impl Fn(Builder) -> Builder, test: impl AsyncFn(Rig)) {
    for http in [Http::One, Http::Two] {
        let server = Server::start().await;
        let builder = set_up(Proxy::to(&server.url, &server.ca_pem));
        let proxy = match http {
            Http::One => builder.http1_only(),
            Http::Two => builder,
        }
        .start()
        .await;
        let client = client(&proxy);
        test(Rig { http, server, proxy, client }).await;
    }
}

/// A client that takes the best version it is offered and repeats nothing.
fn client(proxy: &Proxy) -> Client<HttpsConnector<HttpConnector>, Full<Bytes>> {
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(client_tls(proxy.ca_pem(), None))
        .https_only()
        .enable_all_versions()
        .build();
    Client::builder(TokioExecutor::new()).retry_canceled_requests(false).build(connector)
}

/// Why a request failed: the whole chain of causes.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    fn from(error: &dyn std::error::Error) -> Self {
        let chain = std::iter::successors(Some(error), |error| error.source());
        let causes: Vec<String> = chain.map(ToString::to_string).collect();
        Self(causes.join(": "))
    }

    /// Whether TCP told of a reset.
    pub(crate) fn is_tcp_reset(&self) -> bool {
        self.0.to_lowercase().contains("connection reset")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An answer, or the head of one.
pub(crate) struct Answer(Response<Incoming>);

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.0.status().as_u16()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.0.headers()[name].to_str().unwrap()
    }

    /// The next piece of the body; none at its end.
    pub(crate) async fn piece(&mut self) -> Result<Option<String>, Failure> {
        let body = self.0.body_mut();
        let frame = timeout(SOON, body.frame()).await.expect("a body that hangs");
        match frame {
            None => Ok(None),
            Some(Ok(frame)) => {
                let data = frame.into_data().unwrap_or_default();
                Ok(Some(String::from_utf8(data.to_vec()).unwrap()))
            }
            Some(Err(error)) => Err(Failure::from(&error)),
        }
    }

    /// The rest of the body, and whether it ended well.
    pub(crate) async fn text(mut self) -> (String, Result<(), Failure>) {
        let mut text = String::new();
        loop {
            match self.piece().await {
                Ok(Some(piece)) => text += &piece,
                Ok(None) => return (text, Ok(())),
                Err(failure) => return (text, Err(failure)),
            }
        }
    }
}

impl Rig {
    /// The same with another proxy.
    pub(crate) fn through(self, proxy: Proxy) -> Self {
        Self { client: client(&proxy), proxy, ..self }
    }

    /// Sends a request and waits for the answer's head.
    pub(crate) async fn send(&self, request: Request<String>) -> Result<Answer, Failure> {
        let (mut parts, body) = request.into_parts();
        parts.uri = format!("{}{}", self.proxy.url(), parts.uri).parse().unwrap();
        let request = Request::from_parts(parts, Full::from(body));
        let answer = timeout(SOON, self.client.request(request)).await;
        let answer = answer.unwrap_or_else(|_| panic!("hangs:\n{}", self.proxy.transcript()));
        answer.map(Answer).map_err(|error| Failure::from(&error))
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Answer, Failure> {
        self.send(Request::get(path).body(String::new()).unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str) -> Result<Answer, Failure> {
        self.send(Request::post(path).body("{}".to_owned()).unwrap()).await
    }

    /// Holds that a request is answered whole by the server.
    pub(crate) async fn passes(&self, path: &str) {
        let answer = self.get(path).await.unwrap();
        assert_eq!(answer.status(), 200);
        let (text, end) = answer.text().await;
        assert_eq!((text, end.is_ok()), (format!("GET {path}"), true));
    }

    /// Waits until no watch is open at the server.
    pub(crate) async fn server_is_left(&self) {
        until("the watch to end", async || (self.server.streams() == 0).then_some(())).await;
    }

    /// Waits until the proxy's entries have these fates.
    pub(crate) async fn fates_become(&self, fates: &[Fate]) {
        let are = || self.proxy.requests().iter().map(|entry| entry.fate).eq(fates.iter().copied());
        until("the requests' fates", async || are().then_some(())).await;
    }
}
