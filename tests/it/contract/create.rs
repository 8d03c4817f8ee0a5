//! Creates.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, RoleBinding};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::case::{Case, assert_about, assert_invalid, assert_refused, object, refusal};
use crate::support::wait::until;

super::contract![
    the_server_gives_uid_version_and_time,
    a_name_that_is_taken_is_refused_as_already_exists,
    a_namespace_that_is_not_there_is_not_found,
    a_terminating_namespace_takes_nothing_new,
    a_name_is_generated_from_its_base,
    a_name_is_needed,
    names_that_are_no_subdomain_are_invalid,
    names_of_namespaces_are_labels,
    names_of_roles_may_hold_colons,
    a_jobs_name_is_no_longer_than_a_label_value,
    labels_must_be_valid,
    annotations_and_finalizers_must_be_valid,
    another_namespace_than_the_paths_is_refused,
    another_kind_than_the_paths_is_refused,
    a_wrong_type_is_refused,
    a_body_that_is_not_json_is_refused,
    unknown_fields_are_dropped,
    unknown_fields_are_refused_if_that_is_asked_for,
    a_resource_version_is_not_set_by_the_client,
    a_uid_is_not_set_by_the_client,
    a_dry_run_creates_nothing,
    a_dry_run_meets_what_is_there,
    jobs_get_their_defaults_and_selector,
    jobs_without_containers_or_with_a_wrong_policy_are_invalid,
    a_status_is_not_created,
    config_maps_have_a_size_limit,
    config_maps_have_valid_keys,
    secrets_are_written_as_text_and_read_as_base64,
    pods_need_their_service_account,
    bindings_need_a_role_and_whole_subjects,
    rules_need_verbs_groups_and_resources,
    events_stand_where_their_object_does,
    a_new_namespace_is_active_and_labelled,
];

async fn create(case: &Case, value: serde_json::Value) -> kube::Result<ConfigMap> {
    case.config_maps().create(&PostParams::default(), &object(value)).await
}

async fn the_server_gives_uid_version_and_time(case: Case) {
    let map = case.config_map("a", "1").await;
    assert_eq!(map.uid().unwrap().len(), 36);
    assert!(map.resource_version().unwrap().parse::<u64>().unwrap() > 0);
    assert!(map.creation_timestamp().is_some());
    assert_eq!(map.namespace(), Some(case.namespace.clone()));
    assert_eq!(map.metadata.generation, None);
    assert_eq!(case.config_maps().get("a").await.unwrap(), map);
    let other = case.config_map("b", "1").await;
    assert_ne!(other.uid(), map.uid());
    assert_ne!(other.resource_version(), map.resource_version());
}

async fn a_name_that_is_taken_is_refused_as_already_exists(case: Case) {
    case.config_map("a", "1").await;
    let status = refusal(create(&case, json!({ "metadata": { "name": "a" } })).await);
    assert_refused(&status, 409, "AlreadyExists");
    assert_about(&status, "a", "", "configmaps");
    assert_eq!(status.message, "configmaps \"a\" already exists");
    let job: Job = object(job());
    case.api::<Job>().create(&PostParams::default(), &job).await.unwrap();
    let status = refusal(case.api::<Job>().create(&PostParams::default(), &job).await);
    assert_about(&status, "idle", "batch", "jobs");
    assert_eq!(status.message, "jobs.batch \"idle\" already exists");
}

async fn a_namespace_that_is_not_there_is_not_found(case: Case) {
    let absent = format!("{}-absent", case.namespace);
    let maps = Api::<ConfigMap>::namespaced(case.client.clone(), &absent);
    let status = refusal(maps.create(&PostParams::default(), &object(json!({ "metadata": { "name": "a" } }))).await);
    assert_refused(&status, 404, "NotFound");
    assert_about(&status, &absent, "", "namespaces");
    assert_eq!(status.message, format!("namespaces \"{absent}\" not found"));
    assert_about(&refusal(maps.get("a").await), "a", "", "configmaps");
    assert!(maps.list(&ListParams::default()).await.unwrap().items.is_empty());
}

