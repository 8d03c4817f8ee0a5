//! Deletes: answers, preconditions, finalizers.

use http::Method;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::Role;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;

use super::case::{Case, assert_about, assert_refused, object, refusal};

super::contract![
    a_delete_is_answered_with_the_uid,
    a_delete_of_some_kinds_is_answered_with_the_object,
    what_is_absent_cannot_be_deleted,
    a_uid_is_a_precondition,
    an_empty_uid_is_a_precondition_that_nothing_meets,
    a_version_is_a_precondition,
    a_dry_run_deletes_nothing,
    a_finalizer_holds_the_object,
    a_second_delete_changes_nothing,
    a_terminating_object_takes_no_new_finalizer,
    a_terminating_object_is_still_read_listed_and_named,
    the_last_finalizer_ends_the_object_whatever_the_write,
    a_collection_is_deleted_by_label,
    the_name_is_free_again,
    options_may_stand_in_the_query,
    a_namespace_goes_with_its_content,
];

fn pinned(uid: &str) -> DeleteParams {
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }
}

async fn held(case: &Case) -> ConfigMap {
    let map = json!({ "metadata": { "name": "a", "finalizers": ["example.com/hold"] }, "data": { "n": "1" } });
    case.config_maps().create(&PostParams::default(), &object(map)).await.unwrap()
}

async fn release(case: &Case) -> kube::Result<ConfigMap> {
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    case.config_maps().patch("a", &PatchParams::default(), &patch).await
}

async fn a_delete_is_answered_with_the_uid(case: Case) {
    let map = case.config_map("a", "1").await;
    let path = "/api/v1/namespaces/NAMESPACE/configmaps/a";
    let answer = case.request(Method::DELETE, path, &[], &json!(null)).await.unwrap();
    assert_eq!((&answer["kind"], &answer["status"]), (&json!("Status"), &json!("Success")));
    let wanted = json!({ "name": "a", "kind": "configmaps", "uid": map.uid().unwrap() });
    assert_eq!(answer["details"], wanted);
    assert!(case.config_maps().get_opt("a").await.unwrap().is_none());
    let role = object(json!({ "metadata": { "name": "r" }, "rules": [] }));
    case.api::<Role>().create(&PostParams::default(), &role).await.unwrap();
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/NAMESPACE/roles/r";
    let answer = case.request(Method::DELETE, path, &[], &json!(null)).await.unwrap();
    assert_eq!(answer["details"]["group"], "rbac.authorization.k8s.io");
}

async fn a_delete_of_some_kinds_is_answered_with_the_object(case: Case) {
    let account = object(json!({ "metadata": { "name": "sa" } }));
    let live = case.api::<ServiceAccount>().create(&PostParams::default(), &account).await.unwrap();
    let answer = case.api::<ServiceAccount>().delete("sa", &pinned(&live.uid().unwrap())).await.unwrap();
    let object = answer.left().expect("the object");
    assert_eq!(object.uid(), live.uid());
    assert_eq!(object.metadata.deletion_timestamp, None);
    assert!(case.api::<ServiceAccount>().get_opt("sa").await.unwrap().is_none());
}

async fn what_is_absent_cannot_be_deleted(case: Case) {
    let status = refusal(case.config_maps().delete("a", &DeleteParams::default()).await);
    assert_refused(&status, 404, "NotFound");
    assert_about(&status, "a", "", "configmaps");
    assert_refused(&refusal(case.config_maps().delete("a", &pinned("any")).await), 404, "NotFound");
}

async fn a_uid_is_a_precondition(case: Case) {
    let map = case.config_map("a", "1").await;
    let uid = map.uid().unwrap();
    let status = refusal(case.config_maps().delete("a", &pinned("another")).await);
    assert_refused(&status, 409, "Conflict");
    assert_about(&status, "a", "", "ConfigMap");
    assert_eq!(
        status.message,
        format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (another) does not match \
             the UID in record ({uid}). The object might have been deleted and then recreated"
        )
    );
    case.config_maps().delete("a", &pinned(&uid)).await.unwrap();
}

async fn an_empty_uid_is_a_precondition_that_nothing_meets(case: Case) {
    case.config_map("a", "1").await;
    assert_refused(&refusal(case.config_maps().delete("a", &pinned("")).await), 409, "Conflict");
    assert!(case.config_maps().get_opt("a").await.unwrap().is_some());
}

async fn a_version_is_a_precondition(case: Case) {
    let map = case.config_map("a", "1").await;
    let at = |version: &str| DeleteParams {
        preconditions: Some(Preconditions { uid: None, resource_version: Some(version.to_owned()) }),
        ..DeleteParams::default()
    };
    let status = refusal(case.config_maps().delete("a", &at("1")).await);
    assert_refused(&status, 409, "Conflict");
    let version = map.resource_version().unwrap();
    assert_eq!(
        status.message,
        format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the ResourceVersion in the precondition (1) does not \
             match the ResourceVersion in record ({version}). The object might have been modified"
        )
    );
    case.config_maps().delete("a", &at(&version)).await.unwrap();
}

