//! Access reviews: what would be allowed.

use serde_json::{Value, json};

use super::call::Call;
use super::object::{Object as _, as_map};
use super::rbac::{Attributes, Decision};
use super::refusal::{Fault, Refusal, bad_request, invalid};
use super::user::User;
use super::{Api, body};

impl Api {
    pub(super) fn review(&self, call: &Call) -> Result<Value, Refusal> {
        let kind = call.target.kind;
        let mut review = body::object(call)?;
        let spec = review["spec"].clone();
        let status = match kind.name {
            "SelfSubjectReview" => json!({ "userInfo": { "username": call.user.name, "groups": call.user.groups } }),
            "SelfSubjectRulesReview" => self.rules_review(call, &spec)?,
            "SelfSubjectAccessReview" => {
                check(call, &spec, false)?;
                self.access(&call.user, &attributes(&spec))
            }
            _ => {
                check(call, &spec, true)?;
                let user = subject(&spec);
                let attributes = attributes(&spec);
                if kind.namespaced && attributes.namespace != call.target.namespace {
                    return Err(bad_request("spec.resourceAttributes.namespace must match metadata.namespace"));
                }
                self.access(&user, &attributes)
            }
        };
        as_map(&mut review).insert("status".to_owned(), status);
        review.set_meta("creationTimestamp", Value::Null);
        Ok(review)
    }

    fn access(&self, user: &User, attributes: &Attributes) -> Value {
        match self.authorize(user, attributes) {
            Decision::Allowed { reason } if reason.is_empty() => json!({ "allowed": true }),
            Decision::Allowed { reason } => json!({ "allowed": true, "reason": reason }),
            Decision::NoOpinion => json!({ "allowed": false }),
        }
    }

    fn rules_review(&self, call: &Call, spec: &Value) -> Result<Value, Refusal> {
        let namespace = spec.text("/namespace");
        if namespace.is_empty() {
            return Err(bad_request("no namespace on request"));
        }
        let (paths, resources): (Vec<Value>, Vec<Value>) = self
            .rules_of(&call.user, namespace)
            .into_iter()
            .partition(|rule| !rule.list("/nonResourceURLs").is_empty());
        Ok(json!({ "resourceRules": resources, "nonResourceRules": paths, "incomplete": false }))
    }
}

/// Exactly one thing must be asked, and about someone.
fn check(call: &Call, spec: &Value, names_a_subject: bool) -> Result<(), Refusal> {
    let mut faults = Vec::new();
    let asked = ["resourceAttributes", "nonResourceAttributes"].map(|field| spec[field].is_object());
    match asked {
        [true, true] => {
            let why = "cannot be specified in combination with resourceAttributes";
            faults.push(Fault::invalid("spec.nonResourceAttributes", "", why));
        }
        [false, false] => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            faults.push(Fault::invalid("spec.resourceAttributes", "null", why));
        }
        _ => {}
    }
    if names_a_subject && spec.text("/user").is_empty() && spec.list("/groups").is_empty() {
        faults.push(Fault::invalid("spec.user", "", "at least one of user or group must be specified"));
    }
    if faults.is_empty() { Ok(()) } else { Err(invalid(call.target.kind, "", faults)) }
}

/// The subject of a review: nobody's groups but those that it names.
fn subject(spec: &Value) -> User {
    let groups = spec.list("/groups").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    User { name: spec.text("/user").to_owned(), groups }
}

fn attributes(spec: &Value) -> Attributes {
    let path = spec["nonResourceAttributes"].is_object().then(|| spec.text("/nonResourceAttributes/path").to_owned());
    if path.is_some() {
        return Attributes { verb: spec.text("/nonResourceAttributes/verb").to_owned(), path, ..Attributes::default() };
    }
    let text = |field: &str| spec.text(&format!("/resourceAttributes/{field}")).to_owned();
    Attributes {
        verb: text("verb"),
        group: text("group"),
        resource: text("resource"),
        subresource: text("subresource"),
        namespace: text("namespace"),
        name: text("name"),
        path: None,
    }
}
