//! Why a call to the API server failed, in words for people.

use std::error::Error as StdError;
use std::io;

use rustls::CertificateError;

use super::Error;
use super::route::{ConnectError, Lost};

/// Why a call failed, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Diagnosis {
    pub(crate) kind: Kind,
    /// What happened and why.
    pub(crate) cause: String,
    /// The next step.
    pub(crate) next: Option<String>,
}

/// What a failure means for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No connection to the server or to who vouches for the caller, TLS failures included; or it broke before the answer
    /// was complete; or what answers is no API server.
    Unreachable,
    /// The server does not know who the caller is (401), or a plugin gave no credentials.
    Unauthenticated,
    /// The caller may not do this (403).
    Forbidden,
    /// The server gave another refusal.
    Refused,
}

/// Tells why a call failed.
pub(crate) fn classify(error: &kube::Error) -> Diagnosis {
    match error {
        kube::Error::Api(status) => refusal(status),
        kube::Error::Service(cause) => {
            if let Some(error) = find::<Error>(&**cause) {
                let kind = if error.is_unreachable() { Kind::Unreachable } else { Kind::Unauthenticated };
                return diagnosis(kind, error.to_string(), None);
            }
            if let Some(error) = find::<ConnectError>(&**cause) {
                return unreachable(error);
            }
            match find::<Lost>(&**cause) {
                Some(error) => lost(&error.to, error.plain, error),
                None => lost(API_SERVER, false, &**cause),
            }
        }
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => diagnosis(
            Kind::Unreachable,
            format!("the answer is not one of a Kubernetes API server: {}", text_of(error)),
            Some("check the server's address"),
        ),
        kube::Error::HyperError(error) => lost(API_SERVER, false, error),
        kube::Error::ReadEvents(error) => lost(API_SERVER, false, error),
        _ => lost(API_SERVER, false, error),
    }
}

fn diagnosis(kind: Kind, cause: impl Into<String>, next: Option<&str>) -> Diagnosis {
    Diagnosis { kind, cause: cause.into(), next: next.map(str::to_owned) }
}

/// What an answer means that says no.
pub(crate) fn refusal(status: &kube::core::Status) -> Diagnosis {
    let said = match status.message.as_str() {
        "" => format!("the API server answered {} {}", status.code, status.reason),
        message => message.trim_end().to_owned(),
    };
    match status.code {
        401 => diagnosis(
            Kind::Unauthenticated,
            format!("the API server does not accept the credentials (401): {said}"),
            Some("log in again or renew the token; `kubectl auth whoami` shows whether they are accepted"),
        ),
        403 => diagnosis(Kind::Forbidden, said, None),
        400 if said.contains("HTTP request to an HTTPS server") => {
            diagnosis(Kind::Unreachable, "the server speaks https, and was sent plain http", Some(HTTPS))
        }
        _ => diagnosis(Kind::Refused, said, None),
    }
}

/// A connection that ended before the answer was complete.
fn lost(to: &str, plain: bool, error: &(dyn StdError + 'static)) -> Diagnosis {
    let text = text_of(error);
    // With TLS 1.3 a server judges the client's certificate after the handshake. Of the alert h2 keeps but the text.
    let next = if text.contains("received fatal alert") { Some(CLIENT_CERTIFICATE) } else { plain.then_some(HTTPS) };
    diagnosis(Kind::Unreachable, format!("the connection to {to} broke: {text}"), next)
}

const API_SERVER: &str = "the API server";

const HTTPS: &str =
    "if the server speaks https, write https:// in front of its address (--server or `server` in the kubeconfig)";

const CLIENT_CERTIFICATE: &str = "check that the user's client certificate is valid, and for this cluster";

/// A connection that did not come about.
fn unreachable(error: &ConnectError) -> Diagnosis {
    let to = &error.to;
    let say = |cause: String, next: &str| diagnosis(Kind::Unreachable, cause, Some(next));
    let Some(source) = error.source() else {
        return say(
            format!("cannot connect to {to}: {error}"),
            "check the server's address, the network and VPN; a firewall may drop the packets",
        );
    };
    if let Some(error) = find::<rustls::Error>(source) {
        return tls(to, error);
    }
    let text = text_of(source);
    // Name resolution has no error type of its own.
    if text.contains("dns error") {
        let detail = find::<io::Error>(source).map_or(text, ToString::to_string);
        return say(
            format!("cannot connect to {to}: its host name cannot be resolved: {detail}"),
            "check the server's address, DNS and VPN",
        );
    }
    let refused = find::<io::Error>(source).is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    let why = if refused { "the connection was refused" } else { text.as_str() };
    let next = match (error.through_proxy, refused) {
        (true, _) => "check the proxy (proxy-url of the cluster, HTTPS_PROXY, NO_PROXY)",
        (false, true) => {
            "check that the API server runs and that its address is right (`kubectl config view --minify`)"
        }
        (false, false) => "check the server's address, the network and VPN",
    };
    say(format!("cannot connect to {to}: {why}"), next)
}

fn tls(to: &str, error: &rustls::Error) -> Diagnosis {
    let say = |cause: String, next: &str| diagnosis(Kind::Unreachable, cause, Some(next));
    match error {
        rustls::Error::InvalidCertificate(why) => match why {
            CertificateError::UnknownIssuer => say(
                format!("the certificate of {to} is signed by an unknown authority"),
                "set certificate-authority-data of the cluster, or pass --certificate-authority FILE",
            ),
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => say(
                format!("the certificate of {to} has expired"),
                "have the server's certificate renewed, or set this machine's clock right",
            ),
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                say(format!("the certificate of {to} is not valid yet"), "set this machine's clock right")
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => say(
                format!("the certificate of {to} is for another host: {why}"),
                "use an address that the certificate names, or pass --tls-server-name NAME",
            ),
            _ => say(
                format!("the certificate of {to} is not acceptable: {why}"),
                "check certificate-authority-data of the cluster",
            ),
        },
        rustls::Error::AlertReceived(alert) => {
            say(format!("{to} broke the TLS handshake off with the alert {alert:?}"), CLIENT_CERTIFICATE)
        }
        rustls::Error::InvalidMessage(_) => say(
            format!("{to} does not speak TLS: {error}"),
            "if the server speaks plain http, write http:// in front of its address",
        ),
        _ => say(format!("TLS with {to} failed: {error}"), "check the server's address"),
    }
}

/// The first error of a type in a chain of causes, also inside I/O errors, which hide what they wrap.
fn find<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match wrapped {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

/// An error with its causes, each said once.
pub(crate) fn text_of(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = cause.source();
    }
    text
}
