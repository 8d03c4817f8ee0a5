//! The TLS side of a target.

use std::sync::Arc;

use http::Uri;
use kube::client::ConfigExt as _;
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use super::Error;
use super::target::{Identity, Target};

/// The TLS configuration for a target; session resumption is on, as rustls has it.
pub(super) fn client_config(target: &mut Target) -> Result<ClientConfig, Error> {
    let mut trust = kube::Config::new(Uri::from_static("https://unused"));
    trust.accept_invalid_certs = target.trust.insecure;
    let roots = target.trust.roots.take();
    trust.root_cert = roots.map(|roots| roots.iter().map(|root| root.to_vec()).collect());
    let mut config = trust.rustls_client_config().map_err(|error| Error::Tls(error.into()))?;
    if let Some(identity) = target.identity.take() {
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certified(identity)?));
    }
    Ok(config)
}

/// A certificate with its key; the two must belong together.
pub(super) fn certified(identity: Identity) -> Result<CertifiedKey, Error> {
    CertifiedKey::from_der(identity.chain, identity.key, &ring::default_provider()).map_err(Error::Identity)
}
