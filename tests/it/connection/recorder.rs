//! Servers that write down who reaches them and how, in place of API servers and proxies.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    fmt,
    sync::{Arc, Mutex},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Version, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

/// One way in which a server was reached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Contact {
    /// Which server, and the path below which it was thought to be.
    server: String,
    /// The credentials that were shown.
    who: String,
    /// The impersonation headers.
    on_behalf: Vec<String>,
    server_name: Option<String>,
    proxy: Option<String>,
    http2: bool,
    compressed: bool,
}

impl fmt::Display for Contact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.who, self.server)?;
        for header in &self.on_behalf {
            write!(f, " {header}")?;
        }
        if let Some(name) = &self.server_name {
            write!(f, " sni={name}")?;
        }
        if let Some(proxy) = &self.proxy {
            write!(f, " via {proxy}")?;
        }
        let unusual = [(!self.http2, " http/1.1"), (!self.compressed, " uncompressed")];
        unusual.iter().filter(|(is_so, _)| *is_so).try_for_each(|(_, text)| f.write_str(text))
    }
}

/// All that reached the servers of a test.
#[derive(Default)]
pub(super) struct Log {
    pub(super) contacts: BTreeSet<Contact>,
    /// The namespaces in whose objects somebody was interested.
    pub(super) namespaces: BTreeSet<String>,
    /// How often each credential came.
    uses: BTreeMap<String, usize>,
}

/// How a stream came to a server.
#[derive(Clone, Default)]
struct Way {
    proxy: Option<String>,
    server_name: Option<String>,
    certificate: Option<String>,
}

/// A server of the test: its name, and who is known by certificate.
#[derive(Clone)]
pub(super) struct Recorder {
    log: Arc<Mutex<Log>>,
    tls: TlsAcceptor,
    /// Names of client certificates.
    clients: Arc<Vec<(Vec<u8>, String)>>,
    servers: Arc<Mutex<BTreeMap<u16, (&'static str, bool)>>>,
}

impl Recorder {
    pub(super) fn new(tls: TlsAcceptor, clients: Vec<(Vec<u8>, String)>) -> Self {
        Self { log: Arc::default(), tls, clients: Arc::new(clients), servers: Arc::default() }
    }

    /// What came since it was asked last.
    pub(super) fn take(&self) -> Log {
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    /// An API server, over TLS or plain, on a free port.
    pub(super) async fn serve(&self, name: &'static str, tls: bool, tasks: &mut JoinSet<()>) -> u16 {
        let (listener, port) = listen().await;
        self.servers.lock().unwrap().insert(port, (name, tls));
        let this = self.clone();
        tasks.spawn(accept(listener, move |tcp| this.clone().api(tcp, port, None)));
        port
    }

    /// A proxy for HTTP: tunnels to the servers of this recorder, whatever host they are looked for on.
    pub(super) async fn http_proxy(&self, tls: bool, tasks: &mut JoinSet<()>) -> u16 {
        let (listener, port) = listen().await;
        let this = self.clone();
        tasks.spawn(accept(listener, move |tcp| {
            let this = this.clone();
            async move {
                if !tls {
                    return this.proxy(tcp, "proxy").await;
                }
                if let Ok(stream) = this.tls.clone().accept(tcp).await {
                    this.proxy(stream, "tls-proxy").await;
                }
            }
        }));
        port
    }

    /// The same for SOCKS 5.
    pub(super) async fn socks_proxy(&self, tasks: &mut JoinSet<()>) -> u16 {
        let (listener, port) = listen().await;
        let this = self.clone();
        tasks.spawn(accept(listener, move |tcp| {
            let this = this.clone();
            async move {
                let mut tcp = tcp;
                if let Ok((host, login, port)) = socks(&mut tcp).await {
                    let login = if login.is_empty() { login } else { format!("({login})") };
                    this.api(tcp, port, Some(format!("socks{login} to {host}"))).await;
                }
            }
        }));
        port
    }

    /// Serves a stream that leads to a server's port.
    async fn api<S>(self, stream: S, port: u16, proxy: Option<String>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Some((name, tls)) = self.servers.lock().unwrap().get(&port).copied() else { return };
        let mut way = Way { proxy, ..Way::default() };
        if !tls {
            return self.requests(stream, name, way).await;
        }
        let acceptor = self.tls.clone();
        let Ok(stream) = acceptor.accept(stream).await else { return };
        let session = stream.get_ref().1;
        way.server_name = session.server_name().map(str::to_owned);
        way.certificate = session.peer_certificates().map(|chain| {
            let known = self.clients.iter().find(|(der, _)| *der == chain[0].to_vec());
            known.map_or("a stranger", |(_, name)| name).to_owned()
        });
        self.requests(stream, name, way).await;
    }

    async fn requests<S>(self, stream: S, server: &'static str, way: Way)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(move |request: Request<Incoming>| {
            let answer = self.answer(&request, server, &way);
            async move { Ok::<_, Infallible>(answer) }
        });
        // Clients close connections as they like.
        let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
    }

