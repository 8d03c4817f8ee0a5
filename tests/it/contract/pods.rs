//! What pods have beside their objects.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, LogParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::case::{Case, assert_about, assert_refused, object, refusal};

super::contract![
    a_log_is_of_a_pod_that_is_there,
    a_container_must_be_named_among_several,
    a_pod_without_a_node_has_no_log,
    a_pod_without_a_node_goes_at_once,
    a_pods_status_is_merged_condition_by_condition,
    a_pods_spec_is_all_but_immutable,
];

/// A pod that no node takes.
async fn pod(case: &Case, containers: &[&str]) -> Pod {
    case.service_account_exists("default").await;
    let containers: Vec<_> =
        containers.iter().map(|name| json!({ "name": name, "image": "registry.test/any:success" })).collect();
    let pod = json!({
        "metadata": { "name": "p" },
        "spec": { "nodeSelector": { "contract.test/no-such-node": "true" }, "containers": containers },
    });
    case.api::<Pod>().create(&PostParams::default(), &object(pod)).await.unwrap()
}

fn of(container: &str) -> LogParams {
    LogParams { container: Some(container.to_owned()), ..LogParams::default() }
}

async fn a_log_is_of_a_pod_that_is_there(case: Case) {
    let status = refusal(case.api::<Pod>().logs("p", &LogParams::default()).await);
    assert_refused(&status, 404, "NotFound");
    assert_about(&status, "p", "", "pods");
}

async fn a_container_must_be_named_among_several(case: Case) {
    pod(&case, &["one", "two"]).await;
    let status = refusal(case.api::<Pod>().logs("p", &LogParams::default()).await);
    assert_refused(&status, 400, "BadRequest");
    assert_eq!(status.message, "a container name must be specified for pod p, choose one of: [one two]");
    let status = refusal(case.api::<Pod>().logs("p", &of("three")).await);
    assert_refused(&status, 400, "BadRequest");
    assert_eq!(status.message, "container three is not valid for pod p");
}

async fn a_pod_without_a_node_has_no_log(case: Case) {
    pod(&case, &["one"]).await;
    assert_eq!(case.api::<Pod>().logs("p", &LogParams::default()).await.unwrap(), "");
    assert_eq!(case.api::<Pod>().logs("p", &of("one")).await.unwrap(), "");
}

async fn a_pod_without_a_node_goes_at_once(case: Case) {
    let live = pod(&case, &["one"]).await;
    let answer = case.api::<Pod>().delete("p", &DeleteParams::default()).await.unwrap();
    let shown = answer.left().expect("the pod");
    assert_eq!(shown.uid(), live.uid());
    assert_eq!(shown.metadata.deletion_grace_period_seconds, Some(0));
    assert!(case.api::<Pod>().get_opt("p").await.unwrap().is_none());
}

async fn a_pods_status_is_merged_condition_by_condition(case: Case) {
    pod(&case, &["one"]).await;
    let patch = async |kind: &str, message: &str| {
        let condition = json!({ "type": kind, "status": "True", "message": message });
        let patch = Patch::Strategic(json!({ "status": { "conditions": [condition] } }));
        case.api::<Pod>().patch_status("p", &PatchParams::default(), &patch).await.unwrap()
    };
    patch("contract.test/a", "one").await;
    patch("contract.test/b", "two").await;
    let pod = patch("contract.test/a", "three").await;
    let conditions = pod.status.unwrap().conditions.unwrap();
    let ours: Vec<_> = conditions
        .iter()
        .filter(|condition| condition.type_.starts_with("contract.test/"))
        .map(|condition| (condition.type_.as_str(), condition.message.as_deref().unwrap()))
        .collect();
    assert_eq!(ours, [("contract.test/b", "two"), ("contract.test/a", "three")]);
    assert!(pod.spec.unwrap().node_selector.is_some());
}

async fn a_pods_spec_is_all_but_immutable(case: Case) {
    pod(&case, &["one"]).await;
    let change = async |spec: serde_json::Value| {
        let patch = Patch::Strategic(json!({ "spec": spec }));
        case.api::<Pod>().patch("p", &PatchParams::default(), &patch).await
    };
    change(json!({ "containers": [{ "name": "one", "image": "registry.test/any:other" }] })).await.unwrap();
    for spec in [json!({ "hostNetwork": true }), json!({ "serviceAccountName": "other" })] {
        let status = refusal(change(spec).await);
        assert_refused(&status, 422, "Invalid");
        let first = &status.details.as_ref().unwrap().causes[0];
        assert_eq!((first.field.as_str(), first.reason.as_str()), ("spec", "FieldValueForbidden"));
    }
}
