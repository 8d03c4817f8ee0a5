//! The HTTPS server on which the bed answers the API server's own calls.

use std::{convert::Infallible, future::Future, sync::Arc};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio::{net::TcpListener, task::AbortHandle};
use tokio_rustls::TlsAcceptor;

use super::pki::Authority;

pub(crate) type Body = BoxBody<Bytes, Infallible>;

/// A response that is there at once.
pub(crate) fn reply(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).boxed());
    *response.status_mut() = status;
    response
}

/// A server that ends with this value.
pub(crate) struct Server {
    pub(crate) port: u16,
    accepting: AbortHandle,
}

impl Server {
    /// Serves on a loopback port, to clients that hold a certificate of the authority.
    pub(crate) async fn start<F, R>(authority: &Authority, answer: F) -> Self
    where
        F: Fn(Request<Incoming>) -> R + Clone + Send + 'static,
        R: Future<Output = Response<Body>> + Send + 'static,
    {
        let acceptor = TlsAcceptor::from(Arc::new(tls(authority)));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let accepting = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    continue;
                };
                let (acceptor, answer) = (acceptor.clone(), answer.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let service = service_fn(move |request| {
                        let answer = answer(request);
                        async { Ok::<_, Infallible>(answer.await) }
                    });
                    // The API server closes connections as it likes.
                    let _ =
                        auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { port, accepting: accepting.abort_handle() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn tls(authority: &Authority) -> ServerConfig {
    let identity = authority.server("kubelet");
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(authority.pem().as_bytes()).expect("PEM");
    roots.add(root).expect("a root certificate");
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()
        .expect("a verifier");
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("protocol versions")
        .with_client_cert_verifier(clients)
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(identity.certificate.as_bytes()).expect("PEM")],
            PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).expect("PEM"),
        )
        .expect("a server certificate")
}
