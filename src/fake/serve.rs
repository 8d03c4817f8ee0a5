//! The API on a loopback port, for clients of any kind.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

use super::api::user::User;
use super::cluster::Inner;
use super::service::ApiService;

/// A served cluster. It ends, with its connections, when this is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    task: AbortHandle,
}

impl Server {
    /// Binds `port` of 127.0.0.1; 0 takes a free one.
    pub(super) async fn start(cluster: Arc<Inner>, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(accept(listener, cluster)).abort_handle();
        Ok(Self { address, task })
    }

    /// Where it listens: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A kubeconfig that leads there, for a user who may do everything.
    #[must_use]
    pub fn kubeconfig(&self, namespace: &str) -> String {
        format!(
            "apiVersion: v1
kind: Config
current-context: fake
contexts:
- name: fake
  context: {{ cluster: fake, user: admin, namespace: {namespace} }}
clusters:
- name: fake
  cluster: {{ server: {} }}
users:
- name: admin
  user: {{}}
",
            self.url()
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, cluster: Arc<Inner>) {
    // Connections end with the task: a set aborts what is in it when it is dropped.
    let mut connections = JoinSet::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "a connection could not be accepted");
                continue;
            }
        };
        let service = TowerToHyperService::new(ApiService::new(Arc::clone(&cluster), User::admin()));
        connections.spawn(async move {
            // A connection that breaks is the client's to notice, and a dropped answer breaks it.
            let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}
