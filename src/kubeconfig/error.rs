//! What can be wrong with flags and kubeconfig.

use std::path::PathBuf;

/// A connection could not be set up from flags, kubeconfig and environment. All of these are invalid input (exit 2) except
/// [`Error::Plugin`], [`Error::Oidc`] and [`Error::ProviderAway`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file of `--kubeconfig` does not exist.
    #[error("the kubeconfig {} does not exist; check --kubeconfig", .0.display())]
    NoSuchKubeconfig(PathBuf),

    /// A kubeconfig exists and cannot be read.
    #[error("cannot read the kubeconfig {}: {source}", path.display())]
    ReadKubeconfig {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },

    /// A kubeconfig is not one.
    #[error("the kubeconfig {} is not valid: {cause}", path.display())]
    ParseKubeconfig {
        /// The file.
        path: PathBuf,
        /// Where and why.
        cause: String,
    },

    /// A name stands twice in one file.
    #[error("the kubeconfig {} has two {kind} entries named {name:?}; remove one", path.display())]
    DuplicateEntry {
        /// The file.
        path: PathBuf,
        /// `cluster`, `context` or `user`.
        kind: &'static str,
        /// The name.
        name: String,
    },

    /// Nothing says which cluster is meant.
    #[error("no cluster is configured: {looked}; set KUBECONFIG, pass --kubeconfig FILE, or pass --server URL")]
    NoConfiguration {
        /// Where configuration was looked for.
        looked: String,
    },

    /// The kubeconfig has no `current-context`, and no flag chose a cluster.
    #[error(
        "no context is chosen: {files} sets no current-context; pass --context NAME ({choices}) or run \
         `kubectl config use-context NAME`"
    )]
    NoCurrentContext {
        /// The files that were read.
        files: String,
        /// The contexts that there are.
        choices: String,
    },

    /// An entry that is named does not exist.
    #[error("the {kind} {name:?} that {named_by} names is not in {files} ({choices})")]
    NoSuchEntry {
        /// `cluster`, `context` or `user`.
        kind: &'static str,
        /// The name.
        name: String,
        /// The flag or the entry that names it.
        named_by: String,
        /// The files that were read.
        files: String,
        /// The entries that there are.
        choices: String,
    },

    /// An entry contradicts itself or lacks something.
    #[error("{entry}: {problem}")]
    InvalidEntry {
        /// The entry, and the file or flag that it comes from.
        entry: String,
        /// What is wrong and what to do.
        problem: String,
    },

    /// A flag has a value that it cannot have.
    #[error(
        "--request-timeout {0:?} is not a duration; write seconds (30) or a number with a unit (30s, 1m, 0 for none)"
    )]
    RequestTimeout(String),

    /// A flag has a value that it cannot have.
    #[error("{flag} {value:?} is not valid: {problem}")]
    InvalidFlag {
        /// The flag.
        flag: &'static str,
        /// Its value.
        value: String,
        /// The rule that it breaks.
        problem: String,
    },

    /// A file named by an entry or a flag cannot be read.
    #[error("{entry}: cannot read {what} {}: {source}", path.display())]
    ReadFile {
        /// The entry or flag that names it.
        entry: String,
        /// What it is.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },

    /// An exec plugin gave no credentials: not authenticated (exit 4).
    #[error("{entry}: the credential plugin `{command}` failed: {problem}")]
    Plugin {
        /// The user entry that names the plugin.
        entry: String,
        /// The program.
        command: String,
        /// What it did, or said on stderr.
        problem: String,
    },

    /// An identity provider gave no token: not authenticated (exit 4).
    #[error("{entry}: the auth-provider oidc failed: {problem}")]
    Oidc {
        /// The user entry that names the provider.
        entry: String,
        /// What happened and what to do.
        problem: String,
    },

    /// An identity provider did not answer: as with a cluster that does not, waiting may help (exit 6).
    #[error("{entry}: the auth-provider oidc failed: {problem}; check the network and idp-issuer-url")]
    ProviderAway {
        /// The user entry that names the provider.
        entry: String,
        /// What happened.
        problem: String,
    },

    /// The TLS side of a connection could not be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(#[source] rustls::Error),

    /// A token or password holds characters that a header cannot carry.
    #[error(
        "the token or password holds characters that cannot be sent in a header; write it anew, without line breaks"
    )]
    Credential,

    /// A name to impersonate holds characters that a header cannot carry.
    #[error("a name to impersonate cannot be sent in a header: {0}")]
    Impersonation(#[source] kube::Error),
}

impl Error {
    /// Whether the caller could not log in, rather than having given wrong input.
    pub(crate) fn is_unauthenticated(&self) -> bool {
        matches!(self, Self::Plugin { .. } | Self::Oidc { .. })
    }

    /// Whether somebody who is needed to log in did not answer.
    pub(crate) fn is_unreachable(&self) -> bool {
        matches!(self, Self::ProviderAway { .. })
    }
}
