//! Which cluster a ledger speaks of (R36).

use serde::{Deserialize, Serialize};

use crate::agent::created_set::Uid;

/// Identity of a cluster, as far as the caller may see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClusterId {
    /// Address of the API server.
    server: String,
    /// UID of the `kube-system` Namespace, where it may be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uid: Option<Uid>,
}

impl ClusterId {
    /// Keeps the address without what may be secret in it.
    pub(crate) fn new(server: &http::Uri, uid: Option<Uid>) -> Self {
        let host = server.authority().map_or("", |authority| authority.as_str());
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        let path = server.path().trim_end_matches('/');
        let scheme = server.scheme_str().unwrap_or("https");
        Self { server: format!("{scheme}://{host}{path}"), uid }
    }

    /// Address of the API server.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// The UID decides where both sides know it, and the address otherwise.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (&self.uid, &other.uid) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => self.server == other.server,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(server: &str, uid: &str) -> ClusterId {
        ClusterId::new(&server.parse().unwrap(), Uid::new(uid.to_owned()))
    }

    #[test]
    fn r36_the_uid_decides_where_both_know_it() {
        assert!(cluster("https://a:6443", "u").is_same(&cluster("https://b:6443", "u")));
        assert!(!cluster("https://a:6443", "u").is_same(&cluster("https://a:6443", "v")));
        assert!(cluster("https://a:6443", "u").is_same(&cluster("https://a:6443", "")));
        assert!(!cluster("https://a:6443", "u").is_same(&cluster("https://b:6443", "")));
        assert!(!cluster("https://a:6443", "").is_same(&cluster("https://a:6444", "")));
    }

    #[test]
    fn r35_the_address_keeps_no_credential() {
        let id = cluster("https://admin:secret@api.example:6443/k8s/c-1/?token=secret", "");
        assert_eq!(id.server(), "https://api.example:6443/k8s/c-1");
    }
}