async fn a_terminating_namespace_takes_nothing_new(case: Case) {
    let held = json!({ "metadata": { "name": "held", "finalizers": ["example.com/hold"] } });
    create(&case, held).await.unwrap();
    let namespaces = Api::<Namespace>::all(case.client.clone());
    namespaces.delete(&case.namespace, &DeleteParams::default()).await.unwrap();
    let status = until("the namespace to be refused", async || {
        create(&case, json!({ "metadata": { "name": "late" } })).await.err().map(|error| refusal::<()>(Err(error)))
    })
    .await;
    assert_refused(&status, 403, "Forbidden");
    let first = &status.details.as_ref().unwrap().causes[0];
    assert_eq!((first.reason.as_str(), first.field.as_str()), ("NamespaceTerminating", "metadata.namespace"));
    let live = namespaces.get(&case.namespace).await.unwrap();
    assert_eq!(live.status.unwrap().phase.as_deref(), Some("Terminating"));
    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    case.config_maps().patch("held", &PatchParams::default(), &release).await.unwrap();
    until("the namespace to go", async || namespaces.get_opt(&case.namespace).await.unwrap().is_none().then_some(()))
        .await;
}

async fn a_name_is_generated_from_its_base(case: Case) {
    let one = create(&case, json!({ "metadata": { "generateName": "base-" } })).await.unwrap();
    let two = create(&case, json!({ "metadata": { "generateName": "base-" } })).await.unwrap();
    assert_ne!(one.name_any(), two.name_any());
    assert_eq!(one.metadata.generate_name.as_deref(), Some("base-"));
    let name = one.metadata.name.unwrap();
    assert!(name.starts_with("base-") && name.len() == 10, "{name}");
    let long = "x".repeat(100);
    let cut = create(&case, json!({ "metadata": { "generateName": long } })).await.unwrap();
    assert_eq!(cut.name_any().len(), 63);
    let named = create(&case, json!({ "metadata": { "name": "own", "generateName": "base-" } })).await.unwrap();
    assert_eq!(named.name_any(), "own");
}

async fn a_name_is_needed(case: Case) {
    let status = case.post("/api/v1/namespaces/NAMESPACE/configmaps", &json!({ "metadata": {} })).await.unwrap_err();
    assert_invalid(&status, &[("metadata.name", "FieldValueRequired")]);
    assert_eq!(
        status.message,
        "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required"
    );
}

async fn names_that_are_no_subdomain_are_invalid(case: Case) {
    for name in ["Upper", "a_b", "-a", "a-", "a..b", "a b"] {
        let status = refusal(create(&case, json!({ "metadata": { "name": name } })).await);
        assert_invalid(&status, &[("metadata.name", "FieldValueInvalid")]);
        assert_about(&status, name, "", "ConfigMap");
        let start =
            format!("ConfigMap \"{name}\" is invalid: metadata.name: Invalid value: \"{name}\": a lowercase RFC 1123");
        assert!(status.message.starts_with(&start), "{}", status.message);
    }
    let long = refusal(create(&case, json!({ "metadata": { "name": "x".repeat(254) } })).await);
    assert_invalid(&long, &[("metadata.name", "FieldValueInvalid")]);
    assert!(long.message.ends_with(": must be no more than 253 characters"), "{}", long.message);
    create(&case, json!({ "metadata": { "name": "a.b-c.1" } })).await.unwrap();
}

async fn names_of_namespaces_are_labels(case: Case) {
    let namespaces = Api::<Namespace>::all(case.client.clone());
    let refused = async |name: &str| {
        let namespace = object(json!({ "metadata": { "name": name } }));
        refusal(namespaces.create(&PostParams::default(), &namespace).await)
    };
    let dotted = refused("a.b").await;
    assert_invalid(&dotted, &[("metadata.name", "FieldValueInvalid")]);
    let long = refused(&"x".repeat(64)).await;
    assert_invalid(&long, &[("metadata.name", "FieldValueInvalid"), ("metadata.labels", "FieldValueInvalid")]);
    assert!(long.message.contains(": must be no more than 63 characters, "), "{}", long.message);
}

async fn names_of_roles_may_hold_colons(case: Case) {
    let roles = Api::<ClusterRole>::all(case.client.clone());
    let name = format!("contract:{}:Viewer", case.namespace);
    let role: ClusterRole = object(json!({ "metadata": { "name": name }, "rules": [] }));
    roles.create(&PostParams::default(), &role).await.unwrap();
    assert_eq!(roles.get(&name).await.unwrap().name_any(), name);
    roles.delete(&name, &DeleteParams::default()).await.unwrap();
    let role: ClusterRole = object(json!({ "metadata": { "name": "a%b" } }));
    let status = refusal(roles.create(&PostParams::default(), &role).await);
    assert_invalid(&status, &[("metadata.name", "FieldValueInvalid")]);
    assert_about(&status, "a%b", "rbac.authorization.k8s.io", "ClusterRole");
}

