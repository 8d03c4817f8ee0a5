//! Replacing objects.

use http::Method;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::case::{Case, assert_about, assert_invalid, assert_refused, object, refusal};

super::contract![
    the_version_that_was_read_must_still_stand,
    without_a_version_the_update_is_unconditional,
    another_uid_is_a_conflict,
    another_name_than_the_paths_is_refused,
    what_is_absent_cannot_be_replaced,
    an_update_that_changes_nothing_writes_nothing,
    a_job_template_is_immutable,
    a_binding_keeps_its_role,
    an_immutable_config_map_is,
    the_status_has_a_path_of_its_own,
    a_change_of_the_spec_counts_as_a_generation,
    what_the_server_set_stays,
];

const JOBS: &str = "/apis/batch/v1/namespaces/NAMESPACE/jobs";

async fn put(case: &Case, path: &str, body: &Value) -> Result<Value, Box<kube::core::Status>> {
    case.request(Method::PUT, path, &[("content-type", "application/json")], body).await
}

async fn idle_job(case: &Case) -> Value {
    let job = json!({
        "metadata": { "name": "idle" },
        "spec": { "parallelism": 0, "template": { "spec": {
            "restartPolicy": "Never",
            "containers": [{ "name": "c", "image": "registry.test/any:success" }],
        } } },
    });
    case.post(JOBS, &job).await.unwrap();
    // The Job controller writes a status first.
    crate::support::wait::until("the Job to be looked at", async || {
        let job = case.get(&format!("{JOBS}/idle")).await.unwrap();
        (!case.has_controllers() || !job["status"]["startTime"].is_null()).then_some(job)
    })
    .await
}

async fn the_version_that_was_read_must_still_stand(case: Case) {
    let mut read = case.config_map("a", "1").await;
    let mut other = read.clone();
    other.data.as_mut().unwrap().insert("n".into(), "2".into());
    let written = case.config_maps().replace("a", &PostParams::default(), &other).await.unwrap();
    assert_ne!(written.resource_version(), read.resource_version());
    assert_eq!(written.uid(), read.uid());
    read.data.as_mut().unwrap().insert("n".into(), "3".into());
    let status = refusal(case.config_maps().replace("a", &PostParams::default(), &read).await);
    assert_refused(&status, 409, "Conflict");
    assert_about(&status, "a", "", "configmaps");
    assert_eq!(
        status.message,
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes \
         to the latest version and try again"
    );
    assert_eq!(case.config_maps().get("a").await.unwrap().data.unwrap()["n"], "2");
}

async fn without_a_version_the_update_is_unconditional(case: Case) {
    case.config_map("a", "1").await;
    let map: ConfigMap = object(json!({ "metadata": { "name": "a" }, "data": { "m": "2" } }));
    let written = case.config_maps().replace("a", &PostParams::default(), &map).await.unwrap();
    assert_eq!(written.data.unwrap().into_iter().collect::<Vec<_>>(), [("m".into(), "2".into())]);
    assert!(written.metadata.labels.is_none());
}

async fn another_uid_is_a_conflict(case: Case) {
    let read = case.config_map("a", "1").await;
    let mut other = read.clone();
    other.metadata.uid = Some("another".into());
    let status = refusal(case.config_maps().replace("a", &PostParams::default(), &other).await);
    assert_refused(&status, 409, "Conflict");
    let uid = read.uid().unwrap();
    let why = format!("Precondition failed: UID in precondition: another, UID in object meta: {uid}");
    assert!(status.message.ends_with(&why), "{}", status.message);
}

async fn another_name_than_the_paths_is_refused(case: Case) {
    case.config_map("a", "1").await;
    let path = "/api/v1/namespaces/NAMESPACE/configmaps/a";
    let status = put(&case, path, &json!({ "metadata": { "name": "b" } })).await.unwrap_err();
    assert_refused(&status, 400, "BadRequest");
    assert_eq!(status.message, "the name of the object (b) does not match the name on the URL (a)");
}

async fn what_is_absent_cannot_be_replaced(case: Case) {
    let map: ConfigMap = object(json!({ "metadata": { "name": "a" } }));
    let status = refusal(case.config_maps().replace("a", &PostParams::default(), &map).await);
    assert_refused(&status, 404, "NotFound");
    assert_eq!(status.message, "configmaps \"a\" not found");
}

