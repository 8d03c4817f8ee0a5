//! What is served, as clients ask for it.

use serde_json::{Value, json};

use super::kind::{Kind, Serves, Subresource};
use super::kinds::ALL;

/// The version that the API says it has: the one whose behaviour the contract is taken from.
const MINOR: &str = "36";

const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The answer to a path that is no resource, if there is one. `aggregated` asks for all groups in one document.
pub(crate) fn answer(path: &str, aggregated: bool) -> Option<Value> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    Some(match parts.as_slice() {
        ["version"] => version(),
        ["api"] if aggregated => aggregate(&|group| group.is_empty()),
        ["api"] => json!({ "kind": "APIVersions", "apiVersion": "v1", "versions": ["v1"],
                           "serverAddressByClientCIDRs": [] }),
        ["apis"] if aggregated => aggregate(&|group| !group.is_empty()),
        ["apis"] => {
            let groups: Vec<Value> = groups().into_iter().filter(|group| !group.is_empty()).map(group).collect();
            json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
        }
        ["apis", name] if groups().contains(name) => {
            let mut group = group(name);
            group["kind"] = "APIGroup".into();
            group["apiVersion"] = "v1".into();
            group
        }
        ["api", "v1"] => resources(""),
        ["apis", name, "v1"] if !name.is_empty() && groups().contains(name) => resources(name),
        ["openapi", "v3"] => index(),
        ["openapi", "v3", "api", "v1"] => document(""),
        ["openapi", "v3", "apis", name, "v1"] if groups().contains(name) => document(name),
        _ => return None,
    })
}

fn version() -> Value {
    json!({
        "major": "1", "minor": MINOR, "gitVersion": format!("v1.{MINOR}.0"), "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "", "platform": "linux/amd64",
    })
}

fn groups() -> Vec<&'static str> {
    let mut groups: Vec<&str> = ALL.iter().map(|kind| kind.group).collect();
    groups.dedup();
    groups
}

fn of_group(group: &str) -> impl Iterator<Item = &'static Kind> {
    ALL.iter().copied().filter(move |kind| kind.group == group)
}

fn group(name: &str) -> Value {
    let version = json!({ "groupVersion": format!("{name}/v1"), "version": "v1" });
    json!({ "name": name, "versions": [version], "preferredVersion": version })
}

fn group_version(group: &str) -> String {
    if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") }
}

fn verbs(kind: &Kind) -> Value {
    match kind.serves {
        Serves::Objects => json!(VERBS),
        Serves::Reviews => json!(["create"]),
    }
}

fn subresource_verbs(subresource: Subresource) -> Value {
    match subresource {
        Subresource::Status => json!(["get", "patch", "update"]),
        Subresource::Log => json!(["get"]),
        Subresource::Binding | Subresource::Token => json!(["create"]),
        Subresource::Finalize => json!(["update"]),
    }
}

fn resources(group: &str) -> Value {
    let mut resources = Vec::new();
    for kind in of_group(group) {
        resources.push(json!({
            "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.name,
            "verbs": verbs(kind), "shortNames": kind.short, "categories": kind.categories,
        }));
        for subresource in kind.subresources {
            resources.push(json!({
                "name": format!("{}/{}", kind.plural, subresource.as_str()), "singularName": "",
                "namespaced": kind.namespaced, "kind": kind.name, "verbs": subresource_verbs(*subresource),
            }));
        }
    }
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version(group), "resources": resources,
    })
}

/// The groups that fit, each with all of its resources, in one document.
fn aggregate(fits: &dyn Fn(&str) -> bool) -> Value {
    let items: Vec<Value> = groups()
        .into_iter()
        .filter(|group| fits(group))
        .map(|group| {
            let resources: Vec<Value> = of_group(group).map(aggregated).collect();
            let version = json!({ "version": "v1", "resources": resources, "freshness": "Current" });
            json!({ "metadata": { "name": group, "creationTimestamp": null }, "versions": [version] })
        })
        .collect();
    json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items })
}

fn aggregated(kind: &'static Kind) -> Value {
    let response = json!({ "group": "", "version": "", "kind": kind.name });
    let subresources: Vec<Value> = kind
        .subresources
        .iter()
        .map(|subresource| {
            json!({
                "subresource": subresource.as_str(), "responseKind": response,
                "verbs": subresource_verbs(*subresource),
            })
        })
        .collect();
    json!({
        "resource": kind.plural, "responseKind": response, "singularResource": kind.singular,
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "verbs": verbs(kind), "shortNames": kind.short, "categories": kind.categories,
        "subresources": subresources,
    })
}

/// The groups that `OpenAPI` speaks of.
fn index() -> Value {
    let paths = groups().into_iter().map(|group| {
        let path = if group.is_empty() { "api/v1".to_owned() } else { format!("apis/{group}/v1") };
        (path.clone(), json!({ "serverRelativeURL": format!("/openapi/v3/{path}?hash=0") }))
    });
    json!({ "paths": paths.collect::<serde_json::Map<_, _>>() })
}

/// As much `OpenAPI` as kubectl needs to learn that the server validates fields itself.
fn document(group: &str) -> Value {
    let paths = of_group(group).filter(|kind| kind.serves == Serves::Objects).map(|kind| {
        let root = if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}/v1") };
        let scope = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
        let operation = json!({
            "parameters": [{ "name": "fieldValidation", "in": "query", "schema": { "type": "string" } }],
            "x-kubernetes-group-version-kind": { "group": group, "version": "v1", "kind": kind.name },
            "responses": {},
        });
        (format!("{root}{scope}/{}/{{name}}", kind.plural), json!({ "patch": operation }))
    });
    json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": format!("v1.{MINOR}.0") },
        "paths": paths.collect::<serde_json::Map<_, _>>(),
        "components": { "schemas": {} },
    })
}
