//! Flags, kubeconfig and environment made into one target: which server, trusted how, as whom.

use std::collections::BTreeMap;
use std::path::Path;

use http::Uri;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use super::file::{Cluster, Context, Exec, Kubeconfig, User};
use super::flags::given;
use super::merge::{cluster, identity, impersonation, login, no_server, server_uri, trust, user};
use super::oidc::Provider;
use super::proxy::Proxy;
use super::{ConnectionFlags, Environment, Error, Secret};

/// All that is needed to connect, read and checked.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) context: Option<String>,
    pub(super) namespace: String,
    pub(super) server: Uri,
    pub(super) trust: Trust,
    pub(super) identity: Option<Identity>,
    pub(super) login: Login,
    pub(super) impersonation: Option<Impersonation>,
    pub(super) proxy: Option<Proxy>,
    pub(super) compression: bool,
}

/// How the server proves itself.
#[derive(Debug, Default)]
pub(super) struct Trust {
    /// The roots to trust instead of the system's.
    pub(super) roots: Option<Vec<CertificateDer<'static>>>,
    /// The same in PEM.
    pub(super) pem: Option<Vec<u8>>,
    /// Whether to accept any certificate.
    pub(super) insecure: bool,
    /// The name to expect instead of the server's host.
    pub(super) server_name: Option<ServerName<'static>>,
}

/// A client certificate and its key.
#[derive(Debug)]
pub(super) struct Identity {
    /// The entry or flag that it comes from.
    pub(super) entry: String,
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

/// What goes into the `Authorization` header.
#[derive(Debug)]
pub(super) enum Login {
    Anonymous,
    Basic {
        username: String,
        password: Secret,
    },
    Token(Secret),
    /// The file wins over the token, also over that of `--token`, for as long as it can be read.
    TokenFile {
        path: String,
        fallback: Option<Secret>,
    },
    Exec(Box<Plugin>),
    Oidc(Box<Provider>),
}

/// An exec plugin, the user entry that names it, and the cluster that it may be told of.
#[derive(Debug)]
pub(super) struct Plugin {
    pub(super) exec: Exec,
    pub(super) user: String,
    pub(super) cluster: Cluster,
    /// The cluster's roots in PEM.
    pub(super) authority: Option<Vec<u8>>,
}

/// On whose behalf requests are made.
#[derive(Debug)]
pub(super) struct Impersonation {
    pub(super) user: String,
    pub(super) uid: Option<String>,
    pub(super) groups: Vec<String>,
    pub(super) extra: BTreeMap<String, Vec<String>>,
}

/// The chosen context of a kubeconfig.
struct Chosen {
    name: Option<String>,
    context: Context,
}

/// Reads the kubeconfig that flags and environment name.
fn load(flags: &ConnectionFlags, env: &Environment) -> Result<Kubeconfig, Error> {
    match given(flags.kubeconfig.as_ref()) {
        Some(path) => Kubeconfig::explicit(path.as_ref()),
        None => Kubeconfig::merged(env.kubeconfig_files()),
    }
}

/// The context of `--context` or `current-context`, if there is one; it must exist.
fn choose(flags: &ConnectionFlags, file: &Kubeconfig) -> Result<Chosen, Error> {
    let flag = given(flags.context.as_ref());
    let Some(name) = flag.or(file.current_context.as_deref()) else {
        return Ok(Chosen { name: None, context: Context::default() });
    };
    let named_by = flag.map_or("current-context", |_| "--context");
    let context = entry(&file.contexts, "context", name, named_by, file)?.clone();
    Ok(Chosen { name: Some(name.to_owned()), context })
}

pub(super) fn entry<'a, T>(
    entries: &'a BTreeMap<String, T>,
    kind: &'static str,
    name: &str,
    named_by: &str,
    file: &Kubeconfig,
) -> Result<&'a T, Error> {
    entries.get(name).ok_or_else(|| Error::NoSuchEntry {
        kind,
        name: name.to_owned(),
        named_by: named_by.to_owned(),
        files: file.names(),
        choices: choices(entries),
    })
}

/// `it has a, b` for messages.
fn choices<T>(entries: &BTreeMap<String, T>) -> String {
    match entries.keys().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => "it has none".to_owned(),
        names => format!("it has {}", names.join(", ")),
    }
}

/// The namespace: flag, context, the pod's own, `default`.
pub(super) fn namespace(flags: &ConnectionFlags, env: &Environment) -> Result<String, Error> {
    let file = load(flags, env)?;
    Ok(namespace_in(flags, env, &choose(flags, &file)?.context))
}

