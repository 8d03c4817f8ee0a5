//! Cleanup, the run's own and `kubectl aicr cleanup`, on a real control plane: everything goes or is listed, and nothing
//! else is touched.

use std::time::Duration;

use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    batch::v1::Job,
    core::v1::ConfigMap,
    rbac::v1::{ClusterRoleBinding, Role},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use rustix::process::Signal;
use serde_json::json;

use crate::support::{
    bed::Bed,
    proxy::{Entry, Fault, Proxy, Status, after, answer, delete, post},
    scene::Scene,
    wait::until,
};

/// Denies deleting the `ClusterRoleBinding` of a run, and is in force when this returns.
async fn protect_binding(scene: &Scene) -> impl AsyncFnOnce() {
    let name = format!("protect-{}", scene.run_id);
    let policies = Api::<ValidatingAdmissionPolicy>::all(scene.client.clone());
    let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(scene.client.clone());
    let policy = json!({
        "metadata": { "name": name },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": { "resourceRules": [{
                "apiGroups": ["rbac.authorization.k8s.io"], "apiVersions": ["v1"],
                "operations": ["DELETE"], "resources": ["clusterrolebindings"],
            }] },
            "matchConditions": [{
                "name": "run",
                "expression": format!("oldObject.metadata.name.endsWith('{}')", scene.run_id),
            }],
            "validations": [{ "expression": "false", "message": "bindings are under protection" }],
        },
    });
    let binding = json!({
        "metadata": { "name": name },
        "spec": { "policyName": name, "validationActions": ["Deny"] },
    });
    policies.create(&PostParams::default(), &serde_json::from_value(policy).unwrap()).await.unwrap();
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    let subjects = Api::<ClusterRoleBinding>::all(scene.client.clone());
    let probe: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": { "name": format!("probe-{}", scene.run_id) },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "none" },
    }))
    .unwrap();
    until("the policy to be in force", async || {
        let _ = subjects.create(&PostParams::default(), &probe).await;
        subjects.delete(&probe.name_any(), &DeleteParams::default()).await.err().map(drop)
    })
    .await;
    let probe = probe.name_any();
    async move || {
        bindings.delete(&name, &DeleteParams::default()).await.unwrap();
        policies.delete(&name, &DeleteParams::default()).await.unwrap();
        until("the policy to be lifted", async || {
            subjects.delete(&probe, &DeleteParams::default()).await.ok().map(drop)
        })
        .await;
    }
}

#[tokio::test]
async fn r30_a_refused_delete_is_named_with_the_servers_words_and_finished_later() {
    let scene = Scene::new("refused").await;
    let lift = protect_binding(&scene).await;
    let ran = scene.snapshot("success").run().await;
    ran.code(11).stdout_is(&scene.document()).stderr_has("bindings are under protection");
    let name = format!("ClusterRoleBinding aicr-node-reader-{}", scene.run_id);
    assert_eq!(scene.objects().await.keys().collect::<Vec<_>>(), [&name], "the others are deleted");

    let reasons = scene.listed().await;
    assert_eq!(reasons.into_iter().collect::<Vec<_>>(), [(name, "DeleteFailed".to_owned())]);
    let orphans = scene.home.aicr(["orphans", "--run-id", &scene.run_id, "-o", "wide"]).run().await;
    orphans.code(0).stdout_has("bindings are under protection");
    scene.cleanup().run().await.code(11).stderr_has("bindings are under protection").stderr_has("failed");
    lift().await;
    scene.cleanup().run().await.code(0).stderr_has("deleted");
    scene.assert_clean().await;
    assert!(scene.ledgers().is_empty());
    scene.cleanup().run().await.code(0).stderr_has("nothing to clean up");
}

