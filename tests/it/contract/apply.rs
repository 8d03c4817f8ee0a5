//! Server-side apply, as the agent writes its document.

use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::case::{Case, assert_refused, object, refusal};

super::contract![
    an_apply_creates_what_is_absent,
    an_apply_in_an_absent_namespace_is_not_found,
    an_apply_changes_what_its_manager_applied,
    a_field_that_is_applied_no_more_goes,
    a_field_that_another_manager_applied_stays,
    another_value_for_a_field_of_someone_else_is_a_conflict,
    force_takes_a_field_over,
    the_same_value_is_shared,
    an_update_takes_fields_over,
    an_apply_that_changes_nothing_writes_nothing,
    an_apply_needs_a_manager,
    creates_and_patches_are_told_apart_by_manager,
];

fn map(data: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data })
}

async fn apply(case: &Case, manager: &str, data: Value) -> kube::Result<ConfigMap> {
    case.config_maps().patch("a", &PatchParams::apply(manager), &Patch::Apply(map(data))).await
}

/// Manager, operation and the keys of `data` that are managed.
fn managers(map: &ConfigMap) -> Vec<(String, String, Vec<String>)> {
    let mut managers: Vec<_> = map
        .managed_fields()
        .iter()
        .map(|entry| {
            let fields = entry.fields_v1.as_ref().map(|fields| fields.0.clone()).unwrap_or_default();
            let keys = fields["f:data"].as_object().into_iter().flatten().map(|(key, _)| key.clone());
            let keys = keys.filter(|key| key != ".").collect();
            (entry.manager.clone().unwrap_or_default(), entry.operation.clone().unwrap_or_default(), keys)
        })
        .collect();
    managers.sort();
    managers
}

fn entry(manager: &str, operation: &str, keys: &[&str]) -> (String, String, Vec<String>) {
    (manager.to_owned(), operation.to_owned(), keys.iter().map(|key| format!("f:{key}")).collect())
}

async fn an_apply_creates_what_is_absent(case: Case) {
    let path = "/api/v1/namespaces/NAMESPACE/configmaps/a?fieldManager=aicr&force=true";
    let headers = [("content-type", "application/apply-patch+yaml")];
    let created = case.request(Method::PATCH, path, &headers, &map(json!({ "n": "1" }))).await.unwrap();
    assert_eq!(created["data"], json!({ "n": "1" }));
    let live = case.config_maps().get("a").await.unwrap();
    assert_eq!(managers(&live), [entry("aicr", "Apply", &["n"])]);
    assert!(live.uid().is_some() && live.creation_timestamp().is_some());
}

async fn an_apply_in_an_absent_namespace_is_not_found(case: Case) {
    let absent = format!("{}-absent", case.namespace);
    let maps = kube::Api::<ConfigMap>::namespaced(case.client.clone(), &absent);
    let status = refusal(maps.patch("a", &PatchParams::apply("aicr"), &Patch::Apply(map(json!({})))).await);
    assert_refused(&status, 404, "NotFound");
    assert_eq!(status.message, format!("namespaces \"{absent}\" not found"));
}

async fn an_apply_changes_what_its_manager_applied(case: Case) {
    let one = apply(&case, "m", json!({ "n": "1" })).await.unwrap();
    let two = apply(&case, "m", json!({ "n": "2" })).await.unwrap();
    assert_eq!(two.data.as_ref().unwrap()["n"], "2");
    assert_eq!(one.uid(), two.uid());
    assert_ne!(one.resource_version(), two.resource_version());
    assert_eq!(managers(&two), [entry("m", "Apply", &["n"])]);
}

async fn a_field_that_is_applied_no_more_goes(case: Case) {
    apply(&case, "m", json!({ "n": "1", "gone": "x" })).await.unwrap();
    let live = apply(&case, "m", json!({ "n": "1" })).await.unwrap();
    assert_eq!(live.data.unwrap().into_keys().collect::<Vec<_>>(), ["n"]);
}

