//! The TLS side of a connection.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_platform_verifier::BuilderVerifierExt as _;

use super::Error;
use super::material::Place;
use super::target::{Identity, Trust};

/// A TLS configuration; session resumption is on, as rustls has it. kube could make one too, but that brings all of its
/// ways to log in, and what they read their answers with.
pub(super) fn client_config(trust: &mut Trust, identity: Option<Identity>) -> Result<ClientConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder = builder.map_err(Error::Tls)?;
    let builder = match trust.roots.take() {
        _ if trust.insecure => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone(provider))),
        Some(roots) => {
            let mut store = RootCertStore::empty();
            roots.into_iter().try_for_each(|root| store.add(root)).map_err(Error::Tls)?;
            builder.with_root_certificates(store)
        }
        None => builder.with_platform_verifier().map_err(Error::Tls)?,
    };
    Ok(match identity {
        Some(identity) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified(identity)?))),
        None => builder.with_no_client_auth(),
    })
}

/// A certificate with its key; the two must belong together.
pub(super) fn certified(identity: Identity) -> Result<CertifiedKey, Error> {
    let place = Place { entry: &identity.entry, what: "client certificate" };
    CertifiedKey::from_der(identity.chain, identity.key, &ring::default_provider())
        .map_err(|error| place.invalid(format_args!("and its key cannot be used together: {error}")))
}

/// Takes whoever answers for the server, as `insecure-skip-tls-verify` asks for.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
