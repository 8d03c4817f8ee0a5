//! A home with a kubeconfig, the servers that it leads to, and what a program does with both.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    path::Path,
    sync::{Arc, LazyLock},
    time::Duration,
};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::recorder::Recorder;
use crate::support::{
    cli::{Home, Outcome},
    pki::{Authority, Identity},
    proxy::{Clients, server_tls},
};

/// A label of a host name that is too long for any to exist: nobody is asked for its address.
const LONG: &str = "a-label-of-a-name-that-is-too-long-for-the-domain-name-system-to-be-asked";

/// Certificates, made once.
struct Pki {
    ca: String,
    /// Of another authority.
    other_ca: String,
    carol: Identity,
    dave: Identity,
    tls: TlsAcceptor,
}

static PKI: LazyLock<Pki> = LazyLock::new(|| {
    let authority = Authority::new();
    let tls = server_tls(&authority.server("recorder"), &["h2", "http/1.1"], Clients::AnyOrOf(authority.pem()));
    Pki {
        ca: authority.pem().to_owned(),
        other_ca: Authority::new().pem().to_owned(),
        carol: authority.client("carol", None),
        dave: authority.client("dave", None),
        tls: TlsAcceptor::from(Arc::new(tls)),
    }
});

/// The authority of the servers.
pub(super) fn ca_pem() -> &'static str {
    &PKI.ca
}

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

/// Two API servers, one without TLS, three proxies, and a home whose kubeconfig names them.
pub(super) struct Rig {
    home: Home,
    recorder: Recorder,
    words: Vec<(&'static str, String)>,
    _tasks: JoinSet<()>,
}

impl Rig {
    pub(super) async fn start() -> Self {
        let pki = &*PKI;
        let clients = [("carol", &pki.carol), ("dave", &pki.dave)];
        let clients = clients.map(|(name, identity)| (der(&identity.certificate).to_vec(), name.to_owned()));
        let recorder = Recorder::new(pki.tls.clone(), clients.to_vec());
        let mut tasks = JoinSet::new();
        let home = Home::new();
        let expiry = json!({ "exp": 4_000_000_000_u32 }).to_string();
        let words = vec![
            ("{POD}", "KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT={A}".to_owned()),
            ("{CA}", STANDARD.encode(&pki.ca)),
            ("{A}", recorder.serve("a", true, &mut tasks).await.to_string()),
            ("{B}", recorder.serve("b", true, &mut tasks).await.to_string()),
            ("{PLAIN}", recorder.serve("plain", false, &mut tasks).await.to_string()),
            ("{PROXY}", recorder.http_proxy(false, &mut tasks).await.to_string()),
            ("{TLSPROXY}", recorder.http_proxy(true, &mut tasks).await.to_string()),
            ("{SOCKS}", recorder.socks_proxy(&mut tasks).await.to_string()),
            ("{CAROL_CRT}", STANDARD.encode(&pki.carol.certificate)),
            ("{CAROL_KEY}", STANDARD.encode(&pki.carol.key)),
            ("{ID_TOKEN}", format!("id.{}.token", URL_SAFE_NO_PAD.encode(expiry))),
            ("{LONG}", LONG.to_owned()),
            ("{HOME}", home.path().display().to_string()),
        ];
        let rig = Self { home, recorder, words, _tasks: tasks };
        rig.write_files();
        rig
    }

    fn write_files(&self) {
        let (home, pki) = (&self.home, &*PKI);
        let config = self.filled(include_str!("kubeconfig.yaml"));
        home.write(".kube/config", &config);
        home.write("elsewhere/config", &config.replace("current-context: main", "current-context: second"));
        home.write("elsewhere/first", "{ apiVersion: v1, kind: Config, current-context: second }\n");
        home.write("elsewhere/undecided", &config.replace("current-context: main", ""));
        home.write("elsewhere/empty", "");
        home.write("elsewhere/broken", "clusters: [\n");
        let alice_is_bob = "{ users: [{ name: alice, user: { token: another-alice } }] }\n";
        home.write("elsewhere/override", alice_is_bob);
        for folder in [".kube/pki", "elsewhere/pki"] {
            home.write(&format!("{folder}/ca.crt"), &pki.ca);
            home.write(&format!("{folder}/other-ca.crt"), &pki.other_ca);
            home.write(&format!("{folder}/token"), "from-file\n");
            pki.carol.write(&home.path().join(folder), "carol");
            pki.dave.write(&home.path().join(folder), "dave");
        }
        let credential = json!({
            "kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1",
            "status": { "clientCertificateData": pki.dave.certificate, "clientKeyData": pki.dave.key },
        });
        home.write(".kube/credential.json", &credential.to_string());
        home.write_program(".kube/plugin", include_str!("plugin.sh"));
    }

    /// A text with this rig's ports and paths in it.
    fn filled(&self, text: &str) -> String {
        self.words.iter().fold(text.to_owned(), |text, (word, meaning)| text.replace(word, meaning))
    }

    /// What becomes of a program that is told these flags in this environment.
    pub(super) async fn observe(&self, program: &Path, args: &[&str], flags: &str, env: &str) -> Observed {
        let flags: Vec<String> = flags.split_whitespace().map(|flag| self.filled(flag)).collect();
        let mut invocation = self.home.program(program.to_str().unwrap(), args).args(flags).stdin("typed\n");
        for variable in self.filled(env).split_whitespace() {
            let (name, value) = variable.split_once('=').unwrap();
            invocation = match value {
                "(unset)" => invocation.without_env(name),
                value => invocation.env(name, value),
            };
        }
        let outcome = invocation.deadline(Duration::from_mins(2)).run().await;
        let log = self.recorder.take();
        let calls = self.home.path().join("calls");
        let told = std::fs::read_to_string(&calls).unwrap_or_default();
        let _ = std::fs::remove_file(&calls);
        Observed {
            succeeds: outcome.status() == Some(0),
            contacts: log.contacts.iter().map(|contact| self.unfilled(&contact.to_string())).collect(),
            namespaces: log.namespaces,
            told: told.lines().map(|line| self.unfilled(&canonical(line))).collect(),
            outcome,
        }
    }

    /// The reverse of [`Self::filled`].
    fn unfilled(&self, text: &str) -> String {
        self.words.iter().fold(text.to_owned(), |text, (word, meaning)| text.replace(meaning, word))
    }
}

/// A line of the plugin's notes, with the fields of its JSON in order.
fn canonical(line: &str) -> String {
    let fields: Vec<&str> = line.split('\t').collect();
    let info: Value = serde_json::from_str(fields[2]).unwrap_or_default();
    format!("typed {:?}, MARK={:?}, {}", fields[0], fields[1], info["spec"])
}

/// What a program did.
pub(super) struct Observed {
    succeeds: bool,
    contacts: BTreeSet<String>,
    namespaces: BTreeSet<String>,
    /// What its credential plugin was told, call by call.
    pub(super) told: Vec<String>,
    pub(super) outcome: Outcome,
}

impl Observed {
    /// Whom it reached as whom, or that it failed and how far it came.
    pub(super) fn summary(&self) -> String {
        let mut text = self.contacts.iter().map(String::as_str).collect::<Vec<_>>().join("; ");
        if self.succeeds {
            let namespaces: Vec<&str> = self.namespaces.iter().map(String::as_str).collect();
            let _ = write!(text, " in {}", namespaces.join(", "));
            return text;
        }
        if text.is_empty() { "fails".to_owned() } else { format!("fails after {text}") }
    }
}