async fn a_field_that_another_manager_applied_stays(case: Case) {
    apply(&case, "one", json!({ "a": "1" })).await.unwrap();
    let live = apply(&case, "two", json!({ "b": "2" })).await.unwrap();
    assert_eq!(live.data.as_ref().unwrap().keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(managers(&live), [entry("one", "Apply", &["a"]), entry("two", "Apply", &["b"])]);
    let live = apply(&case, "two", json!({})).await.unwrap();
    assert_eq!(live.data.unwrap().into_keys().collect::<Vec<_>>(), ["a"]);
}

async fn another_value_for_a_field_of_someone_else_is_a_conflict(case: Case) {
    apply(&case, "one", json!({ "n": "1" })).await.unwrap();
    let status = refusal(apply(&case, "two", json!({ "n": "2" })).await);
    assert_refused(&status, 409, "Conflict");
    assert_eq!(status.message, "Apply failed with 1 conflict: conflict with \"one\": .data.n");
    let first = &status.details.as_ref().unwrap().causes[0];
    assert_eq!((first.reason.as_str(), first.field.as_str()), ("FieldManagerConflict", ".data.n"));
    assert_eq!(case.config_maps().get("a").await.unwrap().data.unwrap()["n"], "1");
}

async fn force_takes_a_field_over(case: Case) {
    apply(&case, "one", json!({ "n": "1", "m": "1" })).await.unwrap();
    let forced = PatchParams::apply("two").force();
    let live = case.config_maps().patch("a", &forced, &Patch::Apply(map(json!({ "n": "2" })))).await.unwrap();
    assert_eq!(live.data.as_ref().unwrap()["n"], "2");
    assert_eq!(managers(&live), [entry("one", "Apply", &["m"]), entry("two", "Apply", &["n"])]);
}

async fn the_same_value_is_shared(case: Case) {
    apply(&case, "one", json!({ "n": "1" })).await.unwrap();
    let live = apply(&case, "two", json!({ "n": "1" })).await.unwrap();
    assert_eq!(managers(&live), [entry("one", "Apply", &["n"]), entry("two", "Apply", &["n"])]);
    let live = apply(&case, "one", json!({})).await.unwrap();
    assert_eq!(live.data.unwrap()["n"], "1");
}

async fn an_update_takes_fields_over(case: Case) {
    apply(&case, "one", json!({ "n": "1", "m": "1" })).await.unwrap();
    let params = PatchParams { field_manager: Some("editor".into()), ..PatchParams::default() };
    let patch = Patch::Merge(json!({ "data": { "n": "2" } }));
    let live = case.config_maps().patch("a", &params, &patch).await.unwrap();
    assert_eq!(managers(&live), [entry("editor", "Update", &["n"]), entry("one", "Apply", &["m"])]);
    let status = refusal(apply(&case, "one", json!({ "n": "1", "m": "1" })).await);
    assert_refused(&status, 409, "Conflict");
    assert!(status.message.contains("conflict with \"editor\" using v1"), "{}", status.message);
}

async fn an_apply_that_changes_nothing_writes_nothing(case: Case) {
    let one = apply(&case, "m", json!({ "n": "1" })).await.unwrap();
    let two = apply(&case, "m", json!({ "n": "1" })).await.unwrap();
    assert_eq!(one.resource_version(), two.resource_version());
}

async fn an_apply_needs_a_manager(case: Case) {
    let path = "/api/v1/namespaces/NAMESPACE/configmaps/a";
    let headers = [("content-type", "application/apply-patch+yaml")];
    let status = case.request(Method::PATCH, path, &headers, &map(json!({}))).await.unwrap_err();
    assert_refused(&status, 422, "Invalid");
    assert!(status.message.contains("fieldManager"), "{}", status.message);
}

async fn creates_and_patches_are_told_apart_by_manager(case: Case) {
    let params = PostParams { field_manager: Some("maker".into()), ..PostParams::default() };
    case.config_maps().create(&params, &object(map(json!({ "n": "1", "m": "1" })))).await.unwrap();
    let params = PatchParams { field_manager: Some("editor".into()), ..PatchParams::default() };
    let patch = Patch::Merge(json!({ "data": { "n": "2" } }));
    let live = case.config_maps().patch("a", &params, &patch).await.unwrap();
    assert_eq!(managers(&live), [entry("editor", "Update", &["n"]), entry("maker", "Update", &["m"])]);
    let gone = Patch::Merge(json!({ "data": { "m": null } }));
    let live = case.config_maps().patch("a", &params, &gone).await.unwrap();
    assert!(managers(&live).contains(&entry("editor", "Update", &["n"])));
    assert!(!managers(&live).iter().any(|(_, _, keys)| keys.contains(&"f:m".to_owned())));
}
