//! A small API server for tests: TLS with a CA of its own, HTTP/2 and HTTP/1.1, every connection counted.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{HandshakeKind, ServerConfig};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::{Connection, ConnectionFlags, Environment, Error, connect};

/// What a server answers.
pub(super) type Handler = Arc<dyn Fn(Request<Incoming>) -> BoxFuture<'static, Response<Full<Bytes>>> + Send + Sync>;

/// A certificate authority with a server and a client certificate.
pub(super) struct Pki {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Pki {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "test authority");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer }
    }

    pub(super) fn ca_pem(&self) -> String {
        self.issuer.pem()
    }

    pub(super) fn ca_der(&self) -> CertificateDer<'static> {
        self.issuer.der().clone()
    }

    /// Certificate and key in PEM for a name.
    pub(super) fn issue(&self, names: &[&str]) -> (String, String) {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names.clone()).unwrap();
        params.distinguished_name.push(DnType::CommonName, names.join(" "));
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// A TLS server that asks for a client certificate and offers these protocols. The name `expired` makes its own
    /// certificate one of the past, `mutual` has it demand the client's.
    pub(super) fn acceptor(&self, names: &[&str], alpn: &[&str]) -> TlsAcceptor {
        let params = CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>());
        let mut params = params.unwrap();
        if names.contains(&"expired") {
            params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let clients = WebPkiClientVerifier::builder(Arc::new(roots));
        let clients = if names.contains(&"mutual") { clients } else { clients.allow_unauthenticated() };
        let mut config = ServerConfig::builder()
            .with_client_cert_verifier(clients.build().unwrap())
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
            )
            .unwrap();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// A TLS stream as the server sees it.
pub(super) type Tls = TlsStream<TcpStream>;

/// A running server; it ends with its runtime.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) pki: Pki,
    /// The client certificate of each handshake.
    pub(super) clients: Arc<Mutex<Vec<Option<Vec<u8>>>>>,
    /// Of each handshake, whether it took up an earlier session.
    pub(super) resumed: Arc<Mutex<Vec<bool>>>,
    /// Method, path and the headers of each request, in the order of their arrival.
    pub(super) seen: Arc<Mutex<Vec<Request<()>>>>,
    pub(super) directory: TempDir,
}

impl Server {
    /// Serves HTTPS on a free loopback port.
    pub(super) async fn start(alpn: &[&str], handler: Handler) -> Self {
        let seen: Arc<Mutex<Vec<Request<()>>>> = Arc::default();
        let log = seen.clone();
        let server = Self::raw(alpn, &["127.0.0.1", "api.test"], move |_, tls| {
            serve(TokioIo::new(tls), handler.clone(), log.clone()).boxed()
        });
        Self { seen, ..server.await }
    }

    /// Does what it likes with each stream after the handshake; they are numbered from 0.
    pub(super) async fn raw(
        alpn: &[&str],
        names: &[&str],
        on_stream: impl Fn(usize, Tls) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        let pki = Pki::new();
        let acceptor = pki.acceptor(names, alpn);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (clients, resumed) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<Mutex<Vec<_>>>::default());
        let (log, resumptions) = (clients.clone(), resumed.clone());
        let on_stream = Arc::new(on_stream);
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (acceptor, log, on_stream) = (acceptor.clone(), log.clone(), on_stream.clone());
                let resumptions = resumptions.clone();
                tokio::spawn(async move {
                    let Ok(tls) = acceptor.accept(tcp).await else { return };
                    let kind = tls.get_ref().1.handshake_kind();
                    resumptions.lock().unwrap().push(kind == Some(HandshakeKind::Resumed));
                    let chain = tls.get_ref().1.peer_certificates();
                    let number = {
                        let mut log = log.lock().unwrap();
                        log.push(chain.map(|chain| chain[0].to_vec()));
                        log.len() - 1
                    };
                    on_stream(number, tls).await;
                });
            }
        });
        Self { address, pki, clients, resumed, seen: Arc::default(), directory: TempDir::new().unwrap() }
    }

    /// A kubeconfig for this server whose user has these fields.
    pub(super) fn kubeconfig(&self, user: &str) -> PathBuf {
        let ca = self.directory.path().join("ca.crt");
        std::fs::write(&ca, self.pki.ca_pem()).unwrap();
        let text = format!(
            "{{current-context: main, contexts: [{{name: main, context: {{cluster: here, user: me}}}}],\n\
             clusters: [{{name: here, cluster: {{server: 'https://{}', certificate-authority: ca.crt}}}}],\n\
             users: [{{name: me, user: {user}}}]}}",
            self.address
        );
        let path = self.directory.path().join("config");
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A connection as a user with these fields.
    pub(super) async fn connect(&self, user: &str) -> Connection {
        let path = self.kubeconfig(user).to_str().map(str::to_owned);
        let flags = ConnectionFlags { kubeconfig: path, ..ConnectionFlags::default() };
        connect(&flags, &Environment::of(&[])).await.unwrap()
    }

    pub(super) fn handshakes(&self) -> usize {
        self.clients.lock().unwrap().len()
    }

    /// What connecting as a user with these fields fails with.
    pub(super) async fn refused(&self, user: &str) -> Error {
        let path = self.kubeconfig(user).to_str().map(str::to_owned);
        let flags = ConnectionFlags { kubeconfig: path, ..ConnectionFlags::default() };
        connect(&flags, &Environment::of(&[])).await.err().unwrap()
    }

    /// A header of each request.
    pub(super) fn header(&self, name: &str) -> Vec<Option<String>> {
        let text = |request: &Request<()>| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        self.seen.lock().unwrap().iter().map(text).collect()
    }
}

/// Serves one connection, in whichever version of HTTP the client speaks.
pub(super) async fn serve<T>(io: TokioIo<T>, handler: Handler, seen: Arc<Mutex<Vec<Request<()>>>>)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let (parts, body) = request.into_parts();
        seen.lock().unwrap().push(Request::from_parts(parts.clone(), ()));
        let answer = handler(Request::from_parts(parts, body));
        async move { Ok::<_, std::convert::Infallible>(answer.await) }
    });
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(io, service).await;
}

/// A handler that answers everything with this JSON.
pub(super) fn json(text: &'static str) -> Handler {
    Arc::new(move |_| Box::pin(async move { Response::new(Full::from(text)) }))
}

/// The answer to a GET of a path.
pub(super) async fn get(connection: &Connection, path: &str) -> kube::Result<serde_json::Value> {
    connection.client.request(Request::get(path).body(vec![]).unwrap()).await
}
