//! Exec plugins: programs that print the caller's credentials.
//!
//! A plugin runs once for a client, when the client is made; again when what it gave has expired, and once when the server
//! answers 401. It gets the terminal only if there is one.

use std::process::Stdio;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use jiff::Timestamp;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, SignatureScheme};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::Command;

use super::credentials::bearer;
use super::file::InteractiveMode;
use super::material::Place;
use super::target::{Identity, Plugin};
use super::tls::certified;
use super::transport::Epoch;
use super::{Error, Secret};

/// The name under which a cluster entry keeps what is meant for exec plugins.
const EXTENSION: &str = "client.authentication.k8s.io/exec";

/// How many lines of a failed plugin's stderr an error repeats.
const TAIL: usize = 10;

/// A plugin and what it gave last.
pub(super) struct ExecPlugin {
    plugin: Plugin,
    terminal: bool,
    /// Also held while the plugin runs, so that it never runs twice at a time.
    issued: tokio::sync::Mutex<Option<Arc<Issued>>>,
    certificate: Arc<CertificateSlot>,
    epoch: Epoch,
}

/// What a plugin gave.
pub(super) struct Issued {
    pub(super) header: Option<HeaderValue>,
    expires: Option<Timestamp>,
}

impl ExecPlugin {
    pub(super) fn new(plugin: Plugin, terminal: bool) -> Self {
        let (issued, certificate) = (tokio::sync::Mutex::default(), Arc::default());
        Self { plugin, terminal, issued, certificate, epoch: Epoch::default() }
    }

    /// Has the TLS side present the certificate that the plugin gave last.
    pub(super) fn present_certificate(&self, config: &mut ClientConfig) {
        config.client_auth_cert_resolver = self.certificate.clone();
        // A resumed session would stand for the certificate of its first handshake.
        config.resumption = rustls::client::Resumption::disabled();
    }

    /// Valid credentials, from a new run if need be.
    pub(super) async fn current(&self) -> Result<Arc<Issued>, Error> {
        let mut issued = self.issued.lock().await;
        match &*issued {
            Some(last) if last.expires.is_none_or(|at| Timestamp::now() < at) => Ok(last.clone()),
            _ => self.run(&mut issued).await,
        }
    }

    /// Other credentials than these, which the server has refused.
    pub(super) async fn renew(&self, refused: &Arc<Issued>) -> Result<Arc<Issued>, Error> {
        let mut issued = self.issued.lock().await;
        match &*issued {
            Some(last) if !Arc::ptr_eq(last, refused) => Ok(last.clone()),
            _ => self.run(&mut issued).await,
        }
    }

    /// Counts the changes of the certificate; a connection is good for one.
    pub(super) fn epoch(&self) -> Epoch {
        self.epoch.clone()
    }

    async fn run(&self, issued: &mut Option<Arc<Issued>>) -> Result<Arc<Issued>, Error> {
        let output = self.output().await?;
        let (given, identity) = self.read(&output)?;
        let certificate = identity.map(certified).transpose()?.map(Arc::new);
        if self.certificate.replace(certificate) {
            self.epoch.fetch_add(1, Ordering::AcqRel);
        }
        let given = Arc::new(given);
        *issued = Some(given.clone());
        Ok(given)
    }

    /// Runs the plugin and returns what it printed.
    async fn output(&self) -> Result<String, Error> {
        let exec = &self.plugin.exec;
        let interactive = match exec.interactive_mode {
            Some(InteractiveMode::Never) => false,
            Some(InteractiveMode::Always) if !self.terminal => {
                return Err(self.failed("it must ask the user, and stdin is not a terminal"));
            }
            _ => self.terminal,
        };
        let mut command = Command::new(&exec.command);
        command
            .args(&exec.args)
            .envs(exec.env.iter().map(|it| (&it.name, it.value.expose())))
            .env("KUBERNETES_EXEC_INFO", self.info(interactive))
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        if interactive {
            command.stdin(Stdio::inherit()).stderr(Stdio::inherit());
        } else {
            command.stdin(Stdio::null()).stderr(Stdio::piped());
        }
        let mut child = command.spawn().map_err(|error| self.not_started(&error))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let read_stdout = async {
            let mut text = String::new();
            if let Some(mut stdout) = stdout {
                stdout.read_to_string(&mut text).await?;
            }
            Ok(text)
        };
        let read_stderr = async {
            let mut tail = Vec::new();
            if let Some(stderr) = stderr {
                let mut lines = BufReader::new(stderr).lines();
                while let Some(line) = lines.next_line().await? {
                    // A plugin may be telling the user what to do meanwhile.
                    tracing::warn!("{}: {line}", self.plugin.exec.command);
                    tail.push(line);
                }
            }
            Ok(tail)
        };
        let (text, tail, status) = tokio::try_join!(read_stdout, read_stderr, child.wait())
            .map_err(|error: std::io::Error| self.failed(error))?;
        if status.success() {
            return Ok(text);
        }
        let said = tail[tail.len().saturating_sub(TAIL)..].join("\n");
        let colon = if said.is_empty() { "" } else { ": " };
        Err(self.failed(format_args!("it ended with {status}{colon}{said}")))
    }