#[tokio::test]
async fn r33_a_finalizer_is_waited_for_and_then_said() {
    let scene = Scene::new("finalizer").await;
    let running = scene.snapshot("slow-2s").args(["--cleanup-timeout", "4s"]).spawn();
    scene.agent_runs().await;
    let (jobs, name) = (scene.api::<Job>(), format!("aicr-{}", scene.run_id));
    let finalizers = |list: serde_json::Value| Patch::Merge(json!({ "metadata": { "finalizers": list } }));
    jobs.patch(&name, &PatchParams::default(), &finalizers(json!(["example.com/hold"]))).await.unwrap();
    let ran = running.wait().await;
    ran.code(11).stdout_is(&scene.document()).stderr_has("still terminating");
    let job = format!("Job {}/{name}", scene.namespace.name);
    assert_eq!(scene.listed().await.into_iter().collect::<Vec<_>>(), [(job, "StillTerminating".to_owned())]);
    scene.cleanup().args(["--cleanup-timeout", "1s"]).run().await.code(11).stderr_has("terminating");
    jobs.patch(&name, &PatchParams::default(), &finalizers(json!(null))).await.unwrap();
    until("the Job to be gone", async || jobs.get_opt(&name).await.unwrap().is_none().then_some(())).await;
    assert_eq!(scene.listed().await, [].into());
    let ledgers = scene.ledgers().into_iter().map(|path| std::fs::read_to_string(path).unwrap());
    assert_eq!(ledgers.collect::<Vec<_>>(), [""; 0]);
}

#[tokio::test]
async fn r30_a_role_that_someone_else_made_anew_survives() {
    let scene = Scene::new("replaced").await;
    let running = scene.snapshot("slow-2s").spawn();
    scene.agent_runs().await;
    let (roles, name) = (scene.api::<Role>(), format!("aicr-{}", scene.run_id));
    let mut role = roles.get(&name).await.unwrap();
    roles.delete(&name, &DeleteParams::default()).await.unwrap();
    role.metadata = kube::core::ObjectMeta {
        name: Some(name.clone()),
        labels: role.metadata.labels,
        ..kube::core::ObjectMeta::default()
    };
    let theirs = roles.create(&PostParams::default(), &role).await.unwrap();
    running.wait().await.code(0);
    let live = roles.get(&name).await.unwrap();
    assert_eq!((live.uid(), live.resource_version()), (theirs.uid(), theirs.resource_version()));
    assert_eq!(scene.objects().await.len(), 1, "and nothing else is left");
}

#[tokio::test]
async fn r31_an_object_swapped_in_where_a_creates_answer_was_lost_survives() {
    let proxy = Proxy::before(Bed::shared().await).start().await;
    let scene = Scene::behind("swapped", &proxy).await;
    let lost = proxy.on(post("**/roles").matching(Entry::is_write), after(Fault::Hold));
    let mut running = scene.snapshot("success").spawn();
    lost.committed().await;
    let (roles, name) = (scene.api::<Role>(), format!("aicr-{}", scene.run_id));
    roles.delete(&name, &DeleteParams::default()).await.unwrap();
    let theirs = json!({ "metadata": { "name": name, "labels": { "aicr.run/run-id": scene.run_id } } });
    let theirs = roles.create(&PostParams::default(), &serde_json::from_value(theirs).unwrap()).await.unwrap();
    running.wait_stderr_contains("run ").await;
    running.signal(Signal::INT);
    let ran = running.wait().await;
    ran.code(130).stderr_has(&format!("Role {}/{name} is left", scene.namespace.name)).stderr_has("OwnerMismatch");
    lost.release();
    let live = roles.get(&name).await.unwrap();
    assert_eq!((live.uid(), live.resource_version()), (theirs.uid(), theirs.resource_version()));

    let role = format!("Role {}/{name}", scene.namespace.name);
    assert_eq!(scene.listed().await.into_iter().collect::<Vec<_>>(), [(role, "OwnerMismatch".to_owned())]);
    scene.cleanup().run().await.code(11).stderr_has("OwnerMismatch");
    assert_eq!(roles.get(&name).await.unwrap().uid(), theirs.uid());
}

