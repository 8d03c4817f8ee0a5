//! Lists: selectors, pages, forms.

use http::Method;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::case::{Case, assert_refused, object, refusal};

super::contract![
    a_list_is_ordered_and_has_a_version,
    labels_select_by_equality_and_by_set,
    a_label_selector_that_makes_no_sense_is_refused,
    fields_select_by_name_and_namespace,
    fields_of_pods_select,
    a_field_that_cannot_be_selected_is_refused,
    a_list_over_all_namespaces_has_those_of_each,
    pages_follow_one_another_and_count_the_rest,
    pages_show_one_moment,
    a_page_of_a_selection_does_not_count_the_rest,
    a_continue_token_that_is_none_is_refused,
    a_continue_token_that_expired_comes_with_another,
    a_version_that_is_not_reached_yet_times_out,
    any_version_will_do_for_zero,
    items_have_no_kind_of_their_own,
    metadata_alone_can_be_asked_for,
    a_table_can_be_asked_for,
];

const MAPS: &str = "/api/v1/namespaces/NAMESPACE/configmaps";

async fn three(case: &Case) {
    for (name, n) in [("b", "2"), ("a", "1"), ("c", "3")] {
        case.config_map(name, n).await;
    }
}

async fn names(case: &Case, params: &ListParams) -> Vec<String> {
    let list = case.config_maps().list(params).await.unwrap();
    list.iter().map(ResourceExt::name_any).collect()
}

async fn a_list_is_ordered_and_has_a_version(case: Case) {
    three(&case).await;
    let list = case.config_maps().list(&ListParams::default().labels("n")).await.unwrap();
    assert_eq!(list.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["a", "b", "c"]);
    let version: u64 = list.metadata.resource_version.unwrap().parse().unwrap();
    for map in &list.items {
        assert!(map.resource_version().unwrap().parse::<u64>().unwrap() <= version);
    }
}

async fn labels_select_by_equality_and_by_set(case: Case) {
    three(&case).await;
    for (selector, wanted) in [
        ("n=1", vec!["a"]),
        ("n==2", vec!["b"]),
        ("n!=1,n", vec!["b", "c"]),
        ("n in (1, 3)", vec!["a", "c"]),
        ("n notin (1),n", vec!["b", "c"]),
        ("n,!m", vec!["a", "b", "c"]),
        ("n,m", vec![]),
        ("n=", vec![]),
    ] {
        assert_eq!(names(&case, &ListParams::default().labels(selector)).await, wanted, "{selector}");
    }
}

async fn a_label_selector_that_makes_no_sense_is_refused(case: Case) {
    for selector in ["a b", "a in x", "a=b c", "=a"] {
        let status = refusal(case.config_maps().list(&ListParams::default().labels(selector)).await);
        assert_refused(&status, 400, "BadRequest");
    }
}

async fn fields_select_by_name_and_namespace(case: Case) {
    three(&case).await;
    let own = format!("metadata.name=b,metadata.namespace={}", case.namespace);
    assert_eq!(names(&case, &ListParams::default().fields("metadata.name=b")).await, ["b"]);
    assert_eq!(names(&case, &ListParams::default().fields(&own)).await, ["b"]);
    assert_eq!(names(&case, &ListParams::default().fields("metadata.name!=b").labels("n")).await, ["a", "c"]);
    assert!(names(&case, &ListParams::default().fields("metadata.namespace=other")).await.is_empty());
    assert!(names(&case, &ListParams::default().fields("metadata.name=b").labels("n=1")).await.is_empty());
}

async fn fields_of_pods_select(case: Case) {
    let pod = json!({
        "metadata": { "name": "p" },
        "spec": {
            "nodeSelector": { "contract.test/no-such-node": "true" },
            "restartPolicy": "Never",
            "containers": [{ "name": "c", "image": "registry.test/any:success" }],
        },
    });
    case.service_account_exists("default").await;
    case.api::<Pod>().create(&PostParams::default(), &object(pod)).await.unwrap();
    for (selector, matches) in [
        ("status.phase=Pending", true),
        ("status.phase!=Pending", false),
        ("spec.nodeName=", true),
        ("spec.nodeName!=", false),
        ("spec.restartPolicy=Never", true),
        ("spec.serviceAccountName=default,metadata.name=p", true),
    ] {
        let found = case.api::<Pod>().list(&ListParams::default().fields(selector)).await.unwrap();
        assert_eq!(found.items.len() == 1, matches, "{selector}");
    }
}

