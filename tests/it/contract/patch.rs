//! Patches of every kind but apply.

use http::Method;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::case::{Case, assert_about, assert_refused, object, refusal};

super::contract![
    a_merge_patch_adds_changes_and_removes,
    a_merge_patch_replaces_lists,
    a_strategic_patch_merges_lists_by_key,
    a_strategic_patch_deletes_items,
    a_json_patch_applies_its_operations_in_order,
    a_json_patch_whose_test_fails_changes_nothing,
    what_is_absent_cannot_be_patched,
    a_version_in_a_patch_is_a_precondition,
    a_uid_in_a_patch_is_a_precondition,
    a_patch_that_changes_nothing_writes_nothing,
    a_patch_of_an_unknown_kind_is_refused,
    a_patch_cannot_rename,
    a_patch_is_answered_with_metadata_alone_if_asked,
    a_dry_run_patches_nothing,
    a_patched_object_must_be_valid,
];

const MAP: &str = "/api/v1/namespaces/NAMESPACE/configmaps/a";

async fn merge(case: &Case, patch: Value) -> kube::Result<ConfigMap> {
    case.config_maps().patch("a", &PatchParams::default(), &Patch::Merge(patch)).await
}

async fn a_merge_patch_adds_changes_and_removes(case: Case) {
    let old = case.config_map("a", "1").await;
    let patch = json!({ "metadata": { "labels": { "n": null, "m": "2" } }, "data": { "n": "3", "k": "4" } });
    let new = merge(&case, patch).await.unwrap();
    assert_eq!(new.labels().iter().collect::<Vec<_>>(), [(&"m".to_owned(), &"2".to_owned())]);
    assert_eq!(new.data.as_ref().unwrap()["n"], "3");
    assert_eq!(new.data.as_ref().unwrap()["k"], "4");
    assert_ne!(new.resource_version(), old.resource_version());
    assert_eq!(new.uid(), old.uid());
}

async fn account_with_secrets(case: &Case) {
    let account = object(json!({ "metadata": { "name": "sa" }, "secrets": [{ "name": "one" }, { "name": "two" }] }));
    case.api::<ServiceAccount>().create(&PostParams::default(), &account).await.unwrap();
}

fn secrets(account: &ServiceAccount) -> Vec<&str> {
    account.secrets.iter().flatten().filter_map(|secret| secret.name.as_deref()).collect()
}

