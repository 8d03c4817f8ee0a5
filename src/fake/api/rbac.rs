//! RBAC: who may do what by the roles and bindings that are stored, and who may grant what.

use serde_json::{Value, json};

use super::Api;
use super::call::{Call, Verb};
use super::kind::{Kind, Subresource};
use super::kinds::{CLUSTER_ROLE, CLUSTER_ROLE_BINDING, NAMESPACE, ROLE, ROLE_BINDING};
use super::list;
use super::object::Object as _;
use super::refusal::{Refusal, forbidden, not_found, status};
use super::store::Key;
use super::user::User;

/// What someone wants to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// A path that is no resource; then nothing but the verb counts beside it.
    pub(crate) path: Option<String>,
}

/// What the authorizer said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Allowed { reason: String },
    NoOpinion,
}

/// A rule that holds for someone, and through what.
struct Held<'a> {
    rule: &'a Value,
    binding: &'a Value,
    subject: &'a Value,
}

impl Attributes {
    pub(crate) fn of(call: &Call) -> Self {
        let target = &call.target;
        let mut name = target.name.clone();
        // One name asked for by a field selector is as good as one in the path.
        if matches!(call.verb, Verb::List | Verb::Watch | Verb::DeleteCollection)
            && let Ok(selector) = list::selector(call)
        {
            selector.name().unwrap_or_default().clone_into(&mut name);
        }
        // A Namespace is in itself.
        let namespace = if target.kind.resource() == NAMESPACE.resource() { &target.name } else { &target.namespace };
        Self {
            verb: call.verb.as_str().to_owned(),
            group: target.kind.group.to_owned(),
            resource: target.kind.plural.to_owned(),
            subresource: target.subresource.map_or("", Subresource::as_str).to_owned(),
            namespace: namespace.clone(),
            name,
            path: None,
        }
    }

    fn is_covered_by(&self, rule: &Value) -> bool {
        let any = |field: &str, fits: &dyn Fn(&str) -> bool| {
            rule.list(&format!("/{field}")).iter().filter_map(Value::as_str).any(fits)
        };
        if !any("verbs", &|verb| verb == "*" || verb == self.verb) {
            return false;
        }
        if let Some(path) = &self.path {
            return any("nonResourceURLs", &|pattern| match pattern.strip_suffix('*') {
                Some(prefix) => path.starts_with(prefix),
                None => path == pattern,
            });
        }
        let resource = if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        };
        let every = format!("*/{}", self.subresource);
        any("apiGroups", &|group| group == "*" || group == self.group)
            && any("resources", &|pattern| {
                pattern == "*" || pattern == resource || (!self.subresource.is_empty() && pattern == every)
            })
            && (rule.list("/resourceNames").is_empty() || any("resourceNames", &|name| name == self.name))
    }
}

impl Api {
    pub(crate) fn authorize(&self, user: &User, attributes: &Attributes) -> Decision {
        if user.is_master() {
            return Decision::Allowed { reason: String::new() };
        }
        let held = self.held_by(user, &attributes.namespace);
        let granting = held.iter().find(|held| attributes.is_covered_by(held.rule));
        granting.map_or(Decision::NoOpinion, |held| Decision::Allowed { reason: held.reason() })
    }

