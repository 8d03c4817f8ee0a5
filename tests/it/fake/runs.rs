//! Whole runs on the in-memory cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Event as ClusterEvent, Pod};
use kube::api::{DeleteParams, ListParams, LogParams, PostParams};
use kube::{Api, ResourceExt as _};
use kubectl_aicr::fake::{Cluster, Fault, NodeSpec, User, Verb};
use kubectl_aicr::{Deployer, Error, Event, Phase};
use serde_json::json;
use tokio::time::timeout;

use super::cluster::{NAMESPACE, assert_clean, assert_nothing_left, cluster, config, deployer, standing, workers};
use crate::support::wait::{PATIENCE, until};

#[tokio::test]
async fn a_run_gives_the_agents_bytes_and_leaves_nothing() {
    let cluster = cluster().await;
    let workers = workers(&cluster).await;
    let deployer = deployer(&cluster, "logs-3_big-64KiB");
    deployer.deploy().await.unwrap();
    deployer.wait_for_completion(PATIENCE).await.unwrap();
    let document = deployer.get_snapshot().await.unwrap();
    assert_eq!(Some(document), workers.document(NAMESPACE, deployer.job_name()).map(String::into_bytes));
    assert_eq!(standing(&cluster.client()).await.len(), 7);
    assert_nothing_left(&deployer.cleanup().await, "after a run");
    assert_clean(&cluster, "after a run").await;
}

#[tokio::test]
async fn a_run_works_with_rbac_enforced_and_its_agent_has_no_more_rights_than_r9_gives() {
    let cluster = cluster().await;
    cluster.enforce_rbac(true);
    let _workers = workers(&cluster).await;
    let deployer = deployer(&cluster, "success");
    deployer.deploy().await.unwrap();
    deployer.wait_for_completion(PATIENCE).await.unwrap();
    let agent = User::service_account(NAMESPACE, deployer.job_name());
    let own = cluster.requests().into_iter().filter(|request| request.user.name == agent.name);
    let verbs: BTreeMap<String, Verb> = own.filter_map(|r| Some((r.resource.clone(), r.verb?))).collect();
    assert_eq!(verbs.get("configmaps"), Some(&Verb::Patch));
    let secrets = Api::<ConfigMap>::all(cluster.client_as(&agent)).list(&ListParams::default()).await;
    assert!(matches!(secrets, Err(kube::Error::Api(status)) if status.code == 403));
    assert_nothing_left(&deployer.cleanup().await, "after a run");
}

#[tokio::test]
async fn a_failing_agent_fails_the_run_with_its_last_lines() {
    let cluster = cluster().await;
    let _workers = workers(&cluster).await;
    let deployer = deployer(&cluster, "logs-2_fail-3");
    deployer.deploy().await.unwrap();
    let failed = deployer.wait_for_completion(PATIENCE).await.unwrap_err();
    assert!(matches!(&failed, Error::JobFailed { reason, .. } if reason.contains("exit code 3")), "{failed}");
    assert_nothing_left(&deployer.cleanup().await, "after a failed run");
    assert_clean(&cluster, "after a failed run").await;
}

#[tokio::test]
async fn r45_a_run_goes_to_another_thread_and_its_events_come_as_a_stream() {
    let cluster = cluster().await;
    let _workers = workers(&cluster).await;
    let (deployer, mut events) = Deployer::observed(cluster.client(), config("logs-1")).unwrap();
    let run = tokio::spawn(async move {
        deployer.deploy().await?;
        deployer.wait_for_completion(PATIENCE).await?;
        let snapshot = deployer.get_snapshot().await?;
        Ok::<_, Error>((snapshot, deployer.cleanup().await))
    });
    let (mut phases, mut created, mut log) = (Vec::new(), 0, Vec::new());
    while let Some(event) = events.recv().await {
        match event {
            Event::Phase(phase) => phases.push(phase),
            Event::Created { .. } => created += 1,
            Event::Log(line) => log.push(line.text.clone()),
            _ => {}
        }
    }
    let (snapshot, removals) = run.await.unwrap().unwrap();
    assert!(snapshot.starts_with(b"kind: Snapshot"));
    assert_nothing_left(&removals, "after a run");
    assert_eq!(phases, [Phase::Preflight, Phase::Deploy, Phase::Wait, Phase::Fetch, Phase::Cleanup]);
    assert_eq!(created, 6);
    assert!(log.contains(&"line 1 of 1".to_owned()), "{log:?}");
}

