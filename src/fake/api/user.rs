//! Who sends a request.

/// A user as the API server knows one after authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name that bindings name.
    pub name: String,
    /// The groups that bindings name, `system:authenticated` included.
    pub groups: Vec<String>,
}

/// The group that may do everything.
const MASTERS: &str = "system:masters";

impl User {
    /// An authenticated user of some groups.
    #[must_use]
    pub fn new(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().copied().chain(["system:authenticated"]).map(str::to_owned).collect();
        Self { name: name.to_owned(), groups }
    }

    /// A user who may do everything.
    #[must_use]
    pub fn admin() -> Self {
        Self::new("admin", &[MASTERS])
    }

    /// The user that a pod under this `ServiceAccount` is.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let in_namespace = format!("system:serviceaccounts:{namespace}");
        Self::new(&format!("system:serviceaccount:{namespace}:{name}"), &["system:serviceaccounts", &in_namespace])
    }

    pub(crate) fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}
