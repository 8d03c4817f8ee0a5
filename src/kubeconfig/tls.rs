//! The TLS side of a connection.

use std::sync::Arc;

use http::Uri;
use kube::client::ConfigExt as _;
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use super::Error;
use super::material::Place;
use super::target::{Identity, Trust};

/// A TLS configuration; session resumption is on, as rustls has it.
pub(super) fn client_config(trust: &mut Trust, identity: Option<Identity>) -> Result<ClientConfig, Error> {
    let mut facts = kube::Config::new(Uri::from_static("https://unused"));
    facts.accept_invalid_certs = trust.insecure;
    facts.root_cert = trust.roots.take().map(|roots| roots.iter().map(|root| root.to_vec()).collect());
    let mut config = facts.rustls_client_config().map_err(|error| Error::Tls(error.into()))?;
    if let Some(identity) = identity {
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certified(identity)?));
    }
    Ok(config)
}

/// A certificate with its key; the two must belong together.
pub(super) fn certified(identity: Identity) -> Result<CertifiedKey, Error> {
    let place = Place { entry: &identity.entry, what: "client certificate" };
    CertifiedKey::from_der(identity.chain, identity.key, &ring::default_provider())
        .map_err(|error| place.invalid(format_args!("and its key cannot be used together: {error}")))
}