async fn an_update_that_changes_nothing_writes_nothing(case: Case) {
    let read = case.config_map("a", "1").await;
    let written = case.config_maps().replace("a", &PostParams::default(), &read).await.unwrap();
    assert_eq!(written.resource_version(), read.resource_version());
}

async fn a_job_template_is_immutable(case: Case) {
    let mut job = idle_job(&case).await;
    job["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.test/any:other".into();
    let status = put(&case, &format!("{JOBS}/idle"), &job).await.unwrap_err();
    assert_invalid(&status, &[("spec.template", "FieldValueInvalid")]);
    assert!(status.message.ends_with(": field is immutable"), "{}", status.message);
    assert_about(&status, "idle", "batch", "Job");
}

async fn a_binding_keeps_its_role(case: Case) {
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/NAMESPACE/rolebindings";
    let role = |name: &str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name });
    case.post(bindings, &json!({ "metadata": { "name": "b" }, "roleRef": role("one") })).await.unwrap();
    let other = json!({ "metadata": { "name": "b" }, "roleRef": role("two") });
    let status = put(&case, &format!("{bindings}/b"), &other).await.unwrap_err();
    assert_invalid(&status, &[("roleRef", "FieldValueInvalid")]);
    assert!(status.message.ends_with("cannot change roleRef"), "{}", status.message);
}

async fn an_immutable_config_map_is(case: Case) {
    let map = object(json!({ "metadata": { "name": "a" }, "immutable": true, "data": { "n": "1" } }));
    let mut read: ConfigMap = case.config_maps().create(&PostParams::default(), &map).await.unwrap();
    read.data.as_mut().unwrap().insert("n".into(), "2".into());
    let status = refusal(case.config_maps().replace("a", &PostParams::default(), &read).await);
    assert_invalid(&status, &[("data", "FieldValueForbidden")]);
    read.data.as_mut().unwrap().insert("n".into(), "1".into());
    read.labels_mut().insert("still".into(), "open".into());
    case.config_maps().replace("a", &PostParams::default(), &read).await.unwrap();
}

async fn the_status_has_a_path_of_its_own(case: Case) {
    let mut job = idle_job(&case).await;
    job["status"]["ready"] = 7.into();
    job["metadata"]["labels"] = json!({ "by": "main" });
    job["metadata"]["resourceVersion"] = Value::Null;
    let written = put(&case, &format!("{JOBS}/idle"), &job).await.unwrap();
    assert_eq!(written["metadata"]["labels"]["by"], "main");
    assert_ne!(written["status"]["ready"], 7);
    let mut changed = written.clone();
    changed["metadata"]["labels"]["by"] = "status".into();
    changed["metadata"]["resourceVersion"] = Value::Null;
    changed["spec"]["parallelism"] = 5.into();
    changed["status"]["ready"] = 0.into();
    changed["status"]["terminating"] = 0.into();
    let written = put(&case, &format!("{JOBS}/idle/status"), &changed).await.unwrap();
    assert_eq!(written["spec"]["parallelism"], 0);
}

async fn a_change_of_the_spec_counts_as_a_generation(case: Case) {
    let mut job = idle_job(&case).await;
    job["metadata"]["resourceVersion"] = Value::Null;
    job["metadata"]["labels"] = json!({ "a": "b" });
    let written = put(&case, &format!("{JOBS}/idle"), &job).await.unwrap();
    assert_eq!(written["metadata"]["generation"], 1);
    job["spec"]["backoffLimit"] = 2.into();
    let written = put(&case, &format!("{JOBS}/idle"), &job).await.unwrap();
    assert_eq!(written["metadata"]["generation"], 2);
    let job: Job = object(written);
    assert_eq!(job.spec.unwrap().backoff_limit, Some(2));
}

async fn what_the_server_set_stays(case: Case) {
    let read = case.config_map("a", "1").await;
    let mut changed = read.clone();
    changed.metadata.creation_timestamp = None;
    changed.metadata.uid = None;
    changed.metadata.resource_version = None;
    changed.data = None;
    let written = case.config_maps().replace("a", &PostParams::default(), &changed).await.unwrap();
    assert_eq!((written.uid(), written.creation_timestamp()), (read.uid(), read.creation_timestamp()));
}
