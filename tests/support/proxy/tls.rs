//! TLS of both sides of the proxy.

use std::sync::Arc;

use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{NoClientAuth, WebPkiClientVerifier},
};

use crate::support::pki::Identity;

/// Who may connect to a server.
#[derive(Clone, Copy)]
pub(crate) enum Clients<'a> {
    /// Anybody; nobody is asked for a certificate.
    Any,
    /// Anybody, with a certificate of this authority or with none.
    AnyOrOf(&'a str),
    /// Who has a certificate of this authority.
    Of(&'a str),
}

/// A server's side, offering `protocols` by ALPN.
pub(crate) fn server_tls(identity: &Identity, protocols: &[&str], clients: Clients) -> ServerConfig {
    let verifier = |pem| WebPkiClientVerifier::builder(Arc::new(roots(pem)));
    let clients = match clients {
        Clients::Any => Arc::new(NoClientAuth),
        Clients::AnyOrOf(pem) => verifier(pem).allow_unauthenticated().build().unwrap(),
        Clients::Of(pem) => verifier(pem).build().unwrap(),
    };
    let mut config = ServerConfig::builder()
        .with_client_cert_verifier(clients)
        .with_single_cert(certificates(&identity.certificate), key(&identity.key))
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
    config
}

/// The side of a client that trusts `ca` alone.
pub(crate) fn client_tls(ca: &str, identity: Option<&Identity>) -> ClientConfig {
    let config = ClientConfig::builder().with_root_certificates(roots(ca));
    match identity {
        None => config.with_no_client_auth(),
        Some(identity) => {
            config.with_client_auth_cert(certificates(&identity.certificate), key(&identity.key)).unwrap()
        }
    }
}

fn roots(pem: &str) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem) {
        roots.add(certificate).unwrap();
    }
    roots
}

fn certificates(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).map(Result::unwrap).collect()
}

fn key(pem: &str) -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap()
}