    fn failed(&self, problem: impl std::fmt::Display) -> Error {
        Error::Plugin {
            entry: self.plugin.user.clone(),
            command: self.plugin.exec.command.clone(),
            problem: problem.to_string(),
        }
    }

    fn not_started(&self, error: &std::io::Error) -> Error {
        let hint = self.plugin.exec.install_hint.as_deref();
        match (error.kind(), hint) {
            (std::io::ErrorKind::NotFound, Some(hint)) => self.failed(format_args!("it is not installed; {hint}")),
            (std::io::ErrorKind::NotFound, None) => self.failed("it is not installed, or not in PATH"),
            _ => self.failed(error),
        }
    }

    /// What the plugin is told.
    fn info(&self, interactive: bool) -> String {
        let cluster = &self.plugin.cluster;
        let told = self.plugin.exec.provide_cluster_info.then(|| ClusterInfo {
            server: cluster.server.as_deref(),
            tls_server_name: cluster.tls_server_name.as_deref(),
            insecure_skip_tls_verify: cluster.insecure_skip_tls_verify,
            certificate_authority_data: self.plugin.authority.as_ref().map(|pem| STANDARD.encode(pem)),
            proxy_url: cluster.proxy_url.as_deref(),
            disable_compression: cluster.disable_compression,
            config: cluster.extensions.iter().find(|it| it.name == EXTENSION).map(|it| &it.extension),
        });
        let api_version = &self.plugin.exec.api_version;
        let info = serde_json::json!({
            "kind": "ExecCredential",
            "apiVersion": api_version,
            "spec": Spec { interactive, cluster: told },
        });
        info.to_string()
    }

    /// What the plugin gave. Errors never quote it.
    fn read(&self, output: &str) -> Result<(Issued, Option<Identity>), Error> {
        let credential: Credential = serde_saphyr::from_str(output).map_err(|error| {
            let error = error.without_snippet();
            self.failed(format_args!("what it printed is no ExecCredential: {error}"))
        })?;
        let expected = &self.plugin.exec.api_version;
        if credential.kind != "ExecCredential" || credential.api_version != *expected {
            let (kind, version) = (credential.kind.as_str(), credential.api_version.as_str());
            return Err(match (kind, version) {
                ("", "") => self.failed("what it printed is no ExecCredential: it has neither kind nor apiVersion"),
                _ => self.failed(format_args!(
                    "it printed the kind {kind:?} of apiVersion {version:?}, not an ExecCredential of {expected}"
                )),
            });
        }
        let status = credential.status.ok_or_else(|| self.failed("it printed no status"))?;
        let filled = |secret: Option<Secret>| secret.filter(|secret| !secret.expose().is_empty());
        let token = filled(status.token);
        let identity = match (filled(status.client_certificate_data), filled(status.client_key_data)) {
            (None, None) if token.is_none() => {
                return Err(self.failed("it gave neither a token nor a certificate"));
            }
            (None, None) => None,
            (Some(chain), Some(key)) => {
                let place = |what| Place { entry: &self.plugin.user, what };
                let chain = place("clientCertificateData").certificates(chain.expose().as_bytes())?;
                let key = place("clientKeyData").key(key.expose().as_bytes())?;
                Some(Identity { entry: self.plugin.user.clone(), chain, key })
            }
            _ => return Err(self.failed("it gave only one of certificate and key")),
        };
        let header = token.map(|token| bearer(token.expose())).transpose();
        let header = header.map_err(|_| self.failed("its token cannot be sent in a header"))?;
        let expires = status.expiration_timestamp.filter(|text| !text.is_empty());
        let expires = expires.map(|text| text.parse()).transpose();
        let expires = expires.map_err(|error| self.failed(format_args!("its expirationTimestamp: {error}")))?;
        Ok((Issued { header, expires }, identity))
    }
}

#[derive(Serialize)]
struct Spec<'a> {
    interactive: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<ClusterInfo<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct ClusterInfo<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_server_name: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    insecure_skip_tls_verify: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate_authority_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy_url: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    disable_compression: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<&'a serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Credential {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    api_version: String,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    token: Option<Secret>,
    expiration_timestamp: Option<String>,
    client_certificate_data: Option<Secret>,
    client_key_data: Option<Secret>,
}

/// The certificate that the next handshake presents.
#[derive(Debug, Default)]
struct CertificateSlot(Mutex<Option<Arc<CertifiedKey>>>);

impl CertificateSlot {
    fn get(&self) -> Option<Arc<CertifiedKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the new certificate is another than the old one.
    fn replace(&self, new: Option<Arc<CertifiedKey>>) -> bool {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let chain = |key: &Option<Arc<CertifiedKey>>| key.as_ref().map(|key| key.cert.clone());
        let changed = chain(&slot) != chain(&new);
        *slot = new;
        changed
    }
}

impl ResolvesClientCert for CertificateSlot {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.get()
    }

    fn has_certs(&self) -> bool {
        self.get().is_some()
    }
}
