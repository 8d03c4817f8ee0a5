//! kubectl's connection flags, kubeconfig and environment made into one client.
//!
//! The rules are those of kubectl 1.32 (R39), not those of the kube crate. The client is pinned when it is made: a changed
//! `current-context` does not move a run to another cluster.

mod credentials;
mod environment;
mod error;
mod exec;
#[cfg(test)]
mod exec_tests;
mod failure;
#[cfg(test)]
mod failure_tests;
mod file;
#[cfg(test)]
mod file_tests;
mod flags;
mod log;
#[cfg(test)]
mod log_tests;
mod material;
mod merge;
mod oidc;
#[cfg(test)]
mod oidc_tests;
mod proxy;
#[cfg(test)]
mod proxy_tests;
mod route;
mod secret;
mod stranger;
mod stream;
mod target;
#[cfg(test)]
mod target_tests;
#[cfg(test)]
mod test_server;
mod tls;
mod transport;
#[cfg(test)]
mod transport_cost_tests;
#[cfg(test)]
mod transport_tests;

use std::time::Duration;

use http::Uri;
use http::header::{HeaderValue, PROXY_AUTHORIZATION, USER_AGENT};
use kube::client::{ClientBuilder, ConfigExt as _};
use tower::ServiceBuilder;
use tower_http::decompression::DecompressionLayer;

pub use self::environment::Environment;
pub use self::error::Error;
pub use self::flags::ConnectionFlags;
pub use self::secret::Secret;

use self::credentials::Credentials;
use self::log::Logged;
use self::route::{Ping, Route};
use self::target::{Impersonation, Target, is_tls};
use self::transport::{Epoch, Transport};

#[cfg(feature = "cli")]
pub(crate) use self::target::entries;

pub(crate) use self::failure::{Diagnosis, Kind as DiagnosisKind, classify, refusal};

/// The target of the log of requests: `info` is kubectl's `-v 6`, `debug` 7, `trace` 8 and above.
pub(crate) const LOG: &str = "kubectl_aicr::http";

/// The longest that making a connection may take: TCP, proxy and TLS together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// A client for one cluster as one identity, and what was decided with it.
#[derive(Clone)]
pub struct Connection {
    /// The client. Nothing has been sent yet.
    pub client: kube::Client,
    /// The namespace that flags, context or pod say.
    pub namespace: String,
    /// The server's address.
    pub server: String,
    /// The context that was chosen, if any.
    pub context: Option<String>,
    /// The longest that a single call may take; watches and logs are not meant. `None`: no bound.
    pub request_timeout: Option<Duration>,
}

/// The namespace that flags, kubeconfig and environment say. Reads files and contacts nobody.
///
/// # Errors
/// When a kubeconfig cannot be read or lacks the context that is asked for.
pub(crate) fn namespace(flags: &ConnectionFlags, env: &Environment) -> Result<String, Error> {
    target::namespace(flags, env)
}

/// Makes the client that flags, kubeconfig and environment say. The connection itself opens with the first request.
///
/// # Errors
/// When a kubeconfig, an entry of it or a flag is not usable.
pub async fn connect(flags: &ConnectionFlags, env: &Environment) -> Result<Connection, Error> {
    let request_timeout = flags.request_timeout()?;
    let mut target = Target::resolve(flags, env)?;

    let mut tls = tls::client_config(&mut target.trust, target.identity)?;
    let credentials = Credentials::new(target.login, env)?;
    let mut epoch = Epoch::default();
    if let Some(plugin) = credentials.plugin() {
        plugin.present_certificate(&mut tls);
        epoch = plugin.epoch();
    }
    // Here a plugin may take the time that its user needs; a request has less.
    credentials.header().await?;
    let (server, proxy) = (target.server, target.proxy);
    let address = display(&server);
    let route = Route {
        to: match &proxy {
            Some(proxy) => format!("{address} through the proxy {}", display(&proxy.address)).into(),
            None => address.as_str().into(),
        },
        through_proxy: proxy.is_some(),
        connector: stream::connector(&tls, target.trust.server_name, proxy.as_ref(), is_tls(&server)),
        limit: request_timeout.map_or(CONNECT_TIMEOUT, |limit| limit.min(CONNECT_TIMEOUT)),
        ping: Ping::default(),
        server: server.clone(),
    };

    let mut config = kube::Config::new(server.clone());
    let agent = HeaderValue::from_static(concat!("kubectl-aicr/", env!("CARGO_PKG_VERSION")));
    config.headers.push((USER_AGENT, agent));
    if let Some(proxy) = proxy.filter(|_| !is_tls(&server))
        && let Some(login) = proxy.authorization()
    {
        config.headers.push((PROXY_AUTHORIZATION, login));
    }
    if let Some(impersonation) = target.impersonation {
        impersonate(&mut config, impersonation);
    }
    let headers = config.extra_headers_layer().map_err(Error::Impersonation)?;

    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .and_then(stranger::as_status)
        .layer(DecompressionLayer::new().gzip(target.compression))
        .layer(headers)
        .layer(credentials)
        .service(Logged(Transport::new(route, epoch)));
    Ok(Connection {
        client: ClientBuilder::new(service, target.namespace.clone()).build(),
        namespace: target.namespace,
        server: address,
        context: target.context,
        request_timeout,
    })
}

/// An address as people write it.
fn display(address: &Uri) -> String {
    address.to_string().trim_end_matches('/').to_owned()
}

/// Has kube write the headers, which escape the keys of extras as the API server expects.
fn impersonate(config: &mut kube::Config, who: Impersonation) {
    config.auth_info.impersonate = Some(who.user);
    config.auth_info.impersonate_uid = who.uid;
    config.auth_info.impersonate_groups = Some(who.groups);
    config.auth_info.impersonate_user_extra = Some(who.extra.into_iter().collect());
}
