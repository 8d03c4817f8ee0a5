//! Flags laid over the entries of a kubeconfig, with kubectl's rules about what excludes what.

use std::collections::BTreeMap;

use http::Uri;
use rustls::pki_types::ServerName;

use super::file::{Cluster, Context, Kubeconfig, User, list};
use super::flags::given;
use super::material::Place;
use super::oidc::Provider;
use super::target::{Identity, Impersonation, Login, Plugin, Trust, entry};
use super::{ConnectionFlags, Error};

/// What cluster and user are called that no entry stands for.
const FLAGS: &str = "the connection flags";

/// The cluster entry with the flags laid over it, and what to call it.
pub(super) fn cluster(
    flags: &ConnectionFlags,
    file: &Kubeconfig,
    context: &Context,
    by_context: &str,
) -> Result<(Cluster, String), Error> {
    let flag = given(flags.cluster.as_ref());
    let server = given(flags.server.as_ref());
    let name = flag.or(context.cluster.as_deref());
    let named_by = flag.map_or(by_context, |_| "--cluster");
    let (mut cluster, label) = match name {
        // An address given by flag needs no entry.
        Some(name) if flag.is_some() || server.is_none() || file.clusters.contains_key(name) => {
            let cluster = entry(&file.clusters, "cluster", name, named_by, file)?.clone();
            let label = format!("cluster {name:?} in {}", cluster.origin.display());
            (cluster, label)
        }
        _ => (Cluster::default(), FLAGS.to_owned()),
    };
    let tls_server_name = given(flags.tls_server_name.as_ref()).map(str::to_owned);
    if let Some(server) = server {
        cluster.server = Some(server.to_owned());
    }
    // The name of another server's certificate is of no use.
    if tls_server_name.is_some() || server.is_some() {
        cluster.tls_server_name = tls_server_name;
    }
    let authority = given(flags.certificate_authority.as_ref());
    if flags.insecure_skip_tls_verify || authority.is_some() {
        cluster.insecure_skip_tls_verify = flags.insecure_skip_tls_verify;
        cluster.certificate_authority = authority.map(str::to_owned);
        cluster.certificate_authority_data = None;
    }
    cluster.disable_compression |= flags.disable_compression;
    Ok((cluster, label))
}

/// The user entry with the flags laid over it, and what to call it.
pub(super) fn user(
    flags: &ConnectionFlags,
    file: &Kubeconfig,
    context: &Context,
    by_context: &str,
    tls: bool,
) -> Result<(User, String), Error> {
    let flag = given(flags.user.as_ref());
    let certificate = given(flags.client_certificate.as_ref()).map(str::to_owned);
    let key = given(flags.client_key.as_ref()).map(str::to_owned);
    // Credentials given by flag, and a server that is sent none, need no entry.
    let needed = tls && flags.token().is_none() && certificate.is_none();
    let name = flag.or(context.user.as_deref());
    let named_by = flag.map_or(by_context, |_| "--user");
    let (mut user, label) = match name {
        Some(name) if flag.is_some() || needed || file.users.contains_key(name) => {
            let user = entry(&file.users, "user", name, named_by, file)?.clone();
            let label = format!("user {name:?} in {}", user.origin.display());
            (user, label)
        }
        _ => (User::default(), FLAGS.to_owned()),
    };
    if let Some(token) = flags.token() {
        user.token = Some(token.clone());
    }
    if certificate.is_some() {
        user.client_certificate = certificate;
        user.client_certificate_data = None;
    }
    if key.is_some() {
        user.client_key = key;
        user.client_key_data = None;
    }
    let text = |flag: &Option<String>| given(flag.as_ref()).map(str::to_owned);
    user.impersonate = text(&flags.impersonate).or(user.impersonate);
    user.impersonate_uid = text(&flags.impersonate_uid).or(user.impersonate_uid);
    if !flags.impersonate_groups.is_empty() {
        user.impersonate_groups.clone_from(&flags.impersonate_groups);
    }
    user.impersonate_user_extra.extend(user_extra(&flags.impersonate_user_extra)?);
    Ok((user, label))
}

