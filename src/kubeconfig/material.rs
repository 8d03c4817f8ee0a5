//! Certificates and keys, from base64 text or files, with errors that name the entry.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::Error;

/// Where a certificate or key comes from: the entry or flag that names it, and what it is called there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    /// `user "admin" in /home/me/.kube/config`, or a flag.
    pub(super) entry: &'a str,
    /// `client-certificate` and so on.
    pub(super) what: &'static str,
}

impl Place<'_> {
    pub(super) fn invalid(self, problem: impl std::fmt::Display) -> Error {
        Error::InvalidEntry { entry: self.entry.to_owned(), problem: format!("{} {problem}", self.what) }
    }

    /// The bytes of a file.
    pub(super) fn read(self, path: &str) -> Result<Vec<u8>, Error> {
        std::fs::read(path).map_err(|source| Error::ReadFile {
            entry: self.entry.to_owned(),
            what: self.what,
            path: Path::new(path).to_owned(),
            source,
        })
    }

    /// The bytes that base64 text stands for; line breaks in it do not matter.
    pub(super) fn decode(self, text: &str) -> Result<Vec<u8>, Error> {
        let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
        STANDARD.decode(text).map_err(|error| self.invalid(format_args!("is not base64: {error}")))
    }

    /// The certificates of a PEM text, of which there must be one.
    pub(super) fn certificates(self, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
        let certificates = CertificateDer::pem_slice_iter(pem)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| self.invalid(format_args!("is not PEM: {error}")))?;
        if certificates.is_empty() {
            return Err(self.invalid("holds no certificate in PEM"));
        }
        Ok(certificates)
    }

    /// The first private key of a PEM text.
    pub(super) fn key(self, pem: &[u8]) -> Result<PrivateKeyDer<'static>, Error> {
        PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
            pem::Error::NoItemsFound => self.invalid("holds no private key in PEM"),
            // The text of other errors could quote the key.
            _ => self.invalid("is not PEM"),
        })
    }
}
