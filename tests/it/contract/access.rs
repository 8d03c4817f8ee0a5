//! Who may do what, and who may grant what.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role, RoleBinding};
use kube::Api;
use kube::api::{DeleteParams, ListParams, LogParams, PostParams};
use serde_json::{Value, json};

use super::case::{Case, Someone, assert_about, assert_invalid, assert_refused, object, refusal, rule};

super::contract![
    what_is_not_granted_is_forbidden,
    what_is_granted_is_granted_there_alone,
    a_self_review_says_what_the_caller_may,
    a_review_says_what_another_may,
    a_review_counts_the_groups_that_it_names,
    a_review_needs_a_subject_and_one_question,
    a_review_of_others_is_a_right_of_its_own,
    names_and_subresources_are_granted_apart,
    wildcards_grant_everything_of_their_kind,
    paths_that_are_no_resource_are_granted_apart,
    a_role_cannot_hold_more_than_its_author,
    a_role_may_hold_what_its_author_holds,
    escalate_lets_a_role_hold_more,
    a_binding_cannot_give_more_than_its_author_has,
    a_binding_to_an_absent_role_cannot_be_judged,
    bind_lets_a_binding_give_more,
    a_dry_run_is_judged_alike,
    a_rules_review_lists_what_the_caller_may,
    a_user_knows_its_name,
];

const SELF: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const OTHERS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

async fn review(client: &kube::Client, path: &str, spec: Value) -> kube::Result<Value> {
    let request = http::Request::post(path).header("content-type", "application/json");
    let body = json!({ "spec": spec }).to_string().into_bytes();
    client.request(request.body(body).unwrap()).await
}

async fn may(someone: &Someone, attributes: Value) -> bool {
    let answer = review(&someone.client, SELF, json!({ "resourceAttributes": attributes })).await.unwrap();
    answer["status"]["allowed"].as_bool().unwrap()
}

fn role(name: &str, rules: &[PolicyRule]) -> Role {
    object(json!({ "metadata": { "name": name }, "rules": rules }))
}

fn binding(kind: &str, role: &str) -> RoleBinding {
    object(json!({
        "metadata": { "name": "b" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role },
        "subjects": [{ "kind": "ServiceAccount", "name": "sa", "namespace": "any" }],
    }))
}

async fn what_is_not_granted_is_forbidden(case: Case) {
    let nobody = case.user(&[]).await;
    let maps = Api::<ConfigMap>::namespaced(nobody.client.clone(), &case.namespace);
    let (user, namespace) = (&nobody.name, &case.namespace);
    let status = refusal(maps.get("a").await);
    assert_refused(&status, 403, "Forbidden");
    assert_about(&status, "a", "", "configmaps");
    assert_eq!(
        status.message,
        format!(
            "configmaps \"a\" is forbidden: User \"{user}\" cannot get resource \"configmaps\" in API group \"\" in \
             the namespace \"{namespace}\""
        )
    );
    let status = refusal(Api::<ClusterRole>::all(nobody.client.clone()).list(&ListParams::default()).await);
    assert_eq!(
        status.message,
        format!(
            "clusterroles.rbac.authorization.k8s.io is forbidden: User \"{user}\" cannot list resource \
             \"clusterroles\" in API group \"rbac.authorization.k8s.io\" at the cluster scope"
        )
    );
    let pods = Api::<Pod>::namespaced(nobody.client.clone(), &case.namespace);
    let status = refusal(pods.logs("p", &LogParams::default()).await);
    assert!(status.message.contains("cannot get resource \"pods/log\""), "{}", status.message);
}

async fn what_is_granted_is_granted_there_alone(case: Case) {
    let reader = case.user(&[rule("", "configmaps", &["get", "list"])]).await;
    let here = Api::<ConfigMap>::namespaced(reader.client.clone(), &case.namespace);
    here.list(&ListParams::default()).await.unwrap();
    assert_refused(&refusal(here.get("absent").await), 404, "NotFound");
    assert_refused(&refusal(here.delete("absent", &DeleteParams::default()).await), 403, "Forbidden");
    let other = case.another_namespace().await;
    let there = Api::<ConfigMap>::namespaced(reader.client.clone(), &other);
    assert_refused(&refusal(there.list(&ListParams::default()).await), 403, "Forbidden");
    let all = Api::<ConfigMap>::all(reader.client.clone());
    assert_refused(&refusal(all.list(&ListParams::default()).await), 403, "Forbidden");
    let everywhere = case.cluster_user(&[rule("", "configmaps", &["list"])]).await;
    Api::<ConfigMap>::all(everywhere.client.clone()).list(&ListParams::default().limit(1)).await.unwrap();
    let there = Api::<ConfigMap>::namespaced(everywhere.client.clone(), &other);
    there.list(&ListParams::default()).await.unwrap();
}

