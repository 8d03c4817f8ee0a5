//! What else can stand in the way of a run, and how a refused run leaves the cluster.

use std::time::Duration;

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Namespace, Pod},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{Case, MANAGED, accounts, cluster, snapshot_by};
use crate::support::{
    bed::Bed,
    cli::{Home, Outcome},
    node::NodeSpec,
    proxy::{Entry, Proxy, Status, answer, post},
};

/// Runs `snapshot` as an admin through a proxy, which must be refused without a write.
async fn refused(case: &Case, args: &[&str], code: i32) -> Outcome {
    let proxy = Proxy::before(case.bed).start().await;
    let out = case.snapshot_through(&proxy, &case.admin()).args(args).run().await;
    out.code(code).stdout_is("");
    assert!(proxy.writes().is_empty(), "{out}\n{}", proxy.transcript());
    out
}

#[tokio::test]
async fn r18_pod_security_is_known_before_anything_is_written() {
    for profile in ["baseline", "restricted"] {
        let case = Case::labelled("pss", &[MANAGED, ("pod-security.kubernetes.io/enforce", profile)]).await;
        let out = refused(&case, &[], 1).await;
        out.stderr_has(&format!("Pod Security profile \"{profile}\""));
        out.stderr_has("--privileged=false").stderr_has("pod-security.kubernetes.io/enforce=privileged");
        let out = case.snapshot(&case.admin()).arg("--privileged=false").run().await;
        out.code(0).stdout_has("kind: Snapshot").stderr_lacks("Pod Security");
    }
    let case = Case::labelled("pss", &[MANAGED, ("pod-security.kubernetes.io/warn", "restricted")]).await;
    let out = case.snapshot(&case.admin()).run().await;
    out.code(0).stderr_has("warning: ").stderr_has("\"restricted\"");
}

#[tokio::test]
async fn r18_a_missing_runtime_class_ends_the_run_with_3() {
    let case = Case::new("runtime").await;
    let out = refused(&case, &["--runtime-class", "absent-class"], 3).await;
    out.stderr_has("RuntimeClass absent-class does not exist").stderr_has("kubectl get runtimeclasses");
}

#[tokio::test]
async fn r18_a_missing_pull_secret_is_a_warning() {
    let case = Case::new("pull").await;
    let out = case.snapshot(&case.admin()).args(["--image-pull-secret", "absent-secret"]).run().await;
    out.code(0).stderr_has("warning: ").stderr_has(&format!("{}/absent-secret does not exist", case.name()));
}

#[tokio::test]
async fn r18_a_terminating_namespace_is_an_error() {
    let case = Case::new("terminating").await;
    let client = case.bed.admin_client().await;
    let maps = Api::<ConfigMap>::namespaced(client.clone(), case.name());
    let holds = json!({ "metadata": { "name": "holds", "finalizers": ["test.example/holds"] } });
    maps.create(&PostParams::default(), &serde_json::from_value(holds).unwrap()).await.unwrap();
    Api::<Namespace>::all(client).delete(case.name(), &DeleteParams::default()).await.unwrap();
    let out = refused(&case, &[], 1).await;
    out.stderr_has("is being deleted").stderr_has("1 thing stands in the way");
    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    maps.patch("holds", &PatchParams::default(), &release).await.unwrap();
}

#[tokio::test]
async fn r42_a_missing_namespace_of_the_output_ends_the_run_with_3() {
    let case = Case::new("output").await;
    let out = refused(&case, &["-o", "cm://absent-namespace/snapshot"], 3).await;
    out.stderr_has("namespace absent-namespace does not exist").stderr_has("kubectl create namespace absent-namespace");
}

#[tokio::test]
async fn r6_a_run_id_in_use_is_found_before_anything_is_written() {
    let case = Case::new("in-use").await;
    let run_id = format!("pinned-{}", case.name());
    let args = ["--run-id", run_id.as_str()];
    case.snapshot(&case.admin()).args(args).arg("--no-cleanup").run().await.code(0);
    let jobs = Api::<Job>::namespaced(case.bed.admin_client().await, case.name());
    let before = jobs.get(&format!("aicr-{run_id}")).await.unwrap().resource_version();
    let out = refused(&case, &args, 1).await;
    out.stderr_has(&format!("run ID {run_id} is in use")).stderr_has("is left as it is");
    assert_eq!(jobs.get(&format!("aicr-{run_id}")).await.unwrap().resource_version(), before);
}