async fn a_merge_patch_replaces_lists(case: Case) {
    account_with_secrets(&case).await;
    let patch = Patch::Merge(json!({ "secrets": [{ "name": "three" }] }));
    let new = case.api::<ServiceAccount>().patch("sa", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(secrets(&new), ["three"]);
}

async fn a_strategic_patch_merges_lists_by_key(case: Case) {
    account_with_secrets(&case).await;
    let patch = Patch::Strategic(json!({ "secrets": [{ "name": "two" }, { "name": "three" }] }));
    let new = case.api::<ServiceAccount>().patch("sa", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(secrets(&new), ["one", "two", "three"]);
    let patch = Patch::Strategic(json!({
        "$setElementOrder/secrets": [{ "name": "four" }, { "name": "two" }, { "name": "one" }],
        "secrets": [{ "name": "four" }],
    }));
    let new = case.api::<ServiceAccount>().patch("sa", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(secrets(&new), ["four", "two", "one", "three"]);
    let pod = json!({
        "metadata": { "name": "p" },
        "spec": {
            "nodeSelector": { "contract.test/no-such-node": "true" },
            "containers": [{ "name": "a", "image": "i:1", "args": ["x"] }, { "name": "b", "image": "i:1" }],
        },
    });
    case.service_account_exists("default").await;
    case.api::<Pod>().create(&PostParams::default(), &object(pod)).await.unwrap();
    let patch = Patch::Strategic(json!({ "spec": { "containers": [{ "name": "a", "image": "i:2" }] } }));
    let new = case.api::<Pod>().patch("p", &PatchParams::default(), &patch).await.unwrap();
    let containers = new.spec.unwrap().containers;
    let shown: Vec<_> =
        containers.iter().map(|c| (c.name.as_str(), c.image.as_deref().unwrap(), c.args.is_some())).collect();
    assert_eq!(shown, [("a", "i:2", true), ("b", "i:1", false)]);
}

async fn a_strategic_patch_deletes_items(case: Case) {
    account_with_secrets(&case).await;
    let patch = Patch::Strategic(json!({ "secrets": [{ "name": "one", "$patch": "delete" }] }));
    let new = case.api::<ServiceAccount>().patch("sa", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(secrets(&new), ["two"]);
}

async fn json_patch(case: &Case, operations: Value) -> Result<Value, Box<kube::core::Status>> {
    case.request(Method::PATCH, MAP, &[("content-type", "application/json-patch+json")], &operations).await
}

async fn a_json_patch_applies_its_operations_in_order(case: Case) {
    case.config_map("a", "1").await;
    let operations = json!([
        { "op": "test", "path": "/data/n", "value": "1" },
        { "op": "add", "path": "/data/x", "value": "2" },
        { "op": "replace", "path": "/data/n", "value": "3" },
        { "op": "move", "from": "/data/x", "path": "/data/y" },
        { "op": "remove", "path": "/metadata/labels/n" },
    ]);
    let new = json_patch(&case, operations).await.unwrap();
    assert_eq!(new["data"], json!({ "n": "3", "y": "2" }));
    assert!(new["metadata"].get("labels").is_none());
}

async fn a_json_patch_whose_test_fails_changes_nothing(case: Case) {
    let old = case.config_map("a", "1").await;
    let operations = json!([
        { "op": "add", "path": "/data/x", "value": "2" },
        { "op": "test", "path": "/data/n", "value": "other" },
    ]);
    assert_refused(&json_patch(&case, operations).await.unwrap_err(), 422, "Invalid");
    let missing = json!([{ "op": "remove", "path": "/data/absent" }]);
    assert_refused(&json_patch(&case, missing).await.unwrap_err(), 422, "Invalid");
    assert_eq!(case.config_maps().get("a").await.unwrap(), old);
}

async fn what_is_absent_cannot_be_patched(case: Case) {
    let status = refusal(merge(&case, json!({ "data": { "n": "1" } })).await);
    assert_refused(&status, 404, "NotFound");
    assert_about(&status, "a", "", "configmaps");
}

async fn a_version_in_a_patch_is_a_precondition(case: Case) {
    let old = case.config_map("a", "1").await;
    let version = old.resource_version().unwrap();
    let patch = |n: &str| json!({ "metadata": { "resourceVersion": version }, "data": { "n": n } });
    merge(&case, patch("2")).await.unwrap();
    assert_refused(&refusal(merge(&case, patch("3")).await), 409, "Conflict");
}

async fn a_uid_in_a_patch_is_a_precondition(case: Case) {
    let old = case.config_map("a", "1").await;
    let status = refusal(merge(&case, json!({ "metadata": { "uid": "another" }, "data": { "n": "2" } })).await);
    assert_refused(&status, 422, "Invalid");
    assert_eq!(status.details.as_ref().unwrap().causes[0].field, "metadata.uid");
    merge(&case, json!({ "metadata": { "uid": old.uid() }, "data": { "n": "2" } })).await.unwrap();
}

async fn a_patch_that_changes_nothing_writes_nothing(case: Case) {
    let old = case.config_map("a", "1").await;
    let new = merge(&case, json!({ "data": { "n": "1" } })).await.unwrap();
    assert_eq!(new.resource_version(), old.resource_version());
}

async fn a_patch_of_an_unknown_kind_is_refused(case: Case) {
    case.config_map("a", "1").await;
    let patch = json!({ "data": { "n": "2" } });
    let status = case.request(Method::PATCH, MAP, &[("content-type", "application/json")], &patch).await.unwrap_err();
    assert_refused(&status, 415, "UnsupportedMediaType");
}

async fn a_patch_cannot_rename(case: Case) {
    case.config_map("a", "1").await;
    assert_refused(&refusal(merge(&case, json!({ "metadata": { "name": "b" } })).await), 400, "BadRequest");
}

async fn a_patch_is_answered_with_metadata_alone_if_asked(case: Case) {
    case.config_map("a", "1").await;
    let patch = Patch::Merge(json!({ "metadata": { "labels": { "x": "y" } } }));
    let answer = case.config_maps().patch_metadata("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(answer.labels()["x"], "y");
    assert_eq!(answer.types.unwrap().kind, "PartialObjectMetadata");
}

async fn a_dry_run_patches_nothing(case: Case) {
    let old = case.config_map("a", "1").await;
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    let patch = Patch::Merge(json!({ "data": { "n": "2" } }));
    let shown = case.config_maps().patch("a", &dry, &patch).await.unwrap();
    assert_eq!(shown.data.unwrap()["n"], "2");
    assert_eq!(case.config_maps().get("a").await.unwrap(), old);
}

async fn a_patched_object_must_be_valid(case: Case) {
    case.config_map("a", "1").await;
    let status = refusal(merge(&case, json!({ "metadata": { "labels": { "n": "a b" } } })).await);
    assert_refused(&status, 422, "Invalid");
    assert_eq!(merge(&case, json!({ "data": { "n": 1 } })).await.map_err(|_| ()), Err(()));
}