async fn a_jobs_name_is_no_longer_than_a_label_value(case: Case) {
    let mut long = job();
    long["metadata"]["name"] = "x".repeat(64).into();
    let status = refusal(case.api::<Job>().create(&PostParams::default(), &object(long.clone())).await);
    assert_refused(&status, 422, "Invalid");
    long["metadata"]["name"] = "x".repeat(63).into();
    case.api::<Job>().create(&PostParams::default(), &object(long)).await.unwrap();
}

async fn labels_must_be_valid(case: Case) {
    for labels in [json!({ "a b": "x" }), json!({ "a": "x y" }), json!({ "a": "x".repeat(64) }), json!({ "/a": "" })] {
        let status = refusal(create(&case, json!({ "metadata": { "name": "a", "labels": labels } })).await);
        assert_invalid(&status, &[("metadata.labels", "FieldValueInvalid")]);
    }
    let labels = json!({ "a.io/B_c": "x".repeat(63), "empty": "" });
    create(&case, json!({ "metadata": { "name": "a", "labels": labels } })).await.unwrap();
}

async fn annotations_and_finalizers_must_be_valid(case: Case) {
    let status = refusal(create(&case, json!({ "metadata": { "name": "a", "annotations": { "a b": "" } } })).await);
    assert_invalid(&status, &[("metadata.annotations", "FieldValueInvalid")]);
    let free = json!({ "metadata": { "name": "a", "annotations": { "Any.io/x": "any\ntext \u{1F980}" } } });
    create(&case, free).await.unwrap();
    let status = refusal(create(&case, json!({ "metadata": { "name": "b", "finalizers": ["a b"] } })).await);
    assert_refused(&status, 422, "Invalid");
}

async fn another_namespace_than_the_paths_is_refused(case: Case) {
    let map = json!({ "metadata": { "name": "a", "namespace": "other" } });
    let status = case.post("/api/v1/namespaces/NAMESPACE/configmaps", &map).await.unwrap_err();
    assert_refused(&status, 400, "BadRequest");
    let message = "the namespace of the provided object does not match the namespace sent on the request";
    assert_eq!(status.message, message);
}

async fn another_kind_than_the_paths_is_refused(case: Case) {
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "a" } });
    let status = case.post("/api/v1/namespaces/NAMESPACE/configmaps", &secret).await.unwrap_err();
    assert_refused(&status, 400, "BadRequest");
    let version = json!({ "apiVersion": "v2", "kind": "ConfigMap", "metadata": { "name": "a" } });
    let status = case.post("/api/v1/namespaces/NAMESPACE/configmaps", &version).await.unwrap_err();
    assert_refused(&status, 400, "BadRequest");
}

async fn a_wrong_type_is_refused(case: Case) {
    let map = json!({ "metadata": { "name": "a" }, "data": { "n": 1 } });
    let status = case.post("/api/v1/namespaces/NAMESPACE/configmaps", &map).await.unwrap_err();
    assert_refused(&status, 400, "BadRequest");
    assert!(status.message.starts_with("ConfigMap in version \"v1\" cannot be handled as a ConfigMap: "));
}

async fn a_body_that_is_not_json_is_refused(case: Case) {
    let status = case.post("/api/v1/namespaces/NAMESPACE/configmaps", &json!("text")).await.unwrap_err();
    assert_refused(&status, 400, "BadRequest");
}

async fn unknown_fields_are_dropped(case: Case) {
    let map = json!({ "metadata": { "name": "a", "labels": {} }, "data": {}, "unknown": { "x": 1 } });
    case.post("/api/v1/namespaces/NAMESPACE/configmaps", &map).await.unwrap();
    let live = case.get("/api/v1/namespaces/NAMESPACE/configmaps/a").await.unwrap();
    let fields: Vec<&String> = live.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["apiVersion", "kind", "metadata"]);
    assert!(live["metadata"].get("labels").is_none());
}

