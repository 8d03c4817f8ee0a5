//! The cluster: what tests hold in their hands.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Client;

use super::api::Api;
use super::api::user::User;
use super::hook::{Fault, Hook, Hooks, Point};
use super::logs::Logs;
use super::request::{Log, Request};
use super::serve::Server;
use super::service::ApiService;

/// A Kubernetes API in memory. Clones are the same cluster.
#[derive(Clone, Debug)]
pub struct Cluster(Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    api: Mutex<Api>,
    pub(super) hooks: Hooks,
    pub(super) log: Log,
    pub(super) logs: Arc<Logs>,
    enforces_rbac: AtomicBool,
}

impl Inner {
    pub(super) fn api(&self) -> MutexGuard<'_, Api> {
        self.api.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn enforces_rbac(&self) -> bool {
        self.enforces_rbac.load(Ordering::SeqCst)
    }
}

impl Default for Cluster {
    fn default() -> Self {
        Self::new()
    }
}

impl Cluster {
    /// A cluster with the namespaces and roles that every cluster has.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            api: Mutex::new(Api::new()),
            hooks: Hooks::default(),
            log: Log::default(),
            logs: Arc::default(),
            enforces_rbac: AtomicBool::new(false),
        }))
    }

    /// A client for a user who may do everything. Like all of this cluster's, it repeats no request.
    ///
    /// # Panics
    /// Outside a tokio runtime, on which the client's queue runs.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client_as(&User::admin())
    }

    /// A client for a user. What it may do matters once [`Cluster::enforce_rbac`] is on, and to access reviews.
    ///
    /// # Panics
    /// Outside a tokio runtime, on which the client's queue runs.
    #[must_use]
    pub fn client_as(&self, user: &User) -> Client {
        Client::new(ApiService::new(Arc::clone(&self.0), user.clone()), "default")
    }

    /// Serves the cluster over HTTP/1.1 and unencrypted HTTP/2 on a port of 127.0.0.1; 0 takes a free one. Requests
    /// without a token come from a user who may do everything.
    ///
    /// # Errors
    /// If the port cannot be bound.
    pub async fn serve(&self, port: u16) -> io::Result<Server> {
        Server::start(Arc::clone(&self.0), port).await
    }

    /// Refuses what stored roles and bindings do not allow, from now on. Off at first.
    pub fn enforce_rbac(&self, enforce: bool) {
        self.0.enforces_rbac.store(enforce, Ordering::SeqCst);
    }

    /// Does something to the requests that fit, before they are carried out.
    pub fn before(&self, when: impl Fn(&Request) -> bool + Send + Sync + 'static, fault: Fault) -> Hook {
        self.0.hooks.add(Point::Before, Box::new(when), fault)
    }

    /// Does something to the requests that fit, after they were carried out and before they are answered.
    pub fn after(&self, when: impl Fn(&Request) -> bool + Send + Sync + 'static, fault: Fault) -> Hook {
        self.0.hooks.add(Point::After, Box::new(when), fault)
    }

    /// The requests until now in the order of arrival, the last ten thousand of them, but those of the cluster's own
    /// [`Workers`](super::Workers).
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.0.log.all()
    }

    /// Forgets the requests until now.
    pub fn forget_requests(&self) {
        self.0.log.clear();
    }

    pub(super) fn inner(&self) -> Arc<Inner> {
        Arc::clone(&self.0)
    }

    pub(super) fn logs(&self) -> Arc<Logs> {
        Arc::clone(&self.0.logs)
    }

    pub(super) fn user_of_token(&self, token: &str) -> Option<User> {
        self.0.api().user_of_token(token).cloned()
    }

    /// Forgets the changes until now, as etcd's compaction does: older watches and continue tokens expire.
    pub fn compact(&self) {
        self.0.api().compact();
    }
}