#[tokio::test]
async fn r28_a_document_is_delivered_even_if_every_delete_fails() {
    // What a gateway says to anything is no word of the API server, and no proof that an object is gone.
    let page = "<html>default backend</html>";
    for refusal in [Status::forbidden(), Status::plain(404, page), Status::plain(409, page)] {
        let proxy = Proxy::before(Bed::shared().await).start().await;
        let scene = Scene::behind("no-deletes", &proxy).await;
        let refusal = proxy.on(delete("**"), answer(refusal));
        let ran = scene.snapshot("success").run().await;
        ran.code(11).stdout_is(&scene.document()).stderr_has("could not be cleaned up");
        let left = scene.objects().await;
        assert_eq!(left.len(), 7);
        let listed = scene.listed().await;
        assert_eq!(listed.keys().collect::<Vec<_>>(), left.keys().collect::<Vec<_>>());
        assert!(listed.values().all(|reason| reason == "DeleteFailed"), "{listed:?}");
        refusal.lift();
        scene.cleanup().run().await.code(0);
        scene.assert_clean().await;
    }
}

#[tokio::test]
async fn r42_a_failed_run_that_left_objects_says_how_to_finish() {
    let proxy = Proxy::before(Bed::shared().await).start().await;
    let scene = Scene::behind("failed-left", &proxy).await;
    let refusal = proxy.on(delete("**"), answer(Status::forbidden()));
    let ran = scene.snapshot("fail-3").arg("--quiet").run().await;
    let left = format!("warning: 6 object(s) of run {0} could not be cleaned up", scene.run_id);
    let finish = format!("kubectl aicr cleanup {}", scene.run_id);
    ran.code(10).stderr_has(&left).stderr_has(&finish).stderr_has("ended with exit code 3");
    refusal.lift();
    scene.cleanup().run().await.code(0);
    scene.assert_clean().await;
}

#[tokio::test]
async fn r35_without_a_writable_state_directory_a_run_warns_once_and_works() {
    let scene = Scene::new("no-state").await;
    scene.home.write("state", "a file where the directory should be");
    let ran = scene.snapshot("success").run().await;
    ran.code(0).stdout_is(&scene.document());
    let stderr = ran.stderr();
    assert_eq!(stderr.matches("cannot write the ledger").count(), 1, "{stderr}");
    scene.assert_clean().await;
    scene.orphans().run().await.code(0).stderr_has("cannot read the ledgers");
}

#[tokio::test]
async fn r32_whenever_an_interrupted_agent_writes_its_document_is_deleted_or_listed() {
    let scripts = [
        "hang",
        "write-late-0ms",
        "write-late-50ms",
        "write-late-300ms",
        "write-late-1s",
        "write-late-3s",
        "slow-100ms",
    ];
    let each = scripts.map(|script| async move {
        let scene = Scene::new("late").await;
        let running = scene.snapshot(script).spawn();
        scene.agent_runs().await;
        running.signal(Signal::INT);
        let ran = running.wait().await;
        // A pod has its time to end; whatever it writes then must not go unseen.
        let pods = scene.api::<k8s_openapi::api::core::v1::Pod>();
        until("the pods to be gone", async || {
            pods.list(&kube::api::ListParams::default()).await.unwrap().items.is_empty().then_some(())
        })
        .await;
        let (left, listed) = (scene.objects().await, scene.listed().await);
        assert_eq!(listed.keys().collect::<Vec<_>>(), left.keys().collect::<Vec<_>>(), "{script}: {ran}");
        assert!(left.keys().all(|object| object.starts_with("ConfigMap ")), "{script}: {left:?}\n{ran}");
    });
    futures::future::join_all(each).await;
}

#[tokio::test]
async fn r38_a_killed_run_is_finished_although_its_job_is_still_active() {
    let scene = Scene::new("finish").await;
    let running = scene.snapshot("hang").spawn();
    scene.agent_runs().await;
    running.kill().await;
    assert_eq!(scene.ledgers().len(), 1);
    let args = ["orphans", "-n", &scene.namespace.name, "--run-id", &scene.run_id];
    let orphans = scene.home.aicr(args).run().await;
    orphans.code(0).stdout_is("").stderr_has(&format!("kubectl aicr cleanup {}", scene.run_id));
    scene.cleanup().arg(&scene.run_id).run().await.code(0).stderr_has("deleted").stdout_is("");
    scene.assert_clean().await;
    assert!(scene.ledgers().is_empty());
}

