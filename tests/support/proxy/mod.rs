//! A proxy between the plugin and the API server, in which anything can go wrong.
//!
//! It terminates TLS with a certificate of its own, speaks HTTP/2 and HTTP/1.1,
//! carries requests on to the API server over one HTTP/2 connection, and writes
//! down everything that passed. Headers pass unchanged: a bearer token and
//! impersonation reach the API server. Client certificates end at the proxy.
//! Request bodies are read whole, answers are streamed.
//!
//! ```ignore
//! let proxy = Proxy::before(bed).start().await;
//! let gate = proxy.on(post("/apis/batch/**/jobs"), after(Fault::Hold));
//! let running = home.kubeconfig(&proxy.kubeconfig(&user, None)).aicr(["snapshot"]).spawn();
//! gate.committed().await;
//! running.signal(Signal::INT);
//! gate.release();
//! ```
//!
//! It lives on the runtime of its test. Requests that a client sends at once
//! arrive in no fixed order: a rule that is to hit one of them names it by path.

mod action;
mod case;
mod log;
mod relay;
mod rule;
mod serve;
mod socket;
mod status;
mod target;
mod tls;
mod upstream;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

pub(crate) use action::{Action, End, Fault, Limit, after, answer, before, commit_late, cut};
pub(crate) use log::{Entry, Fate, waves};
pub(crate) use rule::{Rule, When, any, delete, get, patch, post, request};
pub(crate) use status::Status;
pub(crate) use tls::{Clients, client_tls, server_tls};

use self::log::Log;
use self::serve::Core;
use self::socket::Line;
use self::upstream::Upstream;
use super::bed::Bed;
use super::kubeconfig::{User, kubeconfig};
use super::pki::{Authority, Identity};

/// How the whole API server is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outage {
    /// Connections are reset, also new ones.
    Reset,
    /// Connections stay and are accepted, but nothing is ever said on them.
    Silence,
}

impl Outage {
    fn strike(self, line: &Line) {
        match self {
            Self::Reset => line.reset(),
            Self::Silence => line.silence(),
        }
    }
}

/// What a proxy is made from.
pub(crate) struct Builder {
    upstream: String,
    upstream_ca_pem: String,
    identity: Option<Identity>,
    protocols: &'static [&'static str],
    rtt: Duration,
}

impl Builder {
    /// Offers HTTP/1.1 alone.
    pub(crate) fn http1_only(mut self) -> Self {
        self.protocols = &["http/1.1"];
        self
    }

    /// Makes every request wait this long first; those sent together wait together.
    pub(crate) fn rtt(mut self, rtt: Duration) -> Self {
        self.rtt = rtt;
        self
    }

    /// Sends every request to the API server as this user.
    pub(crate) fn identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Opens a free port on loopback and serves until the proxy is dropped.
    pub(crate) async fn start(self) -> Proxy {
        let tls = client_tls(&self.upstream_ca_pem, self.identity.as_ref());
        let core = Arc::new(Core::new(Upstream::new(&self.upstream, tls), self.rtt));
        let authority = Authority::new();
        let tls = server_tls(&authority.server("fault proxy"), self.protocols, Clients::Any);
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        Proxy {
            url,
            ca_pem: authority.pem().to_owned(),
            acceptor: tokio::spawn(Arc::clone(&core).accept(listener, acceptor)),
            core,
        }
    }
}

/// A running proxy.
pub(crate) struct Proxy {
    url: String,
    ca_pem: String,
    core: Arc<Core>,
    acceptor: JoinHandle<()>,
}

impl Proxy {
    /// A proxy in front of the API server at `url`, whose authority is `ca_pem`.
    pub(crate) fn to(url: &str, ca_pem: &str) -> Builder {
        Builder {
            upstream: url.to_owned(),
            upstream_ca_pem: ca_pem.to_owned(),
            identity: None,
            protocols: &["h2", "http/1.1"],
            rtt: Duration::ZERO,
        }
    }

    /// A proxy in front of a bed's API server.
    pub(crate) fn before(bed: &Bed) -> Builder {
        Self::to(bed.server(), bed.ca_pem())
    }

    /// A kubeconfig file whose one context leads through the proxy. Only a token
    /// proves who the user is: see [`Builder::identity`] for certificates.
    pub(crate) fn kubeconfig(&self, user: &User, namespace: Option<&str>) -> String {
        kubeconfig(self.url(), self.ca_pem(), user, namespace)
    }

    /// Where the plugin is to connect to.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// What it has to trust for that.
    pub(crate) fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Puts a rule in force. Of several that are for one request, the first one
    /// that acts does.
    pub(crate) fn on(&self, when: When, action: Action) -> Rule {
        let rule = Rule::new(when, action, Arc::clone(&self.core.log));
        self.core.rules.lock().unwrap().push(rule.clone());
        rule
    }

    /// A rule that only tells of the requests that it is for.
    pub(crate) fn observe(&self, when: When) -> Rule {
        self.on(when, Action::Observe)
    }

    /// Takes every rule out of force.
    pub(crate) fn lift_all(&self) {
        let mut rules = self.core.rules.lock().unwrap();
        rules.iter().for_each(Rule::lift);
        rules.clear();
    }

    /// Takes the API server away until `up`.
    pub(crate) fn down(&self, outage: Outage) {
        self.core.set_outage(Some(outage));
    }

    /// Brings the API server back, for new connections.
    pub(crate) fn up(&self) {
        self.core.set_outage(None);
    }

    /// Everything that passed, in the order in which it arrived.
    pub(crate) fn requests(&self) -> Vec<Entry> {
        self.log().entries()
    }

    /// What may have changed the cluster.
    pub(crate) fn writes(&self) -> Vec<Entry> {
        let mut entries = self.requests();
        entries.retain(Entry::is_write);
        entries
    }

    /// How many requests `when` is for, its count aside.
    pub(crate) fn count(&self, when: &When) -> usize {
        let entries = self.requests();
        entries.iter().filter(|entry| when.test(entry)).count()
    }

    /// The requests by the waves in which they were sent.
    pub(crate) fn waves(&self) -> Vec<Vec<Entry>> {
        waves(&self.requests())
    }

    /// How many TCP connections were opened.
    pub(crate) fn connections(&self) -> usize {
        self.log().connections.load(Ordering::SeqCst)
    }

    /// How many TLS handshakes were finished.
    pub(crate) fn handshakes(&self) -> usize {
        self.log().handshakes.load(Ordering::SeqCst)
    }

    /// Forgets what passed so far.
    pub(crate) fn reset_log(&self) {
        self.log().reset();
    }

    /// A line for each request, for the message of a failing test.
    pub(crate) fn transcript(&self) -> String {
        self.log().transcript()
    }

    fn log(&self) -> &Log {
        &self.core.log
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.acceptor.abort();
        self.core.set_outage(Some(Outage::Reset));
    }
}