async fn unknown_fields_are_refused_if_that_is_asked_for(case: Case) {
    let path = "/api/v1/namespaces/NAMESPACE/configmaps?fieldValidation=Strict";
    let map = json!({ "metadata": { "name": "a", "unknown": 1 }, "data": { "free": "text" }, "dta": { "x": "y" } });
    let status = case.post(path, &map).await.unwrap_err();
    assert_refused(&status, 400, "BadRequest");
    let start = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: ";
    assert!(status.message.starts_with(start), "{}", status.message);
    for field in ["dta", "metadata.unknown"] {
        assert!(status.message.contains(&format!("unknown field \"{field}\"")), "{}", status.message);
    }
    case.post(path, &json!({ "metadata": { "name": "a" }, "data": { "free": "text" } })).await.unwrap();
}

async fn a_resource_version_is_not_set_by_the_client(case: Case) {
    let map = json!({ "metadata": { "name": "a", "resourceVersion": "1" } });
    let status = case.post("/api/v1/namespaces/NAMESPACE/configmaps", &map).await.unwrap_err();
    assert_eq!(status.code, 500, "{status:?}");
    assert!(status.message.contains("resourceVersion should not be set on objects to be created"), "{status:?}");
}

async fn a_uid_is_not_set_by_the_client(case: Case) {
    let map = create(&case, json!({ "metadata": { "name": "a", "uid": "mine" } })).await.unwrap();
    assert_ne!(map.uid().unwrap(), "mine");
}

async fn a_dry_run_creates_nothing(case: Case) {
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let map = object(json!({ "metadata": { "name": "a" }, "data": { "n": "1" } }));
    let shown: ConfigMap = case.config_maps().create(&dry, &map).await.unwrap();
    assert!(shown.uid().is_some() && shown.creation_timestamp().is_some());
    assert_eq!(shown.resource_version(), None);
    assert!(case.config_maps().get_opt("a").await.unwrap().is_none());
    let status = case
        .post("/api/v1/namespaces/NAMESPACE/configmaps?dryRun=Some", &json!({ "metadata": { "name": "a" } }))
        .await
        .unwrap_err();
    assert_refused(&status, 422, "Invalid");
}

async fn a_dry_run_meets_what_is_there(case: Case) {
    case.config_map("a", "1").await;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let map: ConfigMap = object(json!({ "metadata": { "name": "a" } }));
    assert_refused(&refusal(case.config_maps().create(&dry, &map).await), 409, "AlreadyExists");
    let invalid: ConfigMap = object(json!({ "metadata": { "name": "A" } }));
    assert_refused(&refusal(case.config_maps().create(&dry, &invalid).await), 422, "Invalid");
}

/// A Job that makes no pods.
fn job() -> serde_json::Value {
    json!({
        "metadata": { "name": "idle" },
        "spec": { "suspend": true, "template": { "spec": {
            "restartPolicy": "Never",
            "containers": [{ "name": "c", "image": "registry.test/any:success" }],
        } } },
    })
}

async fn jobs_get_their_defaults_and_selector(case: Case) {
    let job: Job = case.api::<Job>().create(&PostParams::default(), &object(job())).await.unwrap();
    let uid = job.uid().unwrap();
    assert_eq!(job.metadata.generation, Some(1));
    let spec = job.spec.unwrap();
    assert_eq!((spec.parallelism, spec.completions, spec.backoff_limit), (Some(1), Some(1), Some(6)));
    assert_eq!(spec.completion_mode.as_deref(), Some("NonIndexed"));
    assert_eq!(spec.pod_replacement_policy.as_deref(), Some("TerminatingOrFailed"));
    let selector = spec.selector.unwrap().match_labels.unwrap();
    assert_eq!(selector.into_iter().collect::<Vec<_>>(), [("batch.kubernetes.io/controller-uid".into(), uid.clone())]);
    let labels = spec.template.metadata.unwrap().labels.unwrap();
    for (key, value) in [
        ("batch.kubernetes.io/controller-uid", uid.as_str()),
        ("controller-uid", uid.as_str()),
        ("batch.kubernetes.io/job-name", "idle"),
        ("job-name", "idle"),
    ] {
        assert_eq!(labels[key], value);
    }
    let pod = spec.template.spec.unwrap();
    assert_eq!(pod.dns_policy.as_deref(), Some("ClusterFirst"));
    assert_eq!(pod.scheduler_name.as_deref(), Some("default-scheduler"));
    assert_eq!(pod.termination_grace_period_seconds, Some(30));
    let container = &pod.containers[0];
    assert_eq!(container.image_pull_policy.as_deref(), Some("IfNotPresent"));
    assert_eq!(container.termination_message_policy.as_deref(), Some("File"));
}