async fn a_field_that_cannot_be_selected_is_refused(case: Case) {
    for selector in ["data.n=1", "metadata.uid=x", "metadata.name"] {
        let status = refusal(case.config_maps().list(&ListParams::default().fields(selector)).await);
        assert_refused(&status, 400, "BadRequest");
    }
    let status = refusal(case.api::<Pod>().list(&ListParams::default().fields("spec.hostname=x")).await);
    assert_refused(&status, 400, "BadRequest");
    assert!(status.message.contains("field label not supported: spec.hostname"), "{}", status.message);
}

async fn a_list_over_all_namespaces_has_those_of_each(case: Case) {
    case.config_map("a", "1").await;
    let label = format!("own={}", case.namespace);
    let map = object(json!({ "metadata": { "name": "own", "labels": { "own": case.namespace } } }));
    case.config_maps().create(&PostParams::default(), &map).await.unwrap();
    let all = Api::<ConfigMap>::all(case.client.clone());
    let found = all.list(&ListParams::default().labels(&label)).await.unwrap();
    assert_eq!(found.items[0].namespace().as_deref(), Some(case.namespace.as_str()));
    assert_eq!(found.items.len(), 1);
}

async fn page(case: &Case, query: &str) -> Value {
    case.get(&format!("{MAPS}?{query}")).await.unwrap()
}

