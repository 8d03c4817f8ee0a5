//! `kubectl aicr orphans` on a real control plane: what is listed, why, and what is not.

use std::collections::BTreeSet;
use std::fs;

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Namespace, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use rustix::process::Signal;
use serde_json::json;

use crate::support::{
    bed::Bed,
    orphans::listed,
    proxy::{Proxy, get},
    scene::Scene,
    wait::until,
};

/// The objects of a run, by the names that R3 gives them.
fn of_run(scene: &Scene, kinds: &[&str]) -> BTreeSet<String> {
    let (namespace, id) = (&scene.namespace.name, &scene.run_id);
    let named = |kind: &&str| match *kind {
        "ClusterRole" | "ClusterRoleBinding" => format!("{kind} aicr-node-reader-{id}"),
        "ConfigMap" => format!("ConfigMap {namespace}/aicr-agent-snapshot-{id}"),
        kind => format!("{kind} {namespace}/aicr-{id}"),
    };
    kinds.iter().map(named).collect()
}

const ALL: [&str; 7] =
    ["Job", "ConfigMap", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"];

async fn job_ends(scene: &Scene) {
    let jobs = scene.api::<Job>();
    until("the Job to end", async || {
        let job = jobs.get(&format!("aicr-{}", scene.run_id)).await.unwrap();
        let conditions = job.status?.conditions.unwrap_or_default();
        conditions.iter().any(|c| c.type_ == "Complete" && c.status == "True").then_some(())
    })
    .await;
}

#[tokio::test]
async fn r37_a_run_that_was_kept_is_kept_and_outlives_other_runs() {
    let scene = Scene::new("orphans-kept").await;
    scene.snapshot("success").args(["--no-cleanup", "-o", "kept.yaml"]).run().await.code(0);
    let before = scene.objects().await;
    assert_eq!(before.keys().cloned().collect::<BTreeSet<_>>(), of_run(&scene, &ALL));

    let image = "registry.test/aicr:success";
    let namespace = scene.namespace.name.as_str();
    let other = scene.home.aicr(["snapshot", "-n", namespace, "--image", image, "-o", "other.yaml"]).run().await;
    other.code(0);
    let kept: Vec<_> = scene.listed().await.into_iter().collect();
    let expected: Vec<_> = of_run(&scene, &ALL).into_iter().map(|object| (object, "Kept".to_owned())).collect();
    assert_eq!(kept, expected);
    assert_eq!(scene.objects().await, before);

    scene.cleanup().run().await.code(0).stderr_has("nothing to clean up");
    assert_eq!(scene.objects().await, before, "kept on purpose, so taken only when named");
    scene.cleanup().arg(&scene.run_id).run().await.code(0).stderr_has("deleted");
    scene.assert_clean().await;
    assert!(scene.listed().await.is_empty() && scene.ledgers().is_empty());
}

#[tokio::test]
async fn r37_a_killed_run_is_listed_when_its_job_has_ended_and_not_before() {
    let scene = Scene::new("orphans-killed").await;
    let running = scene.snapshot("slow-3s").spawn();
    scene.agent_runs().await;
    running.kill().await.killed_by(Signal::KILL);
    assert!(scene.listed().await.is_empty(), "the run is still active");

    job_ends(&scene).await;
    let all = scene.listed().await;
    assert_eq!(all.keys().cloned().collect::<BTreeSet<_>>(), of_run(&scene, &ALL));
    assert!(all.values().all(|reason| reason == "Interrupted"), "{all:?}");

    let elsewhere =
        Scene { home: crate::support::cli::Home::new().kubeconfig(&scene.home.read(".kube/config")), ..scene };
    let unrecorded = elsewhere.listed().await;
    assert_eq!(unrecorded.keys().collect::<Vec<_>>(), all.keys().collect::<Vec<_>>());
    let reasons: BTreeSet<_> = unrecorded.values().map(String::as_str).collect();
    assert_eq!(reasons, ["NoRecord", "Starting"].into(), "young objects, and the document of a Job that ended");
    elsewhere.cleanup().run().await.code(0).stderr_has("nothing to clean up");
    elsewhere.remove_everything().await;
}

#[tokio::test]
async fn r37_the_objects_of_a_live_process_are_not_listed() {
    let scene = Scene::new("orphans-live").await;
    let running = scene.snapshot("hang").spawn();
    scene.agent_runs().await;
    // Without its Job, only the ledger says that the run is alive.
    let jobs = scene.api::<Job>();
    let unlabelled = Patch::Merge(json!({ "metadata": { "labels": null } }));
    jobs.patch(&format!("aicr-{}", scene.run_id), &PatchParams::default(), &unlabelled).await.unwrap();
    assert!(scene.listed().await.is_empty());
    scene.cleanup().run().await.code(0).stderr_has("nothing to clean up");
    assert_eq!(scene.ledgers().len(), 1);
    running.signal(Signal::INT);
    running.wait().await.code(130);
    scene.assert_clean().await;
}

#[tokio::test]
async fn r37_cluster_scoped_leftovers_of_a_deleted_namespace_are_found() {
    let scene = Scene::new("orphans-gone").await;
    scene.snapshot("success").args(["--no-cleanup", "-o", "kept.yaml"]).run().await.code(0);
    let namespaces = Api::<Namespace>::all(scene.client.clone());
    namespaces.delete(&scene.namespace.name, &DeleteParams::default()).await.unwrap();
    until("the namespace to be gone", async || {
        namespaces.get_opt(&scene.namespace.name).await.unwrap().is_none().then_some(())
    })
    .await;
    let left = scene.listed().await;
    assert_eq!(left.keys().cloned().collect::<BTreeSet<_>>(), of_run(&scene, &["ClusterRole", "ClusterRoleBinding"]));
    scene.cleanup().arg(&scene.run_id).run().await.code(0);
    assert!(scene.listed().await.is_empty());
    assert!(scene.ledgers().is_empty(), "what went with the namespace is gone as well");
}

#[tokio::test]
async fn r37_someone_with_few_rights_sees_a_part_and_is_told_what_is_missing() {
    let scene = Scene::new("orphans-few").await;
    scene.snapshot("success").args(["--no-cleanup", "-o", "kept.yaml"]).run().await.code(0);
    let user = scene.bed.user("few-rights", &[]);
    let rule = |group: &str, resources: &[&str]| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(resources.iter().map(|&resource| resource.to_owned()).collect()),
        verbs: vec!["list".to_owned()],
        ..PolicyRule::default()
    };
    let rules = [rule("batch", &["jobs"]), rule("", &["serviceaccounts", "configmaps"])];
    scene.bed.grant(&user, Some(&scene.namespace.name), &rules).await;
    let home = crate::support::cli::Home::new().kubeconfig(&scene.bed.kubeconfig(&user, None));
    let scene = Scene { home, ..scene };

    let ran = scene.orphans().run().await;
    ran.code(4).stderr_has("cannot list roles").stderr_has("cannot list clusterrolebindings").stderr_lacks("list jobs");
    let seen: BTreeSet<_> = listed(&ran).into_keys().collect();
    assert_eq!(seen, of_run(&scene, &["Job", "ConfigMap", "ServiceAccount"]));

    // With the bindings in sight, the namespace of their account says where the run's Job would be.
    let rules = [rule("rbac.authorization.k8s.io", &["clusterrolebindings", "clusterroles"])];
    scene.bed.grant(&user, None, &rules).await;
    let ran = scene.orphans().run().await;
    ran.code(4);
    let seen: BTreeSet<_> = listed(&ran).into_keys().collect();
    assert_eq!(seen, of_run(&scene, &["Job", "ConfigMap", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"]));
    scene.remove_everything().await;
}

#[tokio::test]
async fn r37_names_are_what_kubectl_delete_takes() {
    let scene = Scene::new("orphans-name").await;
    scene.snapshot("success").args(["--no-cleanup", "-o", "kept.yaml"]).run().await.code(0);
    let namespace = scene.namespace.name.as_str();
    let names = scene.home.aicr(["orphans", "-n", namespace, "--run-id", &scene.run_id, "-o", "name"]).run().await;
    let names = names.code(0).stdout();
    let deleted = scene.home.program("kubectl", ["delete", "-n", namespace]).args(names.lines()).run().await;
    deleted.code(0);
    scene.assert_clean().await;
    scene
        .home
        .aicr(["orphans", "-n", namespace, "--run-id", &scene.run_id])
        .run()
        .await
        .code(0)
        .stdout_is("")
        .stderr_has("no orphans");
    assert!(scene.ledgers().is_empty(), "what is proven gone is forgotten");
}

#[tokio::test]
async fn r37_columns_headers_and_scopes() {
    let scene = Scene::new("orphans-columns").await;
    scene.snapshot("success").args(["--no-cleanup", "-o", "kept.yaml"]).run().await.code(0);
    let (namespace, id) = (scene.namespace.name.as_str(), scene.run_id.as_str());
    let run = |args: &[&str]| scene.home.aicr(["orphans", "--run-id", id]).args(args).run();

    let table = run(&["-n", namespace]).await.code(0).stdout();
    let header: Vec<&str> =
        table.lines().next().unwrap().split("   ").map(str::trim).filter(|c| !c.is_empty()).collect();
    assert_eq!(header, ["KIND", "NAMESPACE", "NAME", "RUN ID", "AGE", "REASON"]);
    assert_eq!(table.lines().count(), 1 + ALL.len());
    let bare = run(&["-n", namespace, "--no-headers"]).await.code(0).stdout();
    assert_eq!(bare.lines().count(), ALL.len());
    run(&["-n", namespace, "-o", "wide"]).await.code(0).stdout_has("UID").stdout_has("MESSAGE");
    run(&["-n", namespace, "-o", "yaml"]).await.code(0).stdout_has("reason: Kept");

    let everywhere = listed(&run(&["-A", "-o", "json"]).await);
    assert_eq!(everywhere.len(), ALL.len());
    let elsewhere = run(&["-n", "default", "-o", "json"]).await;
    elsewhere.code(0).stderr_has(&format!("may have left objects in {namespace} too"));
    assert_eq!(
        listed(&elsewhere).into_keys().collect::<BTreeSet<_>>(),
        of_run(&scene, &["ClusterRole", "ClusterRoleBinding"])
    );
    run(&["-n", namespace, "-o", "jsonpath"]).await.code(2);
    scene.home.aicr(["orphans", "--run-id", "Not A Label"]).run().await.code(2).stderr_has("--run-id");
    scene.cleanup().arg(id).run().await.code(0);
}

#[tokio::test]
async fn r37_lists_are_paged_and_whole() {
    const MANY: usize = 501;
    let proxy = Proxy::before(Bed::shared().await).start().await;
    let scene = Scene::behind("orphans-many", &proxy).await;
    let accounts = scene.api::<ServiceAccount>();
    let labels = json!({
        "app.kubernetes.io/managed-by": "aicr",
        "app.kubernetes.io/component": "snapshot-agent",
        "aicr.run/run-id": scene.run_id,
    });
    let make = |index: usize| {
        let account = json!({ "metadata": { "name": format!("left-{index}"), "labels": labels } });
        let account: ServiceAccount = serde_json::from_value(account).unwrap();
        let accounts = accounts.clone();
        async move { accounts.create(&PostParams::default(), &account).await.unwrap() }
    };
    futures::future::join_all((0..MANY).map(make)).await;
    assert_eq!(scene.listed().await.len(), MANY);
    let pages = proxy.count(&get("/api/v1/**/serviceaccounts").query("limit=500"));
    assert_eq!(pages, 2);
    assert!(
        proxy.requests().iter().all(|request| request.method == "GET"),
        "orphans only reads:\n{}",
        proxy.transcript()
    );
}

#[tokio::test]
async fn r37_namesakes_are_not_listed_and_staging_documents_are() {
    let scene = Scene::new("orphans-alike").await;
    let id = scene.run_id.as_str();
    let bare =
        Role { metadata: ObjectMeta { name: Some(format!("aicr-{id}")), ..ObjectMeta::default() }, ..Role::default() };
    scene.api::<Role>().create(&PostParams::default(), &bare).await.unwrap();
    let map = |name: String, label: &str| -> ConfigMap {
        serde_json::from_value(json!({ "metadata": { "name": name, "labels": { "app.kubernetes.io/name": label } } }))
            .unwrap()
    };
    let maps = scene.api::<ConfigMap>();
    for map in [
        map(format!("aicr-agent-snapshot-{id}"), "aicr"),
        map("my-snapshot".to_owned(), "aicr"),
        map(format!("aicr-agent-snapshot-{id}x"), "other"),
    ] {
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
    let all = listed(&scene.home.aicr(["orphans", "-n", &scene.namespace.name, "-o", "json"]).run().await);
    let ours: Vec<_> = all.into_iter().filter(|(object, _)| object.contains(&scene.namespace.name)).collect();
    assert_eq!(ours, [(of_run(&scene, &["ConfigMap"]).pop_first().unwrap(), "StagingJobGone".to_owned())]);
}

#[tokio::test]
async fn r36_the_ledger_of_another_cluster_is_neither_applied_nor_changed() {
    let scene = Scene::new("orphans-other").await;
    scene.snapshot("success").args(["--no-cleanup", "-o", "kept.yaml"]).run().await.code(0);
    let path = scene.ledgers().pop().unwrap();
    let uid = Api::<Namespace>::all(scene.client.clone()).get("kube-system").await.unwrap().uid().unwrap();
    let ours = fs::read_to_string(&path).unwrap();
    let theirs = ours.replace(&uid, "another-cluster");
    assert_ne!(ours, theirs, "the ledger names its cluster");
    fs::write(&path, &theirs).unwrap();

    let reasons = scene.listed().await;
    assert!(reasons.values().all(|reason| reason != "Kept"), "{reasons:?}");
    scene
        .cleanup()
        .arg(&scene.run_id)
        .run()
        .await
        .code(3)
        .stderr_has("not recorded for this cluster but for the one at");
    scene.cleanup().run().await.code(0);
    assert_eq!(scene.objects().await.len(), ALL.len());
    scene.remove_everything().await;
    scene.listed().await;
    assert_eq!(fs::read_to_string(&path).unwrap(), theirs);
}

#[tokio::test]
async fn r35_foreign_and_broken_files_are_said_and_skipped() {
    let scene = Scene::new("orphans-files").await;
    scene.snapshot("success").args(["--no-cleanup", "-o", "kept.yaml"]).run().await.code(0);
    let path = scene.ledgers().pop().unwrap();
    let mut ledger = fs::read(&path).unwrap();
    ledger.truncate(ledger.len() - 20);
    fs::write(&path, &ledger).unwrap();
    scene.home.write("state/foreign.txt", "not a ledger\n");
    scene.home.write("state/newer.jsonl", "{\"kind\":\"kubectl-aicr-ledger\",\"schemaVersion\":99}\n");

    let ran = scene.orphans().run().await;
    ran.code(0)
        .stderr_has("foreign.txt is skipped: it is not a ledger")
        .stderr_has("newer kubectl-aicr")
        .stderr_has("cannot be read");
    assert_eq!(listed(&ran).len(), ALL.len());
    scene.cleanup().arg(&scene.run_id).run().await.code(0);
    scene.assert_clean().await;
    assert_eq!(scene.home.read("state/foreign.txt"), "not a ledger\n");
    assert_eq!(scene.ledgers().len(), 2);
}

#[tokio::test]
async fn r37_an_object_without_a_record_is_starting_for_its_first_minute() {
    let scene = Scene::new("orphans-young").await;
    let role: ClusterRole = serde_json::from_value(json!({
        "metadata": {
            "name": format!("aicr-node-reader-{}", scene.run_id),
            "labels": {
                "app.kubernetes.io/managed-by": "aicr",
                "app.kubernetes.io/component": "snapshot-agent",
                "aicr.run/run-id": scene.run_id,
            },
        },
    }))
    .unwrap();
    let roles = Api::<ClusterRole>::all(scene.client.clone());
    roles.create(&PostParams::default(), &role).await.unwrap();
    assert_eq!(scene.listed().await.into_values().collect::<Vec<_>>(), ["Starting"]);
    roles.delete(&role.name_any(), &DeleteParams::default()).await.unwrap();
    assert_eq!(Api::<ClusterRoleBinding>::all(scene.client.clone()).get_opt(&role.name_any()).await.unwrap(), None);
}
