//! What the Job's end is read from, and what becomes of a wait whose Job goes away.

use std::time::{Duration, Instant};

use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding},
        batch::v1::Job,
        core::v1::{ConfigMap, Pod},
    },
    jiff::Timestamp,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    core::ObjectMeta,
};
use serde_json::{Value, json};

use super::{JOBS, agent_lines, job_name, lines_of, list, watch};
use crate::support::{
    bed::Bed,
    proxy::{Proxy, Status, answer},
    scene::Scene,
    wait::until,
};

/// Far above what a wait needs that ends at once, and far below its deadline.
const AT_ONCE: Duration = Duration::from_secs(30);

/// Takes the Jobs of the namespace out of the Job controller's hands, and waits until that is in force.
async fn manage_jobs_by_hand(scene: &Scene) {
    let name = &scene.namespace.name;
    let policy = json!({
        "metadata": { "name": name },
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": name } },
                "resourceRules": [
                    { "apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"] },
                ],
            },
            "mutations": [{
                "patchType": "ApplyConfiguration",
                "applyConfiguration": { "expression": "Object{spec: Object.spec{managedBy: \"test.example/by-hand\"}}" },
            }],
        },
    });
    let binding = json!({ "metadata": { "name": name }, "spec": { "policyName": name } });
    let policy: MutatingAdmissionPolicy = serde_json::from_value(policy).unwrap();
    let binding: MutatingAdmissionPolicyBinding = serde_json::from_value(binding).unwrap();
    Api::all(scene.client.clone()).create(&PostParams::default(), &policy).await.unwrap();
    Api::all(scene.client.clone()).create(&PostParams::default(), &binding).await.unwrap();
    let template = json!({ "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } });
    let probe: Job =
        serde_json::from_value(json!({ "metadata": { "name": "probe" }, "spec": { "template": template } })).unwrap();
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    until("the policy to be in force", async || {
        scene.api::<Job>().create(&dry_run, &probe).await.ok()?.spec?.managed_by
    })
    .await;
}

/// Sets the Job's status as its controller would.
async fn set_status(scene: &Scene, status: Value) {
    let jobs = scene.api::<Job>();
    until("the Job", async || jobs.get_opt(&job_name(scene)).await.unwrap()).await;
    let status = Patch::Merge(json!({ "status": status }));
    jobs.patch_status(&job_name(scene), &PatchParams::default(), &status).await.unwrap();
}

/// The server keeps no fractions of a second.
fn now() -> String {
    Timestamp::from_second(Timestamp::now().as_second()).unwrap().to_string()
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({ "type": kind, "status": status, "reason": reason, "message": "by hand", "lastTransitionTime": now() })
}

#[tokio::test]
async fn r21_any_true_complete_decides_wherever_it_stands_and_what_comes_before_does_not() {
    let scene = Scene::new("by-hand").await;
    manage_jobs_by_hand(&scene).await;
    let mut running = scene.snapshot("success").spawn();
    let start = now();
    let met = condition("SuccessCriteriaMet", "True", "CompletionsReached");
    set_status(&scene, json!({ "startTime": start, "conditions": [met] })).await;
    running.wait_stderr_contains("has no pod yet").await;
    let map = json!({
        "metadata": {
            "name": format!("aicr-agent-snapshot-{}", scene.run_id),
            "labels": { "app.kubernetes.io/name": "aicr" },
        },
        "data": { "snapshot.yaml": "kind: Snapshot\n" },
    });
    let map: ConfigMap = serde_json::from_value(map).unwrap();
    scene.api::<ConfigMap>().create(&PostParams::default(), &map).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(scene.api::<Job>().get_opt(&job_name(&scene)).await.unwrap().is_some(), "the run did not wait");

    let conditions = [
        condition("Other", "False", "NotOne"),
        condition("Complete", "True", "CompletionsReached"),
        condition("Suspended", "False", "JobResumed"),
        met,
    ];
    let completed = now();
    set_status(&scene, json!({ "startTime": start, "completionTime": completed, "conditions": conditions })).await;
    running.wait().await.code(0).stdout_is("kind: Snapshot\n");
    scene.assert_clean().await;
}

#[tokio::test]
async fn r21_any_true_failed_decides_wherever_it_stands_and_what_comes_before_does_not() {
    let scene = Scene::new("by-hand").await;
    manage_jobs_by_hand(&scene).await;
    let mut running = scene.snapshot("success").spawn();
    let start = now();
    let target = condition("FailureTarget", "True", "PodFailurePolicy");
    set_status(&scene, json!({ "startTime": start, "conditions": [target] })).await;
    running.wait_stderr_contains("waiting").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(scene.api::<Job>().get_opt(&job_name(&scene)).await.unwrap().is_some(), "the run did not wait");

    let conditions = [
        condition("Complete", "False", "NotYet"),
        condition("Failed", "True", "PodFailurePolicy"),
        target,
        condition("Suspended", "False", "JobResumed"),
    ];
    set_status(&scene, json!({ "startTime": start, "conditions": conditions })).await;
    running.wait().await.code(10).stderr_has("error: ").stderr_has("PodFailurePolicy").stderr_has("by hand");
    scene.assert_clean().await;
}

/// A Job of someone else under the run's name.
fn foreign(job: &Job) -> Job {
    let mut other = job.clone();
    other.metadata = ObjectMeta { name: job.metadata.name.clone(), ..ObjectMeta::default() };
    other.status = None;
    let spec = other.spec.as_mut().unwrap();
    (spec.selector, spec.suspend) = (None, Some(true));
    spec.template.metadata = None;
    other
}

#[tokio::test]
async fn r21_a_job_that_goes_while_its_watch_is_broken_ends_the_wait_and_a_foreign_one_stays() {
    for replaced in [false, true] {
        let proxy = Proxy::before(Bed::shared().await).start().await;
        let scene = Scene::behind("job-gone", &proxy).await;
        let running = scene.snapshot("hang").spawn();
        scene.agent_runs().await;
        for requests in [list(JOBS), watch(JOBS)] {
            proxy.on(requests, answer(Status::unavailable()));
        }
        // The watch that is open ends with its connection.
        proxy.down(crate::support::proxy::Outage::Reset);
        let jobs = scene.api::<Job>();
        let ours = jobs.get(&job_name(&scene)).await.unwrap();
        jobs.delete(&job_name(&scene), &DeleteParams::background()).await.unwrap();
        if replaced {
            until("another Job", async || jobs.create(&PostParams::default(), &foreign(&ours)).await.ok()).await;
        }
        let start = Instant::now();
        proxy.up();
        let told = if replaced { "was replaced by another Job" } else { "was deleted by someone else" };
        running.wait().await.code(1).stderr_has("error: ").stderr_has(told);
        assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
        if replaced {
            let other = jobs.get(&job_name(&scene)).await.expect("another's Job was deleted");
            assert_ne!(other.uid(), ours.uid());
            jobs.delete(&job_name(&scene), &DeleteParams::background()).await.unwrap();
        }
        scene.assert_clean().await;
    }
}

#[tokio::test]
async fn r21_a_job_that_is_being_deleted_ends_the_wait_at_once() {
    let scene = Scene::new("deleting").await;
    let running = scene.snapshot("ignore-term").spawn();
    scene.agent_runs().await;
    scene.api::<Job>().delete(&job_name(&scene), &DeleteParams::foreground()).await.unwrap();
    let start = Instant::now();
    let ran = running.wait().await;
    ran.code(1).stderr_has("error: ").stderr_has("was deleted by someone else");
    assert!(start.elapsed() < Duration::from_mins(1), "{:?}", start.elapsed());
}

#[tokio::test]
async fn r22_pods_with_every_label_of_the_agents_but_another_owner_or_none_change_nothing() {
    let scene = Scene::new("lookalikes").await;
    let owner = ConfigMap {
        metadata: ObjectMeta { name: Some("owner".into()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    let owner = scene.api::<ConfigMap>().create(&PostParams::default(), &owner).await.unwrap();
    let owner =
        json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid(), "controller": true }]);
    let mut running = scene.snapshot("drip-12-500ms").spawn();
    running.wait_stderr_contains("agent | line 1 of 12").await;
    let pods = scene.api::<Pod>();
    let agents = pods.list(&ListParams::default()).await.unwrap().items.remove(0);
    for (name, owners, with_controller_uid) in [("decoy-owned", Some(owner), true), ("decoy-alone", None, false)] {
        let mut labels = agents.labels().clone();
        // The Job controller would make a pod its own that has this one and no owner.
        labels.retain(|key, _| with_controller_uid || !key.ends_with("controller-uid"));
        let decoy = json!({
            "metadata": { "name": name, "labels": labels, "ownerReferences": owners },
            "spec": { "restartPolicy": "Never", "containers": [{ "name": "aicr", "image": "registry.test/aicr:logs-7_fail-9" }] },
        });
        let decoy: Pod = serde_json::from_value(decoy).unwrap();
        pods.create(&PostParams::default(), &decoy).await.unwrap();
        until("the decoy to fail", async || {
            (pods.get(name).await.ok()?.status?.phase.as_deref() == Some("Failed")).then_some(())
        })
        .await;
    }
    let ran = running.wait().await;
    ran.code(0).stdout_is(&scene.document()).stderr_lacks("decoy");
    assert_eq!(agent_lines(&ran), lines_of(&scene, 12));
    for name in ["decoy-owned", "decoy-alone"] {
        assert!(pods.get(name).await.is_ok(), "{name} was deleted");
    }
    scene.assert_clean().await;
}