#[tokio::test]
async fn r38_cleanup_asks_and_takes_only_yes_for_a_yes() {
    let scene = Scene::new("asks").await;
    let running = scene.snapshot("hang").spawn();
    scene.agent_runs().await;
    running.kill().await;
    let before = scene.objects().await;

    scene.home.aicr(["cleanup"]).run().await.code(2).stderr_has("--yes");
    scene.home.aicr(["cleanup"]).stdin("y\n").run().await.code(2).stderr_has("--yes");
    for answer in ["n\n", "\n", "\u{4}"] {
        let mut asked = scene.home.aicr(["cleanup"]).terminal().spawn();
        asked.wait_stderr_contains("[y/N]").await;
        asked.keys(answer).await;
        asked.wait().await.code(2).stderr_has(&format!("aicr-{}", scene.run_id));
    }
    assert_eq!(scene.objects().await, before, "nothing was touched");
    let mut asked = scene.home.aicr(["cleanup"]).terminal().spawn();
    asked.wait_stderr_contains("[y/N]").await;
    asked.keys("y\n").await;
    asked.wait().await.code(0).stderr_has("deleted");
    scene.assert_clean().await;
}

#[tokio::test]
async fn r38_a_run_that_is_not_recorded_exits_3_and_another_namespace_is_left_alone() {
    let scene = Scene::new("unknown").await;
    scene.cleanup().arg("no-such-run").run().await.code(3).stderr_has("no-such-run is not recorded");
    scene.cleanup().run().await.code(0).stderr_has("nothing to clean up");
    scene.cleanup().arg("Not A Label").run().await.code(2).stderr_has("DNS-1123");

    let running = scene.snapshot("hang").spawn();
    scene.agent_runs().await;
    running.kill().await;
    scene.cleanup().args(["-n", "elsewhere"]).run().await.code(0).stderr_has("nothing to clean up");
    scene.cleanup().args(["-n", "elsewhere", &scene.run_id]).run().await.code(3).stderr_has("in namespace elsewhere");
    scene.cleanup().args(["-n", &scene.namespace.name]).run().await.code(0);
    scene.assert_clean().await;
}

#[tokio::test]
async fn r38_a_live_run_is_taken_only_when_named() {
    let scene = Scene::new("alive").await;
    let running = scene.snapshot("hang").spawn();
    scene.agent_runs().await;
    scene.cleanup().run().await.code(0).stderr_has("nothing to clean up");
    let taken = scene.cleanup().arg(&scene.run_id).run().await;
    taken.code(0).stderr_has("belongs to a process that still runs").stderr_has("deleted");
    scene.assert_clean().await;
    running.wait().await.code(1).stderr_has("was deleted");
    assert!(scene.ledgers().is_empty());
}

#[tokio::test]
async fn r34_an_unreachable_cluster_is_one_error_and_what_is_left_can_be_finished_later() {
    let proxy = Proxy::before(Bed::shared().await).start().await;
    let scene = Scene::behind("away", &proxy).await;
    let running = scene.snapshot("hang").args(["--cleanup-timeout", "2s"]).spawn();
    scene.agent_runs().await;
    proxy.down(crate::support::proxy::Outage::Reset);
    running.signal(Signal::INT);
    let ran = running.wait().await;
    ran.code(130).stderr_has(&format!("finish with `kubectl aicr cleanup {}`", scene.run_id));
    assert_eq!(ran.stderr().matches("warning: cannot").count(), 1, "one cause, not one for each object: {ran}");
    let away = scene.cleanup().args(["--request-timeout", "2s"]).deadline(Duration::from_secs(90)).run().await;
    away.code(6);
    assert_eq!(away.stderr().lines().filter(|line| line.starts_with("error: ")).count(), 1, "{away}");
    proxy.up();
    scene.cleanup().run().await.code(0);
    scene.assert_clean().await;
    assert_eq!(scene.api::<ConfigMap>().get_opt(&format!("aicr-agent-snapshot-{}", scene.run_id)).await.unwrap(), None);
}