async fn jobs_without_containers_or_with_a_wrong_policy_are_invalid(case: Case) {
    let jobs = case.dynamic("batch", "Job");
    let mut none = job();
    none["spec"]["template"]["spec"]["containers"] = json!([]);
    let status = refusal(jobs.create(&PostParams::default(), &object(none)).await);
    assert_invalid(&status, &[("spec.template.spec.containers", "FieldValueRequired")]);
    let mut always = job();
    always["spec"]["template"]["spec"]["restartPolicy"] = "Always".into();
    let status = refusal(jobs.create(&PostParams::default(), &object(always)).await);
    assert_invalid(&status, &[("spec.template.spec.restartPolicy", "FieldValueRequired")]);
    let mut negative = job();
    negative["spec"]["backoffLimit"] = (-1).into();
    let status = refusal(jobs.create(&PostParams::default(), &object(negative)).await);
    assert_invalid(&status, &[("spec.backoffLimit", "FieldValueInvalid")]);
}

async fn a_status_is_not_created(case: Case) {
    let mut finished = job();
    finished["status"] = json!({ "succeeded": 1 });
    let live: Job = case.api::<Job>().create(&PostParams::default(), &object(finished)).await.unwrap();
    assert_eq!(live.status.and_then(|status| status.succeeded), None);
}

async fn config_maps_have_a_size_limit(case: Case) {
    let mebibyte = 1024 * 1024;
    let map = |size: usize| json!({ "metadata": { "name": "big" }, "data": { "n": "x".repeat(size) } });
    let status = refusal(create(&case, map(mebibyte + 1)).await);
    assert_invalid(&status, &[("[]", "FieldValueTooLong")]);
    create(&case, map(mebibyte)).await.unwrap();
}

async fn config_maps_have_valid_keys(case: Case) {
    let status = refusal(create(&case, json!({ "metadata": { "name": "a" }, "data": { "a/b": "" } })).await);
    assert_invalid(&status, &[("data[a/b]", "FieldValueInvalid")]);
    create(&case, json!({ "metadata": { "name": "a" }, "data": { "A_b-c.d": "" } })).await.unwrap();
}

async fn secrets_are_written_as_text_and_read_as_base64(case: Case) {
    let secret = object(json!({ "metadata": { "name": "s" }, "stringData": { "k": "v" } }));
    let live: Secret = case.api::<Secret>().create(&PostParams::default(), &secret).await.unwrap();
    assert_eq!(live.type_.as_deref(), Some("Opaque"));
    assert_eq!(live.data.unwrap()["k"].0, b"v");
    assert!(live.string_data.is_none());
}

async fn pods_need_their_service_account(case: Case) {
    let pod = |account: &str| {
        object::<Pod>(json!({
            "metadata": { "name": "p" },
            "spec": {
                "serviceAccountName": account,
                "nodeSelector": { "contract.test/no-such-node": "true" },
                "containers": [{ "name": "c", "image": "registry.test/any:success" }],
            },
        }))
    };
    let pods = case.api::<Pod>();
    let status = refusal(pods.create(&PostParams::default(), &pod("absent")).await);
    assert_refused(&status, 403, "Forbidden");
    let namespace = &case.namespace;
    let why = format!("error looking up service account {namespace}/absent: serviceaccount \"absent\" not found");
    assert_eq!(status.message, format!("pods \"p\" is forbidden: {why}"));
    let account = object(json!({ "metadata": { "name": "mine" } }));
    case.api::<ServiceAccount>().create(&PostParams::default(), &account).await.unwrap();
    let live = pods.create(&PostParams::default(), &pod("mine")).await.unwrap();
    assert_eq!(live.status.unwrap().phase.as_deref(), Some("Pending"));
    assert_eq!(live.spec.unwrap().restart_policy.as_deref(), Some("Always"));
    case.api::<ServiceAccount>().delete("mine", &DeleteParams::default()).await.unwrap();
    let label = Patch::Merge(json!({ "metadata": { "labels": { "still": "changes" } } }));
    pods.patch("p", &PatchParams::default(), &label).await.unwrap();
}