async fn a_self_review_says_what_the_caller_may(case: Case) {
    let someone = case.user(&[rule("batch", "jobs", &["create"])]).await;
    let namespace = &case.namespace;
    let ask = |verb: &str, namespace: &str| json!({ "verb": verb, "group": "batch", "resource": "jobs", "namespace": namespace });
    assert!(may(&someone, ask("create", namespace)).await);
    assert!(!may(&someone, ask("delete", namespace)).await);
    assert!(!may(&someone, ask("create", "elsewhere")).await);
    assert!(!may(&someone, ask("create", "")).await);
    let answer =
        review(&someone.client, SELF, json!({ "resourceAttributes": ask("create", namespace) })).await.unwrap();
    let reason = answer["status"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("RBAC: allowed by RoleBinding \"granted-"), "{reason}");
    assert!(reason.ends_with(&format!("to User \"{}\"", someone.name)), "{reason}");
    let admin = Someone { name: "admin".into(), client: case.client.clone() };
    assert!(may(&admin, ask("create", "anywhere")).await);
}

async fn a_review_says_what_another_may(case: Case) {
    let someone = case.user(&[rule("batch", "jobs", &["create"])]).await;
    for (verb, allowed) in [("create", true), ("delete", false)] {
        let attributes = json!({ "verb": verb, "group": "batch", "resource": "jobs", "namespace": case.namespace });
        let spec = json!({ "user": someone.name, "resourceAttributes": attributes });
        let answer = review(&case.client, OTHERS, spec).await.unwrap();
        assert_eq!(answer["status"]["allowed"], allowed, "{verb}");
    }
}

