//! Certificates of a test bed: an authority and what it signs.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// A certificate authority that lives as long as the bed.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its private key, both as PEM.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().expect("a key for the authority");
        let mut params = params("kubectl-aicr test bed", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pem = params.self_signed(&key).expect("a root certificate").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// The root certificate as PEM.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for a server on loopback, also under the names that pods use.
    pub(crate) fn server(&self, common_name: &str) -> Identity {
        let mut params = params(common_name, None);
        let names = ["127.0.0.1", "::1", "localhost", "kubernetes.default.svc"];
        params.subject_alt_names =
            CertificateParams::new(names.map(String::from).to_vec()).expect("valid names").subject_alt_names;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(&params)
    }

    /// A client certificate, which Kubernetes reads as user (common name) and
    /// group (organisation).
    pub(crate) fn client(&self, user: &str, group: Option<&str>) -> Identity {
        let mut params = params(user, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().expect("a key");
        Identity {
            certificate: params.signed_by(&key, &self.issuer).expect("a signed certificate").pem(),
            key: key.serialize_pem(),
        }
    }
}

impl Identity {
    /// A bare key pair, the public half in place of the certificate: what signs
    /// `ServiceAccount` tokens.
    pub(crate) fn key_pair() -> Self {
        let key = KeyPair::generate().expect("a key");
        Self { certificate: key.public_key_pem(), key: key.serialize_pem() }
    }

    /// Writes `NAME.crt` and `NAME.key` into a directory.
    pub(crate) fn write(&self, dir: &Path, name: &str) -> (PathBuf, PathBuf) {
        let (certificate, key) = (dir.join(format!("{name}.crt")), dir.join(format!("{name}.key")));
        std::fs::write(&certificate, &self.certificate).expect("certificate written");
        std::fs::write(&key, &self.key).expect("key written");
        (certificate, key)
    }
}

fn params(common_name: &str, organisation: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    if let Some(organisation) = organisation {
        params.distinguished_name.push(DnType::OrganizationName, organisation);
    }
    params
}