fn of_page(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

async fn pages_follow_one_another_and_count_the_rest(case: Case) {
    case.service_account_exists("default").await;
    three(&case).await;
    let all = page(&case, "").await;
    let all = of_page(&all).len();
    let first = page(&case, "limit=2").await;
    assert_eq!(of_page(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], all - 2);
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    let second = page(&case, &format!("limit=10&continue={token}")).await;
    assert_eq!(of_page(&second)[0], "c");
    assert_eq!(of_page(&second).len(), all - 2);
    assert!(second["metadata"].get("continue").is_none());
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
}

async fn pages_show_one_moment(case: Case) {
    three(&case).await;
    let first = page(&case, "limit=1").await;
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    case.config_maps().delete("b", &DeleteParams::default()).await.unwrap();
    case.config_map("bb", "4").await;
    let second = page(&case, &format!("limit=2&continue={token}")).await;
    assert_eq!(of_page(&second), ["b", "c"]);
}

async fn a_page_of_a_selection_does_not_count_the_rest(case: Case) {
    three(&case).await;
    let first = page(&case, "limit=1&labelSelector=n").await;
    assert_eq!(of_page(&first), ["a"]);
    assert!(first["metadata"].get("remainingItemCount").is_none());
    let token = first["metadata"]["continue"].as_str().unwrap();
    let rest = page(&case, &format!("labelSelector=n&continue={token}")).await;
    assert_eq!(of_page(&rest), ["b", "c"]);
}

async fn a_continue_token_that_is_none_is_refused(case: Case) {
    let status = case.get(&format!("{MAPS}?limit=1&continue=nonsense")).await.unwrap_err();
    assert_refused(&status, 400, "BadRequest");
}

async fn a_continue_token_that_expired_comes_with_another(case: Case) {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
    three(&case).await;
    let first = page(&case, "limit=1").await;
    let token = BASE64.decode(first["metadata"]["continue"].as_str().unwrap()).unwrap();
    let mut old: Value = serde_json::from_slice(&token).unwrap();
    old["rv"] = 1.into();
    case.forget_history().await;
    let token = BASE64.encode(old.to_string());
    let status = case.get(&format!("{MAPS}?limit=2&continue={token}")).await.unwrap_err();
    assert_refused(&status, 410, "Expired");
    let fresh = status.metadata.as_ref().unwrap().continue_.as_ref().unwrap();
    assert_eq!(of_page(&page(&case, &format!("limit=2&continue={fresh}")).await), ["b", "c"]);
}

async fn a_version_that_is_not_reached_yet_times_out(case: Case) {
    let status = case.get(&format!("{MAPS}?resourceVersion=999999999999")).await.unwrap_err();
    assert_refused(&status, 504, "Timeout");
    assert_eq!(status.details.as_ref().unwrap().causes[0].reason, "ResourceVersionTooLarge");
}

async fn any_version_will_do_for_zero(case: Case) {
    assert_eq!(page(&case, "resourceVersion=0").await["kind"], "ConfigMapList");
    let status = case.get(&format!("{MAPS}?resourceVersion=new")).await.unwrap_err();
    assert_refused(&status, 400, "BadRequest");
}

async fn items_have_no_kind_of_their_own(case: Case) {
    case.config_map("a", "1").await;
    let list = page(&case, "labelSelector=n").await;
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
    let item = &list["items"][0];
    assert!(item.get("kind").is_none() && item.get("apiVersion").is_none());
    let one = case.get(&format!("{MAPS}/a")).await.unwrap();
    assert_eq!((&one["kind"], &one["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
}

async fn metadata_alone_can_be_asked_for(case: Case) {
    case.config_map("a", "1").await;
    let list = case.config_maps().list_metadata(&ListParams::default().labels("n")).await.unwrap();
    assert_eq!(list.items[0].labels()["n"], "1");
    let one = case.config_maps().get_metadata("a").await.unwrap();
    assert_eq!(one.types.as_ref().unwrap().kind, "PartialObjectMetadata");
    assert!(one.uid().is_some());
    let accept = [("accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")];
    let raw = case.request(Method::GET, &format!("{MAPS}?labelSelector=n"), &accept, &Value::Null).await.unwrap();
    assert_eq!((&raw["kind"], &raw["apiVersion"]), (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1")));
    assert!(raw["items"][0].get("data").is_none());
}

async fn a_table_can_be_asked_for(case: Case) {
    case.config_map("a", "1").await;
    let accept = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")];
    let columns = async |path: &str| {
        let table = case.request(Method::GET, path, &accept, &Value::Null).await.unwrap();
        let names = table["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"].clone());
        (table["kind"].clone(), Value::Array(names.collect()), table)
    };
    let (kind, names, table) = columns(&format!("{MAPS}?labelSelector=n")).await;
    assert_eq!((kind, names), (json!("Table"), json!(["Name", "Data", "Age"])));
    assert_eq!(table["rows"][0]["cells"][0], "a");
    assert_eq!(table["rows"][0]["object"]["metadata"]["name"], "a");
    for (path, wanted) in [
        (
            "/apis/batch/v1/namespaces/NAMESPACE/jobs",
            json!(["Name", "Status", "Completions", "Duration", "Age", "Containers", "Images", "Selector"]),
        ),
        ("/api/v1/namespaces/NAMESPACE/serviceaccounts", json!(["Name", "Age"])),
        ("/api/v1/namespaces/NAMESPACE/secrets", json!(["Name", "Type", "Data", "Age"])),
        ("/api/v1/namespaces", json!(["Name", "Status", "Age"])),
        (
            "/api/v1/namespaces/NAMESPACE/pods",
            json!(["Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node", "Readiness Gates"]),
        ),
        (
            "/api/v1/namespaces/NAMESPACE/events",
            json!([
                "Last Seen",
                "Type",
                "Reason",
                "Object",
                "Subobject",
                "Source",
                "Message",
                "First Seen",
                "Count",
                "Name"
            ]),
        ),
        ("/apis/rbac.authorization.k8s.io/v1/namespaces/NAMESPACE/roles", json!(["Name", "Created At"])),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            json!(["Name", "Role", "Age", "Users", "Groups", "ServiceAccounts"]),
        ),
        ("/apis/node.k8s.io/v1/runtimeclasses", json!(["Name", "Handler", "Age"])),
    ] {
        assert_eq!(columns(path).await.1, wanted, "{path}");
    }
}