async fn a_dry_run_deletes_nothing(case: Case) {
    case.config_map("a", "1").await;
    let dry = DeleteParams { dry_run: true, ..DeleteParams::default() };
    case.config_maps().delete("a", &dry).await.unwrap();
    assert!(case.config_maps().get_opt("a").await.unwrap().is_some());
    let status = refusal(case.config_maps().delete("a", &DeleteParams { dry_run: true, ..pinned("another") }).await);
    assert_refused(&status, 409, "Conflict");
}

async fn a_finalizer_holds_the_object(case: Case) {
    let map = held(&case).await;
    let answer = case.config_maps().delete("a", &DeleteParams::default()).await.unwrap();
    let shown = answer.left().expect("the object, which still stands");
    assert_eq!(shown.uid(), map.uid());
    assert!(shown.metadata.deletion_timestamp.is_some());
    assert_eq!(shown.metadata.deletion_grace_period_seconds, Some(0));
    assert_ne!(shown.resource_version(), map.resource_version());
    assert!(case.config_maps().get_opt("a").await.unwrap().is_some());
    release(&case).await.unwrap();
    assert!(case.config_maps().get_opt("a").await.unwrap().is_none());
}

async fn a_second_delete_changes_nothing(case: Case) {
    held(&case).await;
    let first = case.config_maps().delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
    let second = case.config_maps().delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(first, second);
    release(&case).await.unwrap();
}

async fn a_terminating_object_takes_no_new_finalizer(case: Case) {
    held(&case).await;
    case.config_maps().delete("a", &DeleteParams::default()).await.unwrap();
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": ["example.com/hold", "example.com/more"] } }));
    let status = refusal(case.config_maps().patch("a", &PatchParams::default(), &patch).await);
    assert_refused(&status, 422, "Invalid");
    let first = &status.details.as_ref().unwrap().causes[0];
    assert_eq!((first.field.as_str(), first.reason.as_str()), ("metadata.finalizers", "FieldValueForbidden"));
    release(&case).await.unwrap();
}

async fn a_terminating_object_is_still_read_listed_and_named(case: Case) {
    held(&case).await;
    case.config_maps().delete("a", &DeleteParams::default()).await.unwrap();
    assert!(case.config_maps().get("a").await.unwrap().metadata.deletion_timestamp.is_some());
    let named = ListParams::default().fields("metadata.name=a");
    assert_eq!(case.config_maps().list(&named).await.unwrap().items.len(), 1);
    let status = refusal(
        case.config_maps().create(&PostParams::default(), &object(json!({ "metadata": { "name": "a" } }))).await,
    );
    assert_refused(&status, 409, "AlreadyExists");
    assert!(status.message.starts_with("object is being deleted: "), "{}", status.message);
    release(&case).await.unwrap();
}

async fn the_last_finalizer_ends_the_object_whatever_the_write(case: Case) {
    held(&case).await;
    let mut map = case.config_maps().delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
    map.metadata.finalizers = None;
    case.config_maps().replace("a", &PostParams::default(), &map).await.unwrap();
    assert!(case.config_maps().get_opt("a").await.unwrap().is_none());
}

async fn a_collection_is_deleted_by_label(case: Case) {
    for (name, n) in [("a", "1"), ("b", "1"), ("c", "2")] {
        case.config_map(name, n).await;
    }
    let ones = ListParams::default().labels("n=1");
    case.config_maps().delete_collection(&DeleteParams::default(), &ones).await.unwrap();
    let left = case.config_maps().list(&ListParams::default().labels("n")).await.unwrap();
    assert_eq!(left.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["c"]);
}

async fn the_name_is_free_again(case: Case) {
    let one = case.config_map("a", "1").await;
    case.config_maps().delete("a", &DeleteParams::default()).await.unwrap();
    let two = case.config_map("a", "1").await;
    assert_ne!(one.uid(), two.uid());
    assert_refused(&refusal(case.config_maps().delete("a", &pinned(&one.uid().unwrap())).await), 409, "Conflict");
}

async fn options_may_stand_in_the_query(case: Case) {
    case.config_map("a", "1").await;
    let path = "/api/v1/namespaces/NAMESPACE/configmaps/a?propagationPolicy=Background&gracePeriodSeconds=0";
    case.request(Method::DELETE, path, &[], &json!(null)).await.unwrap();
    case.config_map("a", "1").await;
    let path = "/api/v1/namespaces/NAMESPACE/configmaps/a?propagationPolicy=Sideways";
    let status = case.request(Method::DELETE, path, &[], &json!(null)).await.unwrap_err();
    assert_eq!(status.code, 422, "{status:?}");
}

async fn a_namespace_goes_with_its_content(case: Case) {
    case.config_map("a", "1").await;
    let namespaces = kube::Api::<k8s_openapi::api::core::v1::Namespace>::all(case.client.clone());
    let live = namespaces.get(&case.namespace).await.unwrap();
    let answer = namespaces.delete(&case.namespace, &pinned(&live.uid().unwrap())).await.unwrap();
    assert!(answer.left().expect("the namespace").metadata.deletion_timestamp.is_some());
    crate::support::wait::until("the namespace to go", async || {
        namespaces.get_opt(&case.namespace).await.unwrap().is_none().then_some(())
    })
    .await;
    assert!(case.config_maps().get_opt("a").await.unwrap().is_none());
}