    /// Refuses a call that its user may not make.
    pub(crate) fn authorize_call(&self, call: &Call) -> Result<(), Refusal> {
        let attributes = Attributes::of(call);
        if self.authorize(&call.user, &attributes) != Decision::NoOpinion {
            return Ok(());
        }
        let target = &call.target;
        let resource = match target.subresource {
            None => target.kind.plural.to_owned(),
            Some(subresource) => format!("{}/{}", target.kind.plural, subresource.as_str()),
        };
        let scope = if target.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {:?}", target.namespace)
        };
        let (user, verb, group) = (&call.user.name, call.verb.as_str(), target.kind.group);
        let why = format!("User {user:?} cannot {verb} resource {resource:?} in API group {group:?} {scope}");
        Err(forbidden(target.kind, &target.name, &why))
    }

    /// Refuses a path that is no resource.
    pub(crate) fn authorize_path(&self, user: &User, verb: &str, path: &str) -> Result<(), Refusal> {
        let attributes = Attributes { verb: verb.to_owned(), path: Some(path.to_owned()), ..Attributes::default() };
        if self.authorize(user, &attributes) != Decision::NoOpinion {
            return Ok(());
        }
        let message = format!("forbidden: User {:?} cannot {verb} path {path:?}", user.name);
        Err(status(403, "Forbidden", &message))
    }

    /// Refuses to take one user for another unless that is allowed.
    pub(crate) fn authorize_impersonation(&self, user: &User, name: &str, groups: &[&str]) -> Result<(), Refusal> {
        let wanted = groups.iter().map(|group| ("groups", *group)).chain([("users", name)]);
        for (resource, name) in wanted {
            let attributes = Attributes {
                verb: "impersonate".to_owned(),
                resource: resource.to_owned(),
                name: name.to_owned(),
                ..Attributes::default()
            };
            if self.authorize(user, &attributes) == Decision::NoOpinion {
                let message = format!(
                    "{resource} {name:?} is forbidden: User {:?} cannot impersonate resource {resource:?} in API group \"\" \
                     at the cluster scope",
                    user.name
                );
                return Err(status(403, "Forbidden", &message));
            }
        }
        Ok(())
    }

    /// The rules that a user has in a namespace.
    pub(crate) fn rules_of(&self, user: &User, namespace: &str) -> Vec<Value> {
        if user.is_master() {
            return vec![everything(), json!({ "verbs": ["*"], "nonResourceURLs": ["*"] })];
        }
        self.held_by(user, namespace).into_iter().map(|held| held.rule.clone()).collect()
    }

    fn held_by(&self, user: &User, namespace: &str) -> Vec<Held<'_>> {
        let everywhere = self.store.list(CLUSTER_ROLE_BINDING.resource(), None);
        let here = self.store.list(ROLE_BINDING.resource(), Some(namespace)).filter(|_| !namespace.is_empty());
        let mut held = Vec::new();
        for (key, binding) in everywhere.chain(here) {
            let subject = binding.list("/subjects").iter().find(|subject| is(user, subject, &key.namespace));
            let Some(subject) = subject else { continue };
            let Some(role) = self.role(&binding["roleRef"], &key.namespace) else { continue };
            held.extend(role.list("/rules").iter().map(|rule| Held { rule, binding, subject }));
        }
        held
    }

    fn role(&self, reference: &Value, namespace: &str) -> Option<&Value> {
        let (kind, namespace) = if reference["kind"] == ROLE.name { (&ROLE, namespace) } else { (&CLUSTER_ROLE, "") };
        let name = reference.text("/name").to_owned();
        let key = Key { resource: kind.resource(), namespace: namespace.to_owned(), name };
        self.store.get(&key).map(AsRef::as_ref)
    }

    /// Refuses a role with rules, or a binding to a role with rules, that its author does not hold.
    pub(super) fn admit_grant(&self, kind: &Kind, object: &Value, user: &User) -> Result<(), Refusal> {
        let (verb, role, rules) = if [ROLE.resource(), CLUSTER_ROLE.resource()].contains(&kind.resource()) {
            ("escalate", (kind, object.meta("name").to_owned()), Some(object))
        } else if [ROLE_BINDING.resource(), CLUSTER_ROLE_BINDING.resource()].contains(&kind.resource()) {
            let role = if object["roleRef"]["kind"] == ROLE.name { &ROLE } else { &CLUSTER_ROLE };
            let name = object.text("/roleRef/name").to_owned();
            ("bind", (role as &Kind, name), self.role(&object["roleRef"], object.meta("namespace")))
        } else {
            return Ok(());
        };
        let namespace = object.meta("namespace");
        let attributes = Attributes {
            verb: verb.to_owned(),
            group: role.0.group.to_owned(),
            resource: role.0.plural.to_owned(),
            namespace: namespace.to_owned(),
            name: role.1.clone(),
            ..Attributes::default()
        };
        if self.authorize(user, &attributes) != Decision::NoOpinion {
            return Ok(());
        }
        // The server speaks of the binding's resource here.
        let rules = rules.ok_or_else(|| not_found(kind, &role.1))?;
        let held = self.rules_of(user, namespace);
        let missing: Vec<Value> =
            rules.list("/rules").iter().flat_map(single).filter(|rule| !held.iter().any(|h| covers(h, rule))).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let missing: Vec<String> = missing.iter().map(shown).collect();
        let groups = user.groups.iter().map(|group| format!("{group:?}")).collect::<Vec<_>>().join(" ");
        let why = format!(
            "user {:?} (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n{}",
            user.name,
            missing.join("\n")
        );
        Err(forbidden(kind, object.meta("name"), &why))
    }

    /// What every cluster has from its start.
    pub(super) fn bootstrap(&mut self) {
        for namespace in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            self.create_own(&NAMESPACE, "", json!({ "metadata": { "name": namespace } }));
        }
        let ask = json!({ "apiGroups": ["authorization.k8s.io"], "verbs": ["create"],
                          "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"] });
        let who = json!({ "apiGroups": ["authentication.k8s.io"], "verbs": ["create"],
                          "resources": ["selfsubjectreviews"] });
        let discover = json!({ "verbs": ["get"], "nonResourceURLs":
            ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz",
             "/version", "/version/"] });
        let all_paths = json!({ "verbs": ["*"], "nonResourceURLs": ["*"] });
        for (name, group, rules) in [
            ("cluster-admin", "system:masters", json!([everything(), all_paths])),
            ("system:basic-user", "system:authenticated", json!([ask, who])),
            ("system:discovery", "system:authenticated", json!([discover])),
        ] {
            let metadata = json!({ "name": name, "labels": { "kubernetes.io/bootstrapping": "rbac-defaults" } });
            self.create_own(&CLUSTER_ROLE, "", json!({ "metadata": metadata, "rules": rules }));
            let binding = json!({
                "metadata": metadata,
                "roleRef": { "apiGroup": CLUSTER_ROLE.group, "kind": CLUSTER_ROLE.name, "name": name },
                "subjects": [{ "apiGroup": CLUSTER_ROLE.group, "kind": "Group", "name": group }],
            });
            self.create_own(&CLUSTER_ROLE_BINDING, "", binding);
        }
        self.settle();
    }
}