/// The pairs of `--as-user-extra` by key.
fn user_extra(pairs: &[String]) -> Result<BTreeMap<String, Vec<String>>, Error> {
    let mut extra = BTreeMap::<_, Vec<_>>::new();
    for pair in pairs {
        let Some((key, value)) = pair.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(Error::InvalidFlag {
                flag: "--as-user-extra",
                value: pair.clone(),
                problem: "it must be key=value".to_owned(),
            });
        };
        extra.entry(key.to_owned()).or_default().push(value.to_owned());
    }
    Ok(extra)
}

/// How the cluster's server proves itself.
pub(super) fn trust(flags: &ConnectionFlags, cluster: &Cluster, label: &str) -> Result<Trust, Error> {
    let from_flag = given(flags.certificate_authority.as_ref()).is_some();
    let entry = if from_flag { "--certificate-authority" } else { label };
    let file = Place { entry, what: "certificate-authority" };
    let data = Place { entry, what: "certificate-authority-data" };
    let found = match (&cluster.certificate_authority, &cluster.certificate_authority_data) {
        (Some(_), Some(_)) => {
            return Err(data.invalid("and certificate-authority exclude one another; remove one"));
        }
        (Some(path), None) => Some((file, file.read(path)?)),
        (None, Some(text)) => Some((data, data.decode(text)?)),
        (None, None) => None,
    };
    if let Some((place, _)) = &found
        && cluster.insecure_skip_tls_verify
    {
        return Err(place.invalid("and insecure-skip-tls-verify exclude one another; remove one"));
    }
    let roots = found.as_ref().map(|(place, pem)| place.certificates(pem)).transpose()?;
    let pem = found.map(|(_, pem)| pem);
    let server_name = cluster.tls_server_name.as_ref().map(|name| {
        let place = Place { entry: label, what: "tls-server-name" };
        ServerName::try_from(name.clone()).map_err(|_| place.invalid(format_args!("{name:?} is not a host name")))
    });
    Ok(Trust { roots, pem, insecure: cluster.insecure_skip_tls_verify, server_name: server_name.transpose()? })
}

/// The client certificate of a user.
pub(super) fn identity(flags: &ConnectionFlags, user: &User, label: &str) -> Result<Option<Identity>, Error> {
    let by_flag = |flag: &Option<String>, name| given(flag.as_ref()).map_or(label, |_| name);
    let certificate_entry = by_flag(&flags.client_certificate, "--client-certificate");
    let key_entry = by_flag(&flags.client_key, "--client-key");

    let file = Place { entry: certificate_entry, what: "client-certificate" };
    let data = Place { entry: certificate_entry, what: "client-certificate-data" };
    let chain = match (&user.client_certificate, &user.client_certificate_data) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            return Err(data.invalid("and client-certificate exclude one another; remove one"));
        }
        (Some(path), None) => file.certificates(&file.read(path)?)?,
        (None, Some(text)) => data.certificates(&data.decode(text)?)?,
    };
    let file = Place { entry: key_entry, what: "client-key" };
    let data = Place { entry: key_entry, what: "client-key-data" };
    let key = match (&user.client_key, &user.client_key_data) {
        (None, None) => return Err(file.invalid("is missing, which the client certificate needs")),
        (Some(_), Some(_)) => {
            return Err(data.invalid("and client-key exclude one another; remove one"));
        }
        (Some(path), None) => file.key(&file.read(path)?)?,
        (None, Some(text)) => data.key(&data.decode(text.expose())?)?,
    };
    Ok(Some(Identity { entry: certificate_entry.to_owned(), chain, key }))
}