async fn a_review_counts_the_groups_that_it_names(case: Case) {
    let group = format!("system:serviceaccounts:{}", case.namespace);
    let binding: RoleBinding = object(json!({
        "metadata": { "name": "group" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r" },
        "subjects": [{ "kind": "Group", "name": group }],
    }));
    case.api::<Role>().create(&PostParams::default(), &role("r", &[rule("", "pods", &["list"])])).await.unwrap();
    case.api::<RoleBinding>().create(&PostParams::default(), &binding).await.unwrap();
    let user = format!("system:serviceaccount:{}:any", case.namespace);
    let spec = |groups: &[&str]| {
        let attributes = json!({ "verb": "list", "resource": "pods", "namespace": case.namespace });
        json!({ "user": user, "groups": groups, "resourceAttributes": attributes })
    };
    crate::support::wait::until("the group's grant", async || {
        let answer = review(&case.client, OTHERS, spec(&[&group])).await.unwrap();
        (answer["status"]["allowed"] == true).then_some(())
    })
    .await;
    let answer = review(&case.client, OTHERS, spec(&["system:authenticated"])).await.unwrap();
    assert_eq!(answer["status"]["allowed"], false);
}

async fn a_review_needs_a_subject_and_one_question(case: Case) {
    let attributes = json!({ "verb": "list", "resource": "pods" });
    let status = refusal(review(&case.client, OTHERS, json!({ "resourceAttributes": attributes })).await);
    assert_invalid(&status, &[("spec.user", "FieldValueInvalid")]);
    let status = refusal(review(&case.client, SELF, json!({})).await);
    assert_invalid(&status, &[("spec.resourceAttributes", "FieldValueInvalid")]);
    let both = json!({ "resourceAttributes": attributes, "nonResourceAttributes": { "path": "/x", "verb": "get" } });
    let status = refusal(review(&case.client, SELF, both).await);
    assert_invalid(&status, &[("spec.nonResourceAttributes", "FieldValueInvalid")]);
}

async fn a_review_of_others_is_a_right_of_its_own(case: Case) {
    let nobody = case.user(&[]).await;
    let spec = json!({ "user": "x", "resourceAttributes": { "verb": "list", "resource": "pods" } });
    let status = refusal(review(&nobody.client, OTHERS, spec).await);
    assert_refused(&status, 403, "Forbidden");
    assert!(status.message.starts_with("subjectaccessreviews.authorization.k8s.io is forbidden: "));
}

async fn names_and_subresources_are_granted_apart(case: Case) {
    let one = PolicyRule { resource_names: Some(vec!["one".into()]), ..rule("", "configmaps", &["get", "list"]) };
    let someone = case.user(&[one, rule("", "pods/log", &["get"])]).await;
    let ask = |verb: &str, resource: &str, subresource: &str, name: &str| {
        json!({
            "verb": verb, "resource": resource, "subresource": subresource, "name": name, "namespace": case.namespace,
        })
    };
    for (attributes, allowed) in [
        (ask("get", "configmaps", "", "one"), true),
        (ask("get", "configmaps", "", "two"), false),
        (ask("get", "configmaps", "", ""), false),
        (ask("get", "pods", "log", "p"), true),
        (ask("get", "pods", "", "p"), false),
    ] {
        assert_eq!(may(&someone, attributes.clone()).await, allowed, "{attributes}");
    }
    let maps = Api::<ConfigMap>::namespaced(someone.client.clone(), &case.namespace);
    maps.list(&ListParams::default().fields("metadata.name=one")).await.unwrap();
    assert_refused(&refusal(maps.list(&ListParams::default()).await), 403, "Forbidden");
}

async fn wildcards_grant_everything_of_their_kind(case: Case) {
    let someone =
        case.user(&[rule("*", "jobs", &["*"]), rule("", "*", &["get"]), rule("apps", "*/scale", &["get"])]).await;
    let ask = |verb: &str, group: &str, resource: &str, subresource: &str| {
        json!({
            "verb": verb, "group": group, "resource": resource, "subresource": subresource,
            "namespace": case.namespace,
        })
    };
    for (attributes, allowed) in [
        (ask("delete", "batch", "jobs", ""), true),
        (ask("delete", "batch", "jobs", "status"), false),
        (ask("get", "", "pods", "log"), true),
        (ask("list", "", "pods", ""), false),
        (ask("get", "apps", "deployments", "scale"), true),
        (ask("get", "apps", "deployments", ""), false),
    ] {
        assert_eq!(may(&someone, attributes.clone()).await, allowed, "{attributes}");
    }
}

async fn paths_that_are_no_resource_are_granted_apart(case: Case) {
    let nobody = case.user(&[]).await;
    for (path, allowed) in [("/version", true), ("/apis", true), ("/metrics", false)] {
        let spec = json!({ "nonResourceAttributes": { "path": path, "verb": "get" } });
        let answer = review(&nobody.client, SELF, spec).await.unwrap();
        assert_eq!(answer["status"]["allowed"], allowed, "{path}");
    }
}

fn roles_writer(more: &[PolicyRule]) -> Vec<PolicyRule> {
    let write = ["create", "get"];
    let group = "rbac.authorization.k8s.io";
    let mut rules = vec![rule(group, "roles", &write), rule(group, "rolebindings", &write)];
    rules.extend_from_slice(more);
    rules
}

async fn a_role_cannot_hold_more_than_its_author(case: Case) {
    let author = case.user(&roles_writer(&[rule("", "pods", &["get"])])).await;
    let roles = Api::<Role>::namespaced(author.client.clone(), &case.namespace);
    let wanted = role("r", &[rule("", "pods", &["get", "list"]), rule("batch", "jobs", &["get"])]);
    let status = refusal(roles.create(&PostParams::default(), &wanted).await);
    assert_refused(&status, 403, "Forbidden");
    assert_about(&status, "r", "rbac.authorization.k8s.io", "roles");
    let user = &author.name;
    assert_eq!(
        status.message,
        format!(
            "roles.rbac.authorization.k8s.io \"r\" is forbidden: user \"{user}\" (groups=[\"system:authenticated\"]) is \
             attempting to grant RBAC permissions not currently held:\n\
             {{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\"]}}\n\
             {{APIGroups:[\"batch\"], Resources:[\"jobs\"], Verbs:[\"get\"]}}"
        )
    );
}

async fn a_role_may_hold_what_its_author_holds(case: Case) {
    let author = case.user(&roles_writer(&[rule("", "pods", &["get", "list", "watch"])])).await;
    let roles = Api::<Role>::namespaced(author.client.clone(), &case.namespace);
    let named = PolicyRule { resource_names: Some(vec!["x".into()]), ..rule("", "pods", &["watch"]) };
    let wanted = role("r", &[rule("", "pods", &["get", "list"]), named]);
    roles.create(&PostParams::default(), &wanted).await.unwrap();
}

async fn escalate_lets_a_role_hold_more(case: Case) {
    let escalate = rule("rbac.authorization.k8s.io", "roles", &["escalate"]);
    let author = case.user(&roles_writer(&[escalate])).await;
    let roles = Api::<Role>::namespaced(author.client.clone(), &case.namespace);
    roles.create(&PostParams::default(), &role("r", &[rule("", "pods", &["get"])])).await.unwrap();
}

async fn a_binding_cannot_give_more_than_its_author_has(case: Case) {
    case.api::<Role>().create(&PostParams::default(), &role("r", &[rule("", "pods", &["get"])])).await.unwrap();
    let author = case.user(&roles_writer(&[])).await;
    let bindings = Api::<RoleBinding>::namespaced(author.client.clone(), &case.namespace);
    let status = refusal(bindings.create(&PostParams::default(), &binding("Role", "r")).await);
    assert_refused(&status, 403, "Forbidden");
    assert_about(&status, "b", "rbac.authorization.k8s.io", "rolebindings");
    assert!(status.message.contains("is attempting to grant RBAC permissions not currently held"), "{status:?}");
    let holder = case.user(&roles_writer(&[rule("", "pods", &["get"])])).await;
    let bindings = Api::<RoleBinding>::namespaced(holder.client.clone(), &case.namespace);
    bindings.create(&PostParams::default(), &binding("Role", "r")).await.unwrap();
}

async fn a_binding_to_an_absent_role_cannot_be_judged(case: Case) {
    let author = case.user(&roles_writer(&[])).await;
    let bindings = Api::<RoleBinding>::namespaced(author.client.clone(), &case.namespace);
    let status = refusal(bindings.create(&PostParams::default(), &binding("Role", "absent")).await);
    assert_refused(&status, 404, "NotFound");
    assert_about(&status, "absent", "rbac.authorization.k8s.io", "rolebindings");
    assert_eq!(status.message, "rolebindings.rbac.authorization.k8s.io \"absent\" not found");
    case.api::<RoleBinding>().create(&PostParams::default(), &binding("Role", "absent")).await.unwrap();
}

async fn bind_lets_a_binding_give_more(case: Case) {
    let bind = rule("rbac.authorization.k8s.io", "roles", &["bind"]);
    let author = case.user(&roles_writer(&[bind])).await;
    let bindings = Api::<RoleBinding>::namespaced(author.client.clone(), &case.namespace);
    bindings.create(&PostParams::default(), &binding("Role", "absent")).await.unwrap();
}

async fn a_dry_run_is_judged_alike(case: Case) {
    let author = case.user(&roles_writer(&[])).await;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let roles = Api::<Role>::namespaced(author.client.clone(), &case.namespace);
    let status = refusal(roles.create(&dry, &role("r", &[rule("", "pods", &["get"])])).await);
    assert_refused(&status, 403, "Forbidden");
    let bindings = Api::<RoleBinding>::namespaced(author.client.clone(), &case.namespace);
    assert_refused(&refusal(bindings.create(&dry, &binding("Role", "r")).await), 404, "NotFound");
    roles.create(&dry, &role("r", &[])).await.unwrap();
    assert!(case.api::<Role>().get_opt("r").await.unwrap().is_none());
}

async fn a_rules_review_lists_what_the_caller_may(case: Case) {
    let someone = case.user(&[rule("batch", "jobs", &["create"])]).await;
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let answer = review(&someone.client, path, json!({ "namespace": case.namespace })).await.unwrap();
    let rules = answer["status"]["resourceRules"].as_array().unwrap();
    let wanted = json!({ "verbs": ["create"], "apiGroups": ["batch"], "resources": ["jobs"] });
    assert!(rules.contains(&wanted), "{answer}");
    let paths = answer["status"]["nonResourceRules"].as_array().unwrap();
    let names_version =
        |rule: &Value| rule["nonResourceURLs"].as_array().is_some_and(|urls| urls.contains(&json!("/version")));
    assert!(paths.iter().any(names_version), "{answer}");
}

async fn a_user_knows_its_name(case: Case) {
    let someone = case.user(&[]).await;
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = review(&someone.client, path, json!(null)).await.unwrap();
    assert_eq!(answer["status"]["userInfo"]["username"], someone.name.as_str());
    assert!(answer["status"]["userInfo"]["groups"].as_array().unwrap().contains(&json!("system:authenticated")));
}
