//! What pods and their accounts have beside their objects: logs, bindings, tokens.

use std::sync::Arc;

use jiff::{Timestamp, ToSpan as _};
use serde_json::{Value, json};

use super::call::{Call, Query};
use super::kinds::POD;
use super::object::{Object as _, as_map, new_uid};
use super::refusal::{Refusal, bad_request, conflict};
use super::user::User;
use super::{Api, body, key};

/// A request for the log of a container that exists.
#[derive(Clone, Debug)]
pub(crate) struct LogRequest {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) container: String,
    pub(crate) query: Query,
}

impl Api {
    pub(super) fn log(&self, call: &Call) -> Result<Option<LogRequest>, Refusal> {
        let pod = self.find(&call.target)?;
        let name = pod.meta("name");
        let containers: Vec<&str> =
            pod.list("/spec/containers").iter().map(|container| container.text("/name")).collect();
        let container = match (call.query.get("container"), containers.as_slice()) {
            ("", [only]) => *only,
            ("", many) => {
                let many = many.join(" ");
                let message = format!("a container name must be specified for pod {name}, choose one of: [{many}]");
                return Err(bad_request(&message));
            }
            (asked, known) if known.contains(&asked) => asked,
            (asked, _) => {
                return Err(bad_request(&format!("container {asked} is not valid for pod {name}")));
            }
        };
        // Without a node there is nobody to ask, and nothing that was said.
        Ok(Some(pod.text("/spec/nodeName")).filter(|node| !node.is_empty()).map(|_| LogRequest {
            namespace: pod.meta("namespace").to_owned(),
            pod: name.to_owned(),
            container: container.to_owned(),
            query: call.query.clone(),
        }))
    }

    /// Puts a pod on a node.
    pub(super) fn bind(&mut self, call: &Call) -> Result<Value, Refusal> {
        let binding = body::parse(call)?;
        let mut pod = Value::clone(&Arc::clone(self.find(&call.target)?));
        if !pod.text("/spec/nodeName").is_empty() {
            let node = pod.text("/spec/nodeName");
            let why = format!("pod {} is already assigned to node {node:?}", call.target.name);
            return Err(conflict(&POD, &call.target.name, &why));
        }
        as_map(&mut pod["spec"]).insert("nodeName".to_owned(), binding["target"]["name"].clone());
        let scheduled = json!({ "type": "PodScheduled", "status": "True" });
        as_map(&mut pod["status"]).insert("conditions".to_owned(), json!([scheduled]));
        self.store.put(&key(&call.target), pod);
        Ok(json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 }))
    }

    /// Gives out a token of a `ServiceAccount`.
    pub(super) fn issue_token(&mut self, call: &Call) -> Result<Value, Refusal> {
        self.find(&call.target)?;
        let mut request = body::parse(call)?;
        let (namespace, account) = (&call.target.namespace, &call.target.name);
        let token = format!("token-{}", new_uid());
        self.tokens.insert(token.clone(), User::service_account(namespace, account));
        let expires = Timestamp::now() + 1.hour();
        request["apiVersion"] = "authentication.k8s.io/v1".into();
        request["kind"] = "TokenRequest".into();
        request.set_meta("name", account.as_str());
        request.set_meta("namespace", namespace.as_str());
        as_map(&mut request["spec"]);
        request["status"] = json!({ "token": token, "expirationTimestamp": format!("{expires:.0}") });
        Ok(request)
    }
}
