//! Faults at exact points of a run.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::ListParams;
use kubectl_aicr::fake::{Fault, Request, User, Verb};
use kubectl_aicr::{Deployer, Error};
use kubectl_aicr::{Fate, Reason};
use serde_json::json;

use crate::support::wait::PATIENCE;

use super::cluster::{assert_clean, assert_nothing_left, cluster, config, deployer, standing, workers};

/// A create that is no dry run.
fn creates(resource: &'static str) -> impl Fn(&Request) -> bool + Send + Sync + 'static {
    move |request| request.is(Verb::Create, resource) && !request.query.contains("dryRun")
}

#[tokio::test]
async fn r31_a_lost_answer_to_any_create_is_cleaned_up_whether_or_not_it_was_committed() {
    let kinds = ["serviceaccounts", "roles", "clusterroles", "rolebindings", "clusterrolebindings", "jobs"];
    for resource in kinds {
        for committed in [false, true] {
            let cluster = cluster().await;
            let lost = if committed {
                cluster.after(creates(resource), Fault::Drop)
            } else {
                cluster.before(creates(resource), Fault::Drop)
            };
            let deployer = deployer(&cluster, "success");
            let what = format!("{resource}, committed: {committed}");
            deployer.deploy().await.expect_err(&what);
            assert_eq!(lost.hits(), 1, "{what}: a create is sent once");
            assert_nothing_left(&deployer.cleanup().await, &what);
            assert_clean(&cluster, &what).await;
        }
    }
}

#[tokio::test]
async fn r31_an_object_that_another_put_in_the_place_of_a_lost_create_is_left() {
    let cluster = cluster().await;
    let swap = cluster.clone();
    cluster.after(creates("clusterroles"), Fault::Drop);
    let deployer = deployer(&swap, "success");
    deployer.deploy().await.unwrap_err();
    let roles = Api::<ClusterRole>::all(cluster.client());
    let mut role = roles.list(&ListParams::default().labels("aicr.run/run-id")).await.unwrap().items.remove(0);
    let name = role.metadata.name.clone().unwrap();
    role.metadata.labels.as_mut().unwrap().insert("aicr.run/invocation-id".into(), "another".into());
    roles.replace(&name, &kube::api::PostParams::default(), &role).await.unwrap();
    let removals = deployer.cleanup().await;
    let refused = removals.iter().find(|removal| removal.object.name == name).unwrap();
    assert!(matches!(refused.fate, Fate::Refused(Reason::OwnerMismatch)), "{:?}", refused.fate);
    assert_eq!(standing(&cluster.client()).await, [format!("ClusterRole {name}")]);
}

#[tokio::test]
async fn r30_a_refused_delete_leaves_its_object_alone_and_stops_no_other() {
    let cluster = cluster().await;
    let refused = Fault::fail(403, "Forbidden", "not today");
    let hook = cluster.before(|request| request.is(Verb::Delete, "serviceaccounts"), refused);
    let deployer = deployer(&cluster, "success");
    deployer.deploy().await.unwrap();
    let removals = deployer.cleanup().await;
    let left: Vec<_> = removals.iter().filter(|removal| removal.fate.is_left()).collect();
    assert!(matches!(left[..], [one] if one.fate.reason() == Some(Reason::DeleteFailed)), "{left:#?}");
    assert_eq!(standing(&cluster.client()).await.len(), 1);
    hook.lift();
    assert_nothing_left(&deployer.cleanup().await, "a second cleanup");
    assert_clean(&cluster, "a second cleanup").await;
}

#[tokio::test]
async fn r20_watches_that_expire_or_break_are_taken_up_again() {
    let cluster = cluster().await;
    let _workers = workers(&cluster).await;
    let gone = Fault::fail(410, "Expired", "too old resource version");
    let expired = cluster.before(|request| request.is(Verb::Watch, "jobs"), gone).times(1);
    let broken = cluster.before(|request| request.is(Verb::Watch, "pods"), Fault::Drop).times(1);
    let deployer = deployer(&cluster, "slow-300ms");
    deployer.deploy().await.unwrap();
    cluster.compact();
    deployer.wait_for_completion(PATIENCE).await.unwrap();
    assert_eq!((expired.hits(), broken.hits()), (1, 1));
    assert_nothing_left(&deployer.cleanup().await, "after a run");
}

#[tokio::test]
async fn r15_a_caller_without_rights_learns_all_of_it_and_writes_nothing() {
    let cluster = cluster().await;
    cluster.enforce_rbac(true);
    let nobody = cluster.client_as(&User::new("nobody", &[]));
    let deployer = Deployer::new(nobody, config("success")).unwrap();
    let refused = deployer.deploy().await.unwrap_err();
    assert!(matches!(refused, Error::Preflight(_)), "{refused}");
    let text = refused.to_string();
    for resource in ["jobs", "serviceaccounts", "clusterroles", "rolebindings"] {
        assert!(text.contains(resource), "{text}");
    }
    assert!(deployer.cleanup().await.is_empty());
    let writes = cluster.requests().into_iter().filter(|request| {
        request.verb.is_some_and(|verb| !matches!(verb, Verb::Get | Verb::List | Verb::Watch))
            && request.user.name == "nobody"
            && !request.resource.ends_with("reviews")
            && !request.query.contains("dryRun=All")
    });
    assert_eq!(writes.count(), 0);
}

#[tokio::test]
async fn a_held_request_goes_on_when_it_is_let_go() {
    let cluster = cluster().await;
    let held = cluster.before(|request| request.is(Verb::List, "configmaps"), Fault::Hold);
    let maps = Api::<ConfigMap>::default_namespaced(cluster.client());
    let list = tokio::spawn(async move { maps.list(&ListParams::default()).await });
    held.arrived().await;
    assert!(!list.is_finished());
    held.release();
    assert_eq!(list.await.unwrap().unwrap().items.len(), 1);
}

#[tokio::test]
async fn bodies_and_answers_are_changed_on_their_way() {
    let cluster = cluster().await;
    let when = |request: &Request| request.is(Verb::Create, "serviceaccounts");
    cluster.before(when, Fault::change(|body| body["metadata"]["labels"] = json!({ "added": "yes" })));
    cluster.after(when, Fault::change(|answer| answer["metadata"]["uid"] = json!("")));
    cluster.after(when, Fault::Delay(Duration::from_millis(1)));
    let accounts = Api::<ServiceAccount>::default_namespaced(cluster.client());
    let account = serde_json::from_value(json!({ "metadata": { "name": "a" } })).unwrap();
    let answer = accounts.create(&kube::api::PostParams::default(), &account).await.unwrap();
    assert_eq!(answer.metadata.uid.as_deref(), Some(""));
    let live = accounts.get("a").await.unwrap();
    assert_eq!(live.metadata.labels.unwrap()["added"], "yes");
    assert_ne!(live.metadata.uid.as_deref(), Some(""));
    let request = cluster.requests().into_iter().find(|request| request.is(Verb::Create, "serviceaccounts")).unwrap();
    assert_eq!((request.name.as_str(), request.namespace.as_str(), request.status), ("a", "default", Some(201)));
    cluster.forget_requests();
    assert!(cluster.requests().is_empty());
}

#[tokio::test]
async fn a_failure_after_the_commit_hides_what_was_done() {
    let cluster = cluster().await;
    let lost = Fault::fail(500, "InternalError", "etcdserver: request timed out");
    cluster.after(|request| request.is(Verb::Create, "configmaps"), lost);
    let maps = Api::<ConfigMap>::default_namespaced(cluster.client());
    let map = serde_json::from_value(json!({ "metadata": { "name": "a" } })).unwrap();
    let answer = maps.create(&kube::api::PostParams::default(), &map).await;
    assert!(matches!(answer, Err(kube::Error::Api(status)) if status.code == 500));
    assert!(maps.get_opt("a").await.unwrap().is_some());
}
