//! What keeps an agent from finishing is told in the cluster's own words (R20–R24).

use std::time::{Duration, Instant};

use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    batch::v1::Job,
    core::v1::{ConfigMap, Namespace, Pod, ResourceQuota, ServiceAccount},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    bed::Bed,
    node::NodeSpec,
    proxy::{Fault, Proxy, before, post},
    scene::Scene,
    wait::until,
};

/// What cannot heal ends a run long before its deadline.
const EARLY: Duration = Duration::from_mins(1);

fn job_name(scene: &Scene) -> String {
    format!("aicr-{}", scene.run_id)
}

async fn patch_job(scene: &Scene, patch: Value) {
    scene.api::<Job>().patch(&job_name(scene), &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// Refuses every pod of the namespace, and waits until that is in force.
async fn refuse_pods(scene: &Scene) {
    let name = &scene.namespace.name;
    let policy = json!({
        "metadata": { "name": name },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": name } },
                "resourceRules": [
                    { "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"] },
                ],
            },
            "validations": [{ "expression": "false", "message": "no pods on Fridays" }],
        },
    });
    let binding =
        json!({ "metadata": { "name": name }, "spec": { "policyName": name, "validationActions": ["Deny"] } });
    let (policy, binding): (ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding) =
        (serde_json::from_value(policy).unwrap(), serde_json::from_value(binding).unwrap());
    Api::all(scene.client.clone()).create(&PostParams::default(), &policy).await.unwrap();
    Api::all(scene.client.clone()).create(&PostParams::default(), &binding).await.unwrap();
    let probe = json!({ "metadata": { "name": "probe" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    let probe: Pod = serde_json::from_value(probe).unwrap();
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    until("the policy to be in force", async || scene.api::<Pod>().create(&dry_run, &probe).await.err()).await;
}

#[tokio::test]
async fn r24_a_pod_that_a_policy_refuses_ends_the_run_early_with_the_policys_message() {
    let scene = Scene::new("policy").await;
    refuse_pods(&scene).await;
    let start = Instant::now();
    let ran = scene.snapshot("success").run().await;
    ran.code(10).stderr_has(&format!("error: Job {}/{} can create no pod: ", scene.namespace.name, job_name(&scene)));
    ran.stderr_has("ValidatingAdmissionPolicy")
        .stderr_has("no pods on Fridays")
        .stderr_has("meet what the policy asks");
    assert!(start.elapsed() < EARLY, "{:?}", start.elapsed());
    scene.assert_clean().await;
}

#[tokio::test]
async fn r24_a_pod_that_pod_security_refuses_ends_the_run_early() {
    let proxy = Proxy::before(Bed::shared().await).start().await;
    let scene = Scene::behind("security", &proxy).await;
    // After the pre-flight, which looks at these labels too.
    let held = proxy.on(post("**/jobs"), before(Fault::Hold));
    let running = scene.snapshot("success").spawn();
    held.arrived().await;
    let labels = json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": "restricted" } } });
    let namespaces = Api::<Namespace>::all(scene.client.clone());
    namespaces.patch(&scene.namespace.name, &PatchParams::default(), &Patch::Merge(labels)).await.unwrap();
    held.release();
    let ran = running.wait().await;
    ran.code(10).stderr_has("can create no pod: violates PodSecurity \"restricted:latest\"");
    ran.stderr_has("--privileged=false");
    scene.assert_clean().await;
}

#[tokio::test]
async fn r24_a_missing_account_ends_the_run_early() {
    let proxy = Proxy::before(Bed::shared().await).start().await;
    let scene = Scene::behind("account", &proxy).await;
    let held = proxy.on(post("**/jobs"), before(Fault::Hold));
    let running = scene.snapshot("success").spawn();
    held.arrived().await;
    scene.api::<ServiceAccount>().delete(&job_name(&scene), &DeleteParams::default()).await.unwrap();
    held.release();
    running.wait().await.code(10).stderr_has("can create no pod: error looking up service account");
    scene.assert_clean().await;
}

#[tokio::test]
async fn r24_a_quota_is_told_once_and_the_run_goes_on_when_it_has_room() {
    let scene = Scene::new("quota").await;
    let quota = json!({ "metadata": { "name": "none" }, "spec": { "hard": { "pods": "0" } } });
    let quota: ResourceQuota = serde_json::from_value(quota).unwrap();
    let quotas = scene.api::<ResourceQuota>();
    quotas.create(&PostParams::default(), &quota).await.unwrap();
    until("the quota to be in force", async || quotas.get("none").await.ok()?.status?.hard).await;
    let mut running = scene.snapshot("success").spawn();
    running.wait_stderr_contains("can create no pod: exceeded quota: none").await;
    let events = scene.api::<k8s_openapi::api::core::v1::Event>();
    until("three refusals", async || {
        let refused = events.list(&ListParams::default().fields("reason=FailedCreate")).await.unwrap();
        let count: i32 = refused.iter().map(|event| event.count.unwrap_or(1)).sum();
        (count >= 3).then_some(())
    })
    .await;
    quotas.delete("none", &DeleteParams::default()).await.unwrap();
    let ran = running.wait().await;
    ran.code(0).stdout_is(&scene.document());
    assert_eq!(ran.stderr().matches("exceeded quota").count(), 1, "{}", ran.stderr());
    scene.assert_clean().await;
}

#[tokio::test]
async fn r24_a_pod_without_a_node_waits_to_the_deadline_with_the_schedulers_sentence() {
    let scene = Scene::new("selector").await;
    let ran = scene.snapshot("success").args(["--node-selector", "no=such-node", "--timeout", "4s"]).run().await;
    ran.code(5).stderr_has("finds no node: 0/").stderr_has("didn't match Pod's node affinity/selector");
    ran.stderr_has("compare --node-selector");
    scene.assert_clean().await;

    let scene = Scene::new("taint").await;
    let node = &scene.namespace.name;
    let spec = NodeSpec::new(node).label("only", node).taint("reserved", "yes", "NoSchedule");
    scene.bed.add_node(&spec).await;
    let selector = format!("only={node}");
    let run = scene.snapshot("success").args(["--node-selector", &selector, "--toleration", "other:NoSchedule"]);
    run.args(["--timeout", "4s"]).run().await.code(5).stderr_has("finds no node: 0/").stderr_has("untolerated taint");
    scene.assert_clean().await;
    scene.bed.remove_node(node).await;
}

#[tokio::test]
async fn r24_what_the_kubelet_cannot_start_is_the_reason_at_the_deadline() {
    for (script, told) in [
        ("image-pull-backoff", "cannot get the image \"registry.test/aicr:image-pull-backoff\": "),
        ("config-error", "has a container with an unusable configuration: the agent: "),
        ("never-starts", "is being started on node"),
    ] {
        let scene = Scene::new(script).await;
        let ran = scene.snapshot(script).args(["--timeout", "4s"]).run().await;
        ran.code(5);
        let said = ran.stderr().lines().filter(|line| line.starts_with("waiting (") && line.contains(told)).count();
        assert_eq!(said, 1, "{}", ran.stderr());
        let error = ran.stderr().lines().find(|line| line.starts_with("error: ")).unwrap_or_default().to_owned();
        assert!(error.contains(told), "{error}");
        scene.assert_clean().await;
    }
}

#[tokio::test]
async fn r24_a_path_that_the_node_does_not_have_ends_the_run_early() {
    let scene = Scene::new("mount-failure").await;
    let ran = scene.snapshot("mount-failure").run().await;
    ran.code(10).stderr_has("cannot mount a volume: MountVolume.SetUp failed").stderr_has("--os talos");
    scene.assert_clean().await;
}

#[tokio::test]
async fn r24_how_the_agent_ended_is_the_reason_of_the_failure() {
    for (script, told) in [
        ("fail-3", "ended with exit code 3"),
        ("oom", "ran out of memory and was killed (exit code 137)"),
        ("evicted", "was evicted: The node was low on resource"),
        ("start-error", "could not be run (exit code 128): "),
    ] {
        let scene = Scene::new(script).await;
        let ran = scene.snapshot(script).run().await;
        ran.code(10);
        let error = ran.stderr().lines().find(|line| line.starts_with("error: ")).unwrap_or_default().to_owned();
        assert!(error.contains(told), "{error}");
        scene.assert_clean().await;
    }
}

#[tokio::test]
async fn r24_a_pod_that_someone_deletes_is_the_reason_of_the_failure() {
    let scene = Scene::new("pod-deleted").await;
    let running = scene.snapshot("hang").spawn();
    scene.agent_runs().await;
    let pods = scene.api::<Pod>();
    let pod = pods.list(&ListParams::default()).await.unwrap().items.remove(0).name_any();
    pods.delete(&pod, &DeleteParams::default()).await.unwrap();
    let ran = running.wait().await;
    ran.code(10).stderr_has(&format!("error: Pod {}/{pod} was deleted by someone else", scene.namespace.name));
    scene.assert_clean().await;
}

#[tokio::test]
async fn r21_a_job_that_someone_deletes_or_replaces_ends_the_wait_at_once() {
    for replaced in [false, true] {
        let scene = Scene::new("job-deleted").await;
        let running = scene.snapshot("hang").spawn();
        scene.agent_runs().await;
        let jobs = scene.api::<Job>();
        let mut other = jobs.get(&job_name(&scene)).await.unwrap();
        let start = Instant::now();
        jobs.delete(&job_name(&scene), &DeleteParams::background()).await.unwrap();
        if replaced {
            other.metadata = kube::core::ObjectMeta { name: other.metadata.name, ..Default::default() };
            let spec = other.spec.as_mut().unwrap();
            (spec.selector, spec.suspend) = (None, Some(true));
            spec.template.metadata = None;
            until("another job", async || jobs.create(&PostParams::default(), &other).await.ok()).await;
        }
        let ran = running.wait().await;
        ran.code(1);
        let told = ["was deleted by someone else", "was replaced by another Job"];
        assert!(told.iter().any(|told| ran.stderr().contains(told)), "{}", ran.stderr());
        assert!(start.elapsed() < EARLY, "{:?}", start.elapsed());
        if replaced {
            assert!(jobs.get(&job_name(&scene)).await.is_ok(), "another's Job was deleted");
            jobs.delete(&job_name(&scene), &DeleteParams::background()).await.unwrap();
        }
        scene.assert_clean().await;
    }
}

#[tokio::test]
async fn r24_a_suspended_job_is_told() {
    let scene = Scene::new("suspended").await;
    let mut running = scene.snapshot("hang").spawn();
    scene.agent_runs().await;
    patch_job(&scene, json!({ "spec": { "suspend": true } })).await;
    running.wait_stderr_contains(&format!("Job {}/{} is suspended: ", scene.namespace.name, job_name(&scene))).await;
    running.signal(Signal::INT);
    running.wait().await.code(130);
    scene.assert_clean().await;
}

#[tokio::test]
async fn r24_on_the_jobs_own_deadline_the_last_reason_is_kept() {
    let scene = Scene::new("deadline").await;
    let mut running = scene.snapshot("success").args(["--node-selector", "no=such-node"]).spawn();
    running.wait_stderr_contains("finds no node").await;
    patch_job(&scene, json!({ "spec": { "activeDeadlineSeconds": 1 } })).await;
    let ran = running.wait().await;
    ran.code(10).stderr_has("ran into its deadline: Job was active longer than specified deadline; before that, Pod ");
    scene.assert_clean().await;

    let scene = Scene::new("hanging").await;
    let running = scene.snapshot("hang").spawn();
    scene.agent_runs().await;
    patch_job(&scene, json!({ "spec": { "activeDeadlineSeconds": 1 } })).await;
    let ran = running.wait().await;
    ran.code(10).stderr_has("ran into its deadline").stderr_lacks("before that").stderr_has("the agent hangs");
    scene.assert_clean().await;
}

#[tokio::test]
async fn r22_a_pod_that_only_looks_like_the_runs_own_changes_nothing() {
    let scene = Scene::new("lookalike").await;
    let owner = ConfigMap {
        metadata: kube::core::ObjectMeta { name: Some("owner".into()), ..Default::default() },
        ..Default::default()
    };
    let owner = scene.api::<ConfigMap>().create(&PostParams::default(), &owner).await.unwrap();
    let decoy = json!({
        "metadata": {
            "name": "decoy",
            "labels": {
                "job-name": job_name(&scene), "batch.kubernetes.io/job-name": job_name(&scene),
                "aicr.run/run-id": scene.run_id, "app.kubernetes.io/name": "aicr",
            },
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid(), "controller": true,
            }],
        },
        "spec": { "restartPolicy": "Never", "containers": [{ "name": "aicr", "image": "registry.test/aicr:logs-7_fail-9" }] },
    });
    let decoy: Pod = serde_json::from_value(decoy).unwrap();
    scene.api::<Pod>().create(&PostParams::default(), &decoy).await.unwrap();
    let ran = scene.snapshot("slow-2s").run().await;
    ran.code(0).stdout_is(&scene.document()).stderr_lacks("of 7").stderr_lacks("decoy");
    assert!(scene.api::<Pod>().get("decoy").await.is_ok(), "another's pod was deleted");
    scene.assert_clean().await;
}