impl Held<'_> {
    fn reason(&self) -> String {
        let name = self.binding.meta("name");
        let binding = match self.binding.meta("namespace") {
            "" => format!("ClusterRoleBinding {name:?}"),
            namespace => format!("RoleBinding \"{name}/{namespace}\""),
        };
        let (kind, role) = (self.binding.text("/roleRef/kind"), self.binding.text("/roleRef/name"));
        let subject = match self.subject.text("/kind") {
            "ServiceAccount" => {
                format!("ServiceAccount \"{}/{}\"", self.subject.text("/name"), self.subject.text("/namespace"))
            }
            kind => format!("{kind} {:?}", self.subject.text("/name")),
        };
        format!("RBAC: allowed by {binding} of {kind} {role:?} to {subject}")
    }
}

fn everything() -> Value {
    json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] })
}

/// Whether a subject of a binding is this user.
fn is(user: &User, subject: &Value, binding_namespace: &str) -> bool {
    let name = subject.text("/name");
    match subject.text("/kind") {
        "User" => user.name == name,
        "Group" => user.groups.iter().any(|group| group == name),
        "ServiceAccount" => {
            let namespace = match subject.text("/namespace") {
                "" => binding_namespace,
                namespace => namespace,
            };
            user.name == format!("system:serviceaccount:{namespace}:{name}")
        }
        _ => false,
    }
}

/// A rule, broken down to single permissions.
fn single(rule: &Value) -> Vec<Value> {
    let texts =
        |field: &str| -> Vec<&str> { rule.list(&format!("/{field}")).iter().filter_map(Value::as_str).collect() };
    let (verbs, groups, resources) = (texts("verbs"), texts("apiGroups"), texts("resources"));
    let names: Vec<Option<&str>> = match texts("resourceNames") {
        names if names.is_empty() => vec![None],
        names => names.into_iter().map(Some).collect(),
    };
    let mut rules = Vec::new();
    for verb in &verbs {
        for path in texts("nonResourceURLs") {
            rules.push(json!({ "verbs": [verb], "nonResourceURLs": [path] }));
        }
        for group in &groups {
            for resource in &resources {
                for name in &names {
                    let mut rule = json!({ "verbs": [verb], "apiGroups": [group], "resources": [resource] });
                    if let Some(name) = name {
                        rule["resourceNames"] = json!([name]);
                    }
                    rules.push(rule);
                }
            }
        }
    }
    rules
}

/// Whether a rule allows what a single permission allows.
fn covers(held: &Value, wanted: &Value) -> bool {
    let first = |field: &str| wanted.text(&format!("/{field}/0")).to_owned();
    let resource = first("resources");
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource.as_str(), ""));
    let path = (!wanted.list("/nonResourceURLs").is_empty()).then(|| first("nonResourceURLs"));
    let attributes = Attributes {
        verb: first("verbs"),
        group: first("apiGroups"),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        name: first("resourceNames"),
        namespace: String::new(),
        path,
    };
    attributes.is_covered_by(held)
}

/// A single permission as the server writes it.
fn shown(rule: &Value) -> String {
    let list = |field: &str| rule[field].to_string();
    if !rule.list("/nonResourceURLs").is_empty() {
        return format!("{{NonResourceURLs:{}, Verbs:{}}}", list("nonResourceURLs"), list("verbs"));
    }
    let names = match rule.list("/resourceNames") {
        [] => String::new(),
        _ => format!(", ResourceNames:{}", list("resourceNames")),
    };
    format!("{{APIGroups:{}, Resources:{}{names}, Verbs:{}}}", list("apiGroups"), list("resources"), list("verbs"))
}
