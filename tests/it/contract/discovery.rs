//! What is served, and what is not.

use http::Method;
use serde_json::{Value, json};

use super::case::{Case, assert_refused};

super::contract![
    a_resource_that_is_not_served_is_not_found,
    a_method_that_is_not_served_is_refused,
    the_resources_of_a_group_can_be_listed,
    all_resources_come_in_one_document,
    openapi_says_that_fields_are_validated_here,
    health_and_version_are_told,
    a_token_that_nobody_gave_out_is_unauthorized,
    a_service_account_gets_a_token,
];

async fn a_resource_that_is_not_served_is_not_found(case: Case) {
    for path in ["/api/v1/namespaces/NAMESPACE/gadgets", "/apis/batch/v1/gadgets/x"] {
        let status = case.get(path).await.unwrap_err();
        assert_eq!(status.code, 404, "{path}");
    }
}

async fn a_method_that_is_not_served_is_refused(case: Case) {
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    assert_refused(&case.get(path).await.unwrap_err(), 405, "MethodNotAllowed");
}

fn named<'a>(list: &'a Value, field: &str, name: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|item| item[field] == name).unwrap_or_else(|| panic!("no {name} in {list}"))
}

async fn the_resources_of_a_group_can_be_listed(case: Case) {
    let core = case.get("/api/v1").await.unwrap();
    let pods = named(&core["resources"], "name", "pods");
    assert_eq!(
        (&pods["kind"], &pods["namespaced"], &pods["singularName"]),
        (&json!("Pod"), &json!(true), &json!("pod"))
    );
    assert_eq!(pods["shortNames"], json!(["po"]));
    for verb in ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"] {
        assert!(pods["verbs"].as_array().unwrap().contains(&json!(verb)), "{verb}");
    }
    named(&core["resources"], "name", "pods/log");
    let batch = case.get("/apis/batch/v1").await.unwrap();
    assert_eq!(batch["groupVersion"], "batch/v1");
    assert_eq!(named(&batch["resources"], "name", "jobs")["kind"], "Job");
    let groups = case.get("/apis").await.unwrap();
    let batch = named(&groups["groups"], "name", "batch");
    assert_eq!(batch["preferredVersion"], json!({ "groupVersion": "batch/v1", "version": "v1" }));
}

async fn all_resources_come_in_one_document(case: Case) {
    let accept = [("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json")];
    let all = case.request(Method::GET, "/apis", &accept, &Value::Null).await.unwrap();
    assert_eq!((&all["kind"], &all["apiVersion"]), (&json!("APIGroupDiscoveryList"), &json!("apidiscovery.k8s.io/v2")));
    let batch = all["items"].as_array().unwrap().iter().find(|item| item["metadata"]["name"] == "batch").unwrap();
    let v1 = named(&batch["versions"], "version", "v1");
    let jobs = named(&v1["resources"], "resource", "jobs");
    assert_eq!(jobs["responseKind"]["kind"], "Job");
    assert_eq!((&jobs["scope"], &jobs["singularResource"]), (&json!("Namespaced"), &json!("job")));
    named(&jobs["subresources"], "subresource", "status");
    let core = case.request(Method::GET, "/api", &accept, &Value::Null).await.unwrap();
    let v1 = named(&core["items"][0]["versions"], "version", "v1");
    assert_eq!(named(&v1["resources"], "resource", "namespaces")["scope"], "Cluster");
}

async fn openapi_says_that_fields_are_validated_here(case: Case) {
    let index = case.get("/openapi/v3").await.unwrap();
    let url = index["paths"]["apis/batch/v1"]["serverRelativeURL"].as_str().unwrap();
    let document = case.get(url).await.unwrap();
    let path = "/apis/batch/v1/namespaces/{namespace}/jobs/{name}";
    let parameters = document["paths"][path]["patch"]["parameters"].as_array().unwrap();
    assert!(parameters.iter().any(|parameter| parameter["name"] == "fieldValidation"), "{parameters:?}");
}

async fn health_and_version_are_told(case: Case) {
    for path in ["/healthz", "/livez", "/readyz"] {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        assert_eq!(case.client.request_text(request).await.unwrap(), "ok");
    }
    let version = case.get("/version").await.unwrap();
    assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("36")));
}

async fn a_token_that_nobody_gave_out_is_unauthorized(case: Case) {
    let status = case.get_with_token("nobody's", "/api/v1/namespaces/NAMESPACE/configmaps").await.unwrap_err();
    assert_refused(&status, 401, "Unauthorized");
}

async fn a_service_account_gets_a_token(case: Case) {
    case.service_account_exists("default").await;
    let path = "/api/v1/namespaces/NAMESPACE/serviceaccounts/default/token";
    let answer = case.post(path, &json!({ "spec": { "expirationSeconds": 3600 } })).await.unwrap();
    let token = answer["status"]["token"].as_str().unwrap();
    assert!(answer["status"]["expirationTimestamp"].is_string());
    let status = case.get_with_token(token, "/api/v1/namespaces/NAMESPACE/configmaps").await.unwrap_err();
    assert_refused(&status, 403, "Forbidden");
    let namespace = &case.namespace;
    assert!(status.message.contains(&format!("\"system:serviceaccount:{namespace}:default\"")), "{}", status.message);
    let absent = "/api/v1/namespaces/NAMESPACE/serviceaccounts/absent/token";
    assert_refused(&case.post(absent, &json!({ "spec": {} })).await.unwrap_err(), 404, "NotFound");
}