#[tokio::test]
async fn r7_an_absent_namespace_is_made_by_who_may_and_named_to_who_may_not() {
    let case = Case::new("absent").await;
    let absent = format!("{}-new", case.name());
    let kubeconfig = case.bed.kubeconfig(&case.user, Some(&absent));
    let proxy = Proxy::before(case.bed).start().await;
    let out = snapshot_by(&proxy.kubeconfig(&case.user, Some(&absent))).run().await;
    // Somebody with no rights may not even read it: it is taken to exist.
    out.code(4).stderr_has(&format!("namespace {absent} may not be read"));
    assert!(proxy.writes().is_empty(), "{}", proxy.transcript());

    case.grant(&cluster(&["get"], "", "namespaces")).await;
    let out = snapshot_by(&kubeconfig).run().await;
    out.code(4).stderr_has(&format!("namespaces/{absent}")).stderr_has(&format!("kubectl create namespace {absent}"));

    let out = snapshot_by(&case.bed.kubeconfig(&case.admin(), Some(&absent))).run().await;
    out.code(0).stdout_has("kind: Snapshot");
}

#[tokio::test]
async fn r18_a_server_that_cannot_try_a_create_is_a_warning() {
    let case = Case::new("no-dry-run").await;
    let proxy = Proxy::before(case.bed).start().await;
    let message = "admission webhook \"x.example\" does not support dry run";
    let refuse = || answer(Status::new(400, "BadRequest").message(message));
    proxy.on(post("/apis/rbac.authorization.k8s.io/v1/**").query("dryRun=All"), refuse());
    let out = case.snapshot_through(&proxy, &case.admin()).run().await;
    out.code(0).stdout_has("kind: Snapshot").stderr_has("warning: ").stderr_has(message);
}

#[tokio::test]
async fn r16_reviews_that_are_refused_are_told_apart_from_denials() {
    let case = Case::new("reviews").await;
    let proxy = Proxy::before(case.bed).start().await;
    let reviews = || post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
    let rule = proxy.on(reviews(), answer(Status::forbidden()));
    let out = case.snapshot_through(&proxy, &case.admin()).run().await;
    out.code(0).stderr_has("of your permissions are unverified, not passed").stderr_has("0 permissions checked");

    rule.lift();
    proxy.on(reviews(), answer(Status::internal_error()));
    let out = case.snapshot_through(&proxy, &case.admin()).run().await;
    out.code(1).stderr_has("cannot find out whether you may").stderr_has("leader changed").stderr_lacks("missing");
    // A failure that passes is overcome.
    proxy.lift_all();
    proxy.on(reviews().nth(3), answer(Status::unavailable()));
    case.snapshot_through(&proxy, &case.admin()).run().await.code(0);
}

/// The round trip in which the Job's create was sent, counted from the first.
fn trip_of_the_job(proxy: &Proxy) -> usize {
    let creates_job = |entry: &Entry| entry.method == "POST" && entry.path.ends_with("/jobs");
    let trip = proxy.waves().iter().position(|wave| wave.iter().any(creates_job));
    trip.unwrap_or_else(|| panic!("no Job was created\n{}", proxy.transcript())) + 1
}

#[tokio::test]
async fn r19_few_round_trips_lead_to_the_job() {
    let case = Case::new("trips").await;
    accounts::prepare(&case).await;
    let absent = format!("{}-absent", case.name());
    for (namespace, account, most) in [(case.name(), None, 4), (case.name(), Some("irsa-sa"), 3), (&absent, None, 5)] {
        let proxy = Proxy::before(case.bed).rtt(Duration::from_millis(300)).start().await;
        let account = account.map(|account| format!("--service-account-name={account}"));
        snapshot_by(&proxy.kubeconfig(&case.admin(), Some(namespace))).args(&account).run().await.code(0);
        let trip = trip_of_the_job(&proxy);
        assert!(trip <= most, "{account:?}: the Job came with round trip {trip}\n{}", proxy.transcript());
    }
}

#[tokio::test]
async fn r25_a_gpu_node_is_chosen_where_the_choice_is_left_to_the_run() {
    let bed = Bed::private().await;
    bed.add_node(&NodeSpec::new("gpu-1").label("nvidia.com/gpu.present", "true")).await;
    let namespace = bed.namespace("gpu").await;
    let home = Home::new().kubeconfig(&bed.kubeconfig(bed.admin(), Some(&namespace.name)));
    let snapshot = |args: &[&str]| home.aicr(["snapshot", "--no-cleanup"]).args(args);
    let selector = "node selector nvidia.com/gpu.present=true";
    snapshot(&["--run-id", "chosen"]).run().await.code(0).stderr_has(selector);
    let pods = Api::<Pod>::namespaced(bed.admin_client().await, &namespace.name);
    let found = pods.list(&ListParams::default().labels("aicr.run/run-id=chosen")).await.unwrap();
    assert_eq!(found.items[0].spec.as_ref().unwrap().node_name.as_deref(), Some("gpu-1"));
    // A later failure names the choice.
    let chose = "the run itself chose the node selector nvidia.com/gpu.present=true";
    snapshot(&["--image", "registry.test/aicr:fail"]).run().await.code(10).stderr_has(chose);
    snapshot(&["--image", "registry.test/aicr:hang", "--timeout", "3s"]).run().await.code(5).stderr_has(chose);
    let out = snapshot(&["--run-id", "told", "--node-selector", "kubernetes.io/os=linux"]).run().await;
    out.code(0).stderr_lacks(selector);
}
