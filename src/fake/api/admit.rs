//! What is asked of a write beside its form: that its namespace lives, that its author may grant what it grants.

use serde_json::Value;

use super::Api;
use super::kind::Kind;
use super::kinds::{NAMESPACE, POD, SERVICE_ACCOUNT};
use super::object::Object as _;
use super::refusal::{Refusal, forbidden, not_found, terminating};
use super::store::Key;
use super::user::User;

impl Api {
    pub(super) fn namespace(&self, name: &str) -> Option<&Value> {
        let key = Key { resource: NAMESPACE.resource(), namespace: String::new(), name: name.to_owned() };
        self.store.get(&key).map(AsRef::as_ref)
    }

    /// Refuses a create in a namespace that is not there or on its way out.
    pub(super) fn admit_to_namespace(&self, kind: &Kind, namespace: &str, name: &str) -> Result<(), Refusal> {
        if !kind.namespaced {
            return Ok(());
        }
        match self.namespace(namespace) {
            None => Err(not_found(&NAMESPACE, namespace)),
            Some(live) if live.is_terminating() => Err(terminating(kind, name, namespace)),
            Some(_) => Ok(()),
        }
    }

    /// Refuses a new object that the rest of the cluster does not allow.
    pub(super) fn admit_new(&self, kind: &Kind, object: &Value, user: &User) -> Result<(), Refusal> {
        if kind.resource() == POD.resource() {
            return self.admit_pod(object);
        }
        self.admit_grant(kind, object, user)
    }

    fn admit_pod(&self, pod: &Value) -> Result<(), Refusal> {
        let (namespace, account) = (pod.meta("namespace"), pod.text("/spec/serviceAccountName"));
        let key =
            Key { resource: SERVICE_ACCOUNT.resource(), namespace: namespace.to_owned(), name: account.to_owned() };
        if self.store.get(&key).is_some() {
            return Ok(());
        }
        let why =
            format!("error looking up service account {namespace}/{account}: serviceaccount {account:?} not found");
        Err(forbidden(&POD, pod.meta("name"), &why))
    }
}