    async fn proxy<S>(self, stream: S, name: &'static str)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(move |mut request: Request<Incoming>| {
            let this = self.clone();
            async move {
                let uri = request.uri().clone();
                let login = login(request.headers().get(header::PROXY_AUTHORIZATION));
                let login = login.map(|login| format!("({login})")).unwrap_or_default();
                let proxy = Some(format!("{name}{login} to {}", uri.host().unwrap_or_default()));
                let port = uri.port_u16().unwrap_or_default();
                if request.method() == Method::CONNECT {
                    tokio::spawn(async move {
                        if let Ok(upgraded) = hyper::upgrade::on(&mut request).await {
                            this.api(TokioIo::new(upgraded), port, proxy).await;
                        }
                    });
                    return Ok::<_, Infallible>(Response::default());
                }
                let server = this.servers.lock().unwrap().get(&port).map_or("nobody", |(name, _)| name);
                Ok(this.answer(&request, server, &Way { proxy, ..Way::default() }))
            }
        });
        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).with_upgrades().await;
    }

    fn answer(&self, request: &Request<Incoming>, server: &str, way: &Way) -> Response<Full<Bytes>> {
        let headers = request.headers();
        let path = request.uri().path();
        let (prefix, path) = path.split_at(path.find("/api").unwrap_or_default());
        let token = login(headers.get(header::AUTHORIZATION));
        let mut who: Vec<String> = way.certificate.iter().map(|name| format!("cert:{name}")).collect();
        who.extend(token.clone());
        if who.is_empty() {
            who.push("nobody".to_owned());
        }
        let contact = Contact {
            server: format!("{server}{prefix}"),
            who: who.join("+"),
            on_behalf: impersonation(headers),
            server_name: way.server_name.clone(),
            proxy: way.proxy.clone(),
            http2: request.version() == Version::HTTP_2,
            compressed: headers.get(header::ACCEPT_ENCODING).is_some_and(|value| value == "gzip"),
        };
        let mut log = self.log.lock().unwrap();
        log.contacts.insert(contact);
        let token = token.unwrap_or_default();
        let uses = log.uses.entry(token.clone()).or_default();
        *uses += 1;
        // The names of tokens say how long they are good.
        if token.starts_with("refused") || token.starts_with("once") && *uses > 1 {
            return reply(StatusCode::UNAUTHORIZED, &status(401, "Unauthorized"));
        }
        if let Some((namespace, resource)) = path.split_once("/namespaces/").and_then(|(_, rest)| rest.split_once('/'))
            && !resource.is_empty()
        {
            log.namespaces.insert(namespace.to_owned());
        }
        reply(StatusCode::OK, &document(path))
    }
}

/// A free port.
async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

async fn accept<F: Future<Output = ()> + Send + 'static>(listener: TcpListener, serve: impl Fn(TcpStream) -> F) {
    let mut streams = JoinSet::new();
    loop {
        if let Ok((tcp, _)) = listener.accept().await {
            streams.spawn(serve(tcp));
        }
    }
}

/// What a credential header holds, in short.
fn login(header: Option<&http::HeaderValue>) -> Option<String> {
    let text = header?.to_str().unwrap();
    Some(match text.split_once(' ') {
        Some(("Bearer", token)) => token.to_owned(),
        Some(("Basic", pair)) => String::from_utf8(STANDARD.decode(pair).unwrap()).unwrap(),
        _ => text.to_owned(),
    })
}

fn impersonation(headers: &HeaderMap) -> Vec<String> {
    let mut found: Vec<String> = headers
        .iter()
        .filter_map(|(name, value)| {
            let name = name.as_str().strip_prefix("impersonate-")?;
            Some(format!("{name}={}", value.to_str().unwrap()))
        })
        .collect();
    found.sort();
    found
}

fn reply(code: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let response = Response::builder().status(code).header(header::CONTENT_TYPE, "application/json");
    response.body(Full::from(body.to_string())).unwrap()
}

fn status(code: u16, reason: &str) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": reason, "code": code })
}

/// As much of an API as both programs need: `ConfigMaps`, and empty lists of everything else.
fn document(path: &str) -> Value {
    match path {
        "/api" => json!({ "kind": "APIVersions", "versions": ["v1"] }),
        "/apis" => json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": [] }),
        "/api/v1" => json!({ "kind": "APIResourceList", "groupVersion": "v1", "resources": [
            { "name": "configmaps", "kind": "ConfigMap", "namespaced": true, "singularName": "", "verbs": ["list"] },
        ] }),
        "/api/v1/namespaces/kube-system" => {
            json!({ "kind": "Namespace", "apiVersion": "v1", "metadata": { "name": "kube-system", "uid": "u" } })
        }
        _ => json!({ "kind": "List", "apiVersion": "v1", "metadata": { "resourceVersion": "1" }, "items": [] }),
    }
}

/// Does the server's part of a SOCKS 5 handshake: where to, and the login.
async fn socks(tcp: &mut TcpStream) -> std::io::Result<(String, String, u16)> {
    let mut head = [0; 2];
    tcp.read_exact(&mut head).await?;
    let mut methods = vec![0; usize::from(head[1])];
    tcp.read_exact(&mut methods).await?;
    let mut login = String::new();
    if methods.contains(&2) {
        tcp.write_all(&[5, 2]).await?;
        tcp.read_u8().await?;
        login = format!("{}:{}", text(tcp).await?, text(tcp).await?);
        tcp.write_all(&[1, 0]).await?;
    } else {
        tcp.write_all(&[5, 0]).await?;
    }
    let mut request = [0; 4];
    tcp.read_exact(&mut request).await?;
    let host = match request[3] {
        1 => std::net::Ipv4Addr::from(tcp.read_u32().await?).to_string(),
        4 => std::net::Ipv6Addr::from(tcp.read_u128().await?).to_string(),
        _ => text(tcp).await?,
    };
    let port = tcp.read_u16().await?;
    tcp.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    Ok((host, login, port))
}

/// A text after its length.
async fn text(tcp: &mut TcpStream) -> std::io::Result<String> {
    let mut bytes = vec![0; usize::from(tcp.read_u8().await?)];
    tcp.read_exact(&mut bytes).await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