/// What a user's `Authorization` header is made of.
pub(super) fn login(
    user: User,
    label: &str,
    cluster: &Cluster,
    trust: &Trust,
    has_certificate: bool,
) -> Result<Login, Error> {
    let invalid = |problem: &str| Error::InvalidEntry { entry: label.to_owned(), problem: problem.to_owned() };
    let has_token = user.token.is_some() || user.token_file.is_some();
    let has_password = user.username.is_some() || user.password.is_some();
    if has_token && has_password {
        return Err(invalid("a token and a password exclude one another; remove one"));
    }
    if user.exec.is_some() && user.auth_provider.is_some() {
        return Err(invalid("exec and auth-provider exclude one another; remove one"));
    }
    if let Some(exec) = &user.exec {
        exec.check().map_err(|problem| invalid(&problem))?;
    }
    if let Some(path) = user.token_file {
        let place = Place { entry: label, what: "tokenFile" };
        if user.token.is_none() && place.read(&path)?.trim_ascii().is_empty() {
            return Err(place.invalid(format_args!("{path} is empty")));
        }
        return Ok(Login::TokenFile { path, fallback: user.token });
    }
    if let Some(token) = user.token {
        return Ok(Login::Token(token));
    }
    if let Some(username) = user.username {
        let password = user.password.unwrap_or_else(|| "".into());
        return Ok(Login::Basic { username, password });
    }
    match (user.auth_provider, user.exec) {
        (Some(provider), _) if provider.name == "oidc" => {
            Ok(Login::Oidc(Box::new(Provider::read(provider.config, label)?)))
        }
        (Some(provider), _) => Err(invalid(&format!(
            "the auth-provider {:?} is no longer part of kubectl; use an exec plugin",
            provider.name
        ))),
        // A plugin is not asked where a certificate already says who the caller is.
        (None, Some(exec)) if !has_certificate => {
            let (user, cluster, authority) = (label.to_owned(), cluster.clone(), trust.pem.clone());
            Ok(Login::Exec(Box::new(Plugin { exec, user, cluster, authority })))
        }
        _ => Ok(Login::Anonymous),
    }
}

/// On whose behalf a user makes requests.
pub(super) fn impersonation(user: &User, label: &str) -> Result<Option<Impersonation>, Error> {
    let Some(name) = &user.impersonate else {
        let more = user.impersonate_uid.is_some()
            || !user.impersonate_groups.is_empty()
            || !user.impersonate_user_extra.is_empty();
        if !more {
            return Ok(None);
        }
        return Err(Error::InvalidEntry {
            entry: label.to_owned(),
            problem: "a uid, groups or extra are impersonated without a user; add --as NAME".into(),
        });
    };
    Ok(Some(Impersonation {
        user: name.clone(),
        uid: user.impersonate_uid.clone(),
        groups: user.impersonate_groups.clone(),
        extra: user.impersonate_user_extra.clone(),
    }))
}

/// The address of a server: a URL, or `host:port`, which means http.
pub(super) fn server_uri(server: &str, entry: &str) -> Result<Uri, Error> {
    let invalid = |rule: &str| Error::InvalidEntry {
        entry: entry.to_owned(),
        problem: format!("the server {server:?} must {rule}"),
    };
    let url = match server.split_once("://") {
        Some(_) => server.to_owned(),
        None if server.trim_end_matches('/').contains('/') => return Err(invalid("be a URL or host:port")),
        None => format!("http://{server}"),
    };
    // Query and fragment are of no use in a base address.
    let base = url.split(['?', '#']).next().unwrap_or_default();
    let uri: Uri = base.parse().map_err(|_| invalid("be a URL or host:port"))?;
    match (uri.scheme_str(), uri.authority()) {
        (Some("http" | "https"), Some(authority)) if authority.as_str().contains('@') => {
            Err(Error::InvalidEntry { entry: entry.to_owned(), problem: USERINFO.to_owned() })
        }
        (Some("http" | "https"), Some(authority)) if !authority.host().is_empty() => Ok(uri),
        _ => Err(invalid("begin with https:// or http:// and name a host")),
    }
}

/// The address itself stays out of the message: it holds a password.
const USERINFO: &str = "the server's address must not hold a user name or password; put them into the user entry";

/// Why there is no server to connect to.
pub(super) fn no_server(file: &Kubeconfig, context: Option<&str>, cluster: &str) -> Error {
    if let Some(context) = context {
        let (entry, lacks) = match cluster {
            FLAGS => (format!("context {context:?}"), "cluster"),
            entry => (entry.to_owned(), "server"),
        };
        return Error::InvalidEntry { entry, problem: format!("it names no {lacks}; set one or pass --server URL") };
    }
    if file.read.is_empty() {
        let looked = match file.missing.as_slice() {
            [] => "KUBECONFIG names no file".to_owned(),
            missing => format!("there is no {}", list(missing)),
        };
        return Error::NoConfiguration { looked };
    }
    let names: Vec<_> = file.contexts.keys().map(String::as_str).collect();
    let choices = if names.is_empty() { "there is none".to_owned() } else { names.join(", ") };
    Error::NoCurrentContext { files: file.names(), choices }
}