#[tokio::test]
async fn r45_a_wait_has_a_bound_of_its_own_and_may_be_dropped_and_begun_anew() {
    let cluster = cluster().await;
    let _workers = workers(&cluster).await;
    let deployer = deployer(&cluster, "slow-1s");
    deployer.deploy().await.unwrap();
    let short = Duration::from_millis(50);
    let ended = deployer.wait_for_completion(short).await.unwrap_err();
    assert!(matches!(&ended, Error::TimedOut { after, .. } if *after == short), "{ended}");
    assert!(timeout(short, deployer.wait_for_completion(PATIENCE)).await.is_err());
    deployer.wait_for_completion(Duration::MAX).await.unwrap();
    assert!(!deployer.get_snapshot().await.unwrap().is_empty());
    assert_nothing_left(&deployer.cleanup().await, "after a run");
    assert_clean(&cluster, "after a run").await;
}

#[tokio::test]
async fn a_pod_that_no_node_takes_says_why_and_runs_when_a_node_comes() {
    let cluster = cluster().await;
    let workers = workers(&cluster).await;
    let wanted = config("success").node_selector([("pool", "gpu")]);
    let deployer = Deployer::new(cluster.client(), wanted).unwrap();
    deployer.deploy().await.unwrap();
    let events = Api::<ClusterEvent>::namespaced(cluster.client(), NAMESPACE);
    let unschedulable = ListParams::default().fields("reason=FailedScheduling");
    let event =
        until("the scheduler to say why", async || events.list(&unschedulable).await.unwrap().items.pop()).await;
    let message = event.message.unwrap();
    assert_eq!(message, "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.");
    let gpu = NodeSpec::new("gpu-1").label("pool", "gpu").taint("nvidia.com/gpu", "present", "NoSchedule");
    workers.add_node(&gpu).await.unwrap();
    deployer.wait_for_completion(PATIENCE).await.unwrap();
    assert_nothing_left(&deployer.cleanup().await, "after a run");
}

#[tokio::test]
async fn a_refused_pod_is_an_event_of_its_job_and_is_tried_again() {
    let cluster = cluster().await;
    let _workers = workers(&cluster).await;
    let why = "pods \"x\" is forbidden: exceeded quota: small";
    let refused =
        cluster.before(|request| request.is(Verb::Create, "pods"), Fault::fail(403, "Forbidden", why)).times(1);
    let deployer = deployer(&cluster, "success");
    deployer.deploy().await.unwrap();
    deployer.wait_for_completion(PATIENCE).await.unwrap();
    assert_eq!(refused.hits(), 1);
    let events = Api::<ClusterEvent>::namespaced(cluster.client(), NAMESPACE);
    let failed = events.list(&ListParams::default().fields("reason=FailedCreate")).await.unwrap();
    assert_eq!(failed.items[0].message.as_deref(), Some(&*format!("Error creating: {why}")));
    assert_nothing_left(&deployer.cleanup().await, "after a run");
}

/// A Job of the tests' own.
async fn job(cluster: &Cluster, spec: serde_json::Value, script: &str) -> Api<Job> {
    let mut job = json!({
        "metadata": { "name": "job" },
        "spec": { "backoffLimit": 0, "template": { "spec": {
            "restartPolicy": "Never",
            "containers": [{ "name": "c", "image": format!("registry.test/any:{script}") }],
        } } },
    });
    for (field, value) in spec.as_object().unwrap() {
        job["spec"][field] = value.clone();
    }
    let jobs = Api::<Job>::namespaced(cluster.client(), NAMESPACE);
    jobs.create(&PostParams::default(), &serde_json::from_value(job).unwrap()).await.unwrap();
    jobs
}