async fn bindings_need_a_role_and_whole_subjects(case: Case) {
    let bindings = case.dynamic("rbac.authorization.k8s.io", "RoleBinding");
    let binding = |role: serde_json::Value, subject: serde_json::Value| {
        object(json!({ "metadata": { "name": "b" }, "roleRef": role, "subjects": [subject] }))
    };
    let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r" });
    let account = json!({ "kind": "ServiceAccount", "name": "sa", "namespace": "ns" });
    for (role, subject, fault) in [
        (json!({ "kind": "Pod", "name": "r" }), account.clone(), ("roleRef.kind", "FieldValueNotSupported")),
        (json!({ "kind": "Role", "name": "" }), account.clone(), ("roleRef.name", "FieldValueRequired")),
        (role.clone(), json!({ "kind": "User", "name": "" }), ("subjects[0].name", "FieldValueRequired")),
        (role.clone(), json!({ "kind": "Pod", "name": "p" }), ("subjects[0].kind", "FieldValueNotSupported")),
    ] {
        let status = refusal(bindings.create(&PostParams::default(), &binding(role, subject)).await);
        assert_invalid(&status, &[fault]);
    }
    let everywhere = json!({
        "metadata": { "name": "contract-never" },
        "roleRef": { "kind": "ClusterRole", "name": "r" },
        "subjects": [{ "kind": "ServiceAccount", "name": "sa" }],
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let status = case.post(path, &everywhere).await.unwrap_err();
    assert_invalid(&status, &[("subjects[0].namespace", "FieldValueRequired")]);
    bindings.create(&PostParams::default(), &binding(role, json!({ "kind": "User", "name": "u" }))).await.unwrap();
    let live = case.api::<RoleBinding>().get("b").await.unwrap();
    assert_eq!(live.subjects.unwrap()[0].api_group.as_deref(), Some("rbac.authorization.k8s.io"));
}

async fn rules_need_verbs_groups_and_resources(case: Case) {
    let roles = case.dynamic("rbac.authorization.k8s.io", "Role");
    let required = "FieldValueRequired";
    for (rule, faults) in [
        (json!({ "verbs": [], "apiGroups": [""], "resources": ["pods"] }), vec![("rules[0].verbs", required)]),
        (json!({ "verbs": ["get"] }), vec![("rules[0].apiGroups", required), ("rules[0].resources", required)]),
        (
            json!({ "verbs": ["get"], "nonResourceURLs": ["/x"] }),
            vec![("rules[0].nonResourceURLs", "FieldValueInvalid")],
        ),
    ] {
        let role = object(json!({ "metadata": { "name": "r" }, "rules": [rule] }));
        assert_invalid(&refusal(roles.create(&PostParams::default(), &role).await), &faults);
    }
}

async fn events_stand_where_their_object_does(case: Case) {
    let path = "/api/v1/namespaces/NAMESPACE/events";
    let event = |namespace: &str| {
        json!({
            "metadata": { "name": "e" }, "reason": "Because", "type": "Normal",
            "involvedObject": { "kind": "Job", "name": "j", "namespace": namespace },
        })
    };
    let status = case.post(path, &event("elsewhere")).await.unwrap_err();
    assert_invalid(&status, &[("involvedObject.namespace", "FieldValueInvalid")]);
    case.post(path, &event(&case.namespace)).await.unwrap();
    let fields = "involvedObject.kind%3DJob%2CinvolvedObject.name%3Dj";
    let found = case.get(&format!("{path}?fieldSelector={fields}")).await.unwrap();
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
}

async fn a_new_namespace_is_active_and_labelled(case: Case) {
    let live = Api::<Namespace>::all(case.client.clone()).get(&case.namespace).await.unwrap();
    assert_eq!(live.labels()["kubernetes.io/metadata.name"], case.namespace);
    assert_eq!(live.status.unwrap().phase.as_deref(), Some("Active"));
    assert_eq!(live.spec.unwrap().finalizers.unwrap(), ["kubernetes"]);
    let accounts = case.api::<ServiceAccount>();
    until("the default account", async || accounts.get_opt("default").await.unwrap()).await;
}