/// What the kubeconfig offers for flags to choose from.
#[cfg(feature = "cli")]
#[derive(Debug, Default)]
pub(crate) struct Entries {
    pub(crate) contexts: Vec<String>,
    pub(crate) clusters: Vec<String>,
    pub(crate) users: Vec<String>,
}

/// The names of the kubeconfig's entries.
#[cfg(feature = "cli")]
pub(crate) fn entries(flags: &ConnectionFlags, env: &Environment) -> Result<Entries, Error> {
    let file = load(flags, env)?;
    Ok(Entries {
        contexts: file.contexts.into_keys().collect(),
        clusters: file.clusters.into_keys().collect(),
        users: file.users.into_keys().collect(),
    })
}

fn namespace_in(flags: &ConnectionFlags, env: &Environment, context: &Context) -> String {
    let chosen = given(flags.namespace.as_ref()).or(context.namespace.as_deref()).map(str::to_owned);
    chosen.or_else(|| env.pod_namespace()).unwrap_or_else(|| "default".to_owned())
}

/// Which server and whom, with the flags laid over the entries, and what messages call these.
struct Choice {
    context: Option<String>,
    namespace: String,
    server: Uri,
    cluster: (Cluster, String),
    user: (User, String),
}

impl Choice {
    fn make(flags: &ConnectionFlags, env: &Environment) -> Result<Self, Error> {
        let file = load(flags, env)?;
        let Chosen { name, context } = choose(flags, &file)?;
        let namespace = namespace_in(flags, env, &context);
        let unconfigured = file.contexts.is_empty() && file.clusters.is_empty() && file.users.is_empty();
        if unconfigured && !flags.choose_connection() && env.in_cluster() {
            return Self::in_cluster(flags, env, namespace);
        }
        let by_context = name.as_ref().map(|name| format!("context {name:?}")).unwrap_or_default();
        let cluster = cluster(flags, &file, &context, &by_context)?;
        let by_flag = given(flags.server.as_ref()).map(|_| "--server");
        let server = match (cluster.0.server.as_deref(), env.text("KUBERNETES_MASTER")) {
            (Some(server), _) => server_uri(server, by_flag.unwrap_or(&cluster.1))?,
            (None, Some(server)) => server_uri(server, "KUBERNETES_MASTER")?,
            (None, None) => return Err(no_server(&file, name.as_deref(), &cluster.1)),
        };
        let user = user(flags, &file, &context, &by_context, is_tls(&server))?;
        Ok(Self { context: name, namespace, server, cluster, user })
    }

    /// The API server of the cluster that this process is a pod of.
    fn in_cluster(flags: &ConnectionFlags, env: &Environment, namespace: String) -> Result<Self, Error> {
        let host = env.text("KUBERNETES_SERVICE_HOST").unwrap_or_default();
        let port = env.text("KUBERNETES_SERVICE_PORT").unwrap_or_default();
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let path = |file: &str| env.service_account(file).to_str().map(str::to_owned);
        let cluster = Cluster {
            certificate_authority: path("ca.crt").filter(|path| Path::new(path).exists()),
            disable_compression: flags.disable_compression,
            ..Cluster::default()
        };
        let user = User { token_file: path("token"), ..User::default() };
        Ok(Self {
            context: None,
            namespace,
            server: server_uri(&format!("https://{host}:{port}"), "KUBERNETES_SERVICE_HOST")?,
            cluster: (cluster, "the pod's cluster".to_owned()),
            user: (user, "the pod's service account".to_owned()),
        })
    }
}

impl Target {
    /// Decides what to connect to, checks it, and reads what it refers to.
    pub(super) fn resolve(flags: &ConnectionFlags, env: &Environment) -> Result<Self, Error> {
        let choice = Choice::make(flags, env)?;
        let ((cluster, cluster_name), (user, user_name), server) = (choice.cluster, choice.user, choice.server);
        let trust = trust(flags, &cluster, &cluster_name)?;
        let proxy = Proxy::choose(cluster.proxy_url.as_deref(), &cluster_name, &server, env)?;
        let impersonation = impersonation(&user, &user_name)?;
        let identity = identity(flags, &user, &user_name)?;
        let login = login(user, &user_name, &cluster, &trust, identity.is_some())?;
        // Credentials are never sent in the clear; kubectl does not even look for them.
        let (identity, login) = if is_tls(&server) { (identity, login) } else { (None, Login::Anonymous) };
        Ok(Self {
            context: choice.context,
            namespace: choice.namespace,
            server,
            trust,
            identity,
            login,
            impersonation,
            proxy,
            compression: !cluster.disable_compression,
        })
    }
}

pub(super) fn is_tls(server: &Uri) -> bool {
    server.scheme_str() == Some("https")
}