async fn end(jobs: &Api<Job>) -> (String, String) {
    until("the Job to end", async || {
        let conditions = jobs.get("job").await.unwrap().status?.conditions?;
        let end = conditions.into_iter().find(|c| ["Complete", "Failed"].contains(&&*c.type_))?;
        Some((end.type_, end.reason?))
    })
    .await
}

#[tokio::test]
async fn a_job_ends_as_its_pods_do_and_within_its_limits() {
    for (spec, script, wanted) in [
        (json!({}), "no-write", ("Complete", "CompletionsReached")),
        (json!({ "completions": 3, "parallelism": 2 }), "no-write", ("Complete", "CompletionsReached")),
        (json!({}), "fail", ("Failed", "BackoffLimitExceeded")),
        (json!({ "backoffLimit": 2 }), "fail", ("Failed", "BackoffLimitExceeded")),
        (json!({ "activeDeadlineSeconds": 1 }), "hang", ("Failed", "DeadlineExceeded")),
    ] {
        let cluster = cluster().await;
        let _workers = workers(&cluster).await;
        let jobs = job(&cluster, spec.clone(), script).await;
        let (kind, reason) = end(&jobs).await;
        assert_eq!((kind.as_str(), reason.as_str()), wanted, "{spec} {script}");
        let status = jobs.get("job").await.unwrap().status.unwrap();
        let pods = Api::<Pod>::namespaced(cluster.client(), NAMESPACE).list(&ListParams::default()).await.unwrap();
        let limit = spec["backoffLimit"].as_i64().unwrap_or_default();
        let (succeeded, failed) = (status.succeeded.unwrap_or_default(), status.failed.unwrap_or_default());
        let counts = (i64::from(succeeded), i64::from(failed));
        let completions = spec["completions"].as_i64().unwrap_or(1);
        assert_eq!(counts, if kind == "Complete" { (completions, 0) } else { (0, limit + 1) }, "{spec} {script}");
        assert!(pods.iter().all(|pod| pod.finalizers().is_empty()), "{spec} {script}");
    }
}

#[tokio::test]
async fn a_suspended_job_makes_no_pods_until_it_is_resumed() {
    let cluster = cluster().await;
    let _workers = workers(&cluster).await;
    let jobs = job(&cluster, json!({ "suspend": true }), "no-write").await;
    until("the Job to be suspended", async || {
        let conditions = jobs.get("job").await.unwrap().status?.conditions?;
        conditions.iter().any(|c| c.type_ == "Suspended" && c.status == "True").then_some(())
    })
    .await;
    let pods = Api::<Pod>::namespaced(cluster.client(), NAMESPACE);
    assert!(pods.list(&ListParams::default()).await.unwrap().items.is_empty());
    let resume = kube::api::Patch::Merge(json!({ "spec": { "suspend": false } }));
    jobs.patch("job", &kube::api::PatchParams::default(), &resume).await.unwrap();
    assert_eq!(end(&jobs).await.0, "Complete");
}

#[tokio::test]
async fn a_running_pod_has_its_grace_period_before_its_job_goes() {
    let cluster = cluster().await;
    let _workers = workers(&cluster).await;
    let jobs = job(&cluster, json!({}), "hang").await;
    let pods = Api::<Pod>::namespaced(cluster.client(), NAMESPACE);
    let pod = until("the pod to run", async || {
        let pod = pods.list(&ListParams::default()).await.unwrap().items.pop()?;
        (pod.status.as_ref()?.phase.as_deref() == Some("Running")).then_some(pod.name_any())
    })
    .await;
    assert!(pods.logs(&pod, &LogParams::default()).await.unwrap().starts_with("collecting"));
    let answer = jobs.delete("job", &DeleteParams::foreground()).await.unwrap();
    assert!(answer.left().expect("the Job still stands").metadata.deletion_timestamp.is_some());
    until("the pod to go", async || pods.get_opt(&pod).await.unwrap().is_none().then_some(())).await;
    until("the Job to go", async || jobs.get_opt("job").await.unwrap().is_none().then_some(())).await;
}
