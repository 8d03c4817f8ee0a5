//! The test bed itself.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Event, Pod, ServiceAccount},
    rbac::v1::{ClusterRole, PolicyRule},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, LogParams, PostParams},
};
use serde_json::json;

use crate::support::{
    bed::{Bed, NODE},
    cli::{output_of, spawning},
    namespace::TestNamespace,
    node::NodeSpec,
    wait::until,
};

/// What a test does with one namespace.
struct Case {
    bed: &'static Bed,
    namespace: TestNamespace,
    client: Client,
}

impl Case {
    async fn new(prefix: &str) -> Self {
        let bed = Bed::shared().await;
        Self { bed, namespace: bed.namespace(prefix).await, client: bed.admin_client().await }
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace.name)
    }

    /// Creates the agent's Job with a script's image, running as an account with `rules`.
    async fn run(&self, script: &str, rules: &[PolicyRule]) {
        let namespace = &self.namespace.name;
        let account = format!("system:serviceaccount:{namespace}:default");
        self.bed.grant(&self.bed.user(&account, &[]), None, rules).await;
        self.api::<Job>().create(&PostParams::default(), &job(namespace, script)).await.unwrap();
    }

    /// Waits for the Job's end and gives the condition that says it.
    async fn end(&self) -> (String, String) {
        until("the job to end", async || {
            let conditions = self.api::<Job>().get("agent").await.unwrap().status?.conditions?;
            let end =
                conditions.into_iter().find(|c| c.status == "True" && ["Complete", "Failed"].contains(&&*c.type_))?;
            Some((end.type_, end.reason.unwrap_or_default()))
        })
        .await
    }

    async fn pod(&self) -> Pod {
        until("the pod", async || self.api::<Pod>().list(&ListParams::default()).await.unwrap().items.pop()).await
    }

    /// Waits for the reason for which the container does not run, and gives its message.
    async fn waits_for(&self, reason: &str) -> String {
        until(reason, async || {
            let status = self.pod().await.status?.container_statuses?.pop()?;
            let waiting = status.state?.waiting.filter(|waiting| waiting.reason.as_deref() == Some(reason))?;
            Some(waiting.message.unwrap_or_default())
        })
        .await
    }

    async fn log(&self, params: &LogParams) -> String {
        let pod = self.pod().await;
        self.api::<Pod>().logs(&pod.name_any(), params).await.unwrap()
    }

    async fn event(&self, reason: &str) -> String {
        let events = self.api::<Event>();
        let params = ListParams::default().fields(&format!("reason={reason}"));
        until(reason, async || events.list(&params).await.unwrap().items.pop()?.message).await
    }
}

fn job(namespace: &str, script: &str) -> Job {
    let job = json!({
        "metadata": { "name": "agent" },
        "spec": {
            "backoffLimit": 0,
            "template": { "spec": {
                "restartPolicy": "Never",
                "hostNetwork": true,
                "containers": [{
                    "name": "aicr",
                    "image": format!("registry.test/aicr:{script}"),
                    "command": ["aicr"],
                    "args": ["snapshot", "-o", format!("cm://{namespace}/snapshot")],
                    "env": [
                        { "name": "AICR_AGENT_MODE", "value": "true" },
                        { "name": "AICR_LOG_PREFIX", "value": "agent" },
                        { "name": "NODE_NAME", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } },
                    ],
                    "securityContext": { "privileged": true },
                }],
            }},
        },
    });
    serde_json::from_value(job).unwrap()
}

fn everything() -> Vec<PolicyRule> {
    vec![rule("*", "*", "*")]
}

fn rule(group: &str, resource: &str, verb: &str) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: vec![verb.to_owned()],
        ..PolicyRule::default()
    }
}

#[tokio::test]
async fn the_control_plane_says_which_kubernetes_it_is() {
    let client = Bed::shared().await.admin_client().await;
    let version = client.apiserver_version().await.unwrap();
    assert!(version.git_version.starts_with("v1."), "{}", version.git_version);
    assert_eq!(version.major, "1");
}

#[tokio::test]
async fn a_successful_agent_completes_its_job_and_leaves_its_document_and_log() {
    let case = Case::new("bed").await;
    case.run("success", &everything()).await;
    assert_eq!(case.end().await.0, "Complete");

    let config_map = case.api::<ConfigMap>().get("snapshot").await.unwrap();
    let written = &config_map.data.as_ref().unwrap()["snapshot.yaml"];
    assert_eq!(Some(written), case.bed.document(&case.namespace.name, "agent").as_ref());
    assert!((14_000..15_360).contains(&written.len()), "{}", written.len());
    assert_eq!(config_map.labels()["app.kubernetes.io/component"], "snapshot");
    assert_eq!(config_map.managed_fields()[0].manager.as_deref(), Some("aicr"));
    serde_saphyr::from_str::<serde_json::Value>(written).expect("the document is YAML");

    let log = case.log(&LogParams::default()).await;
    assert!(log.ends_with(&format!("snapshot written to cm://{}/snapshot\n", case.namespace.name)), "{log}");
    assert_eq!(case.pod().await.spec.unwrap().node_name.as_deref(), Some(NODE));
}

#[tokio::test]
async fn a_failing_agent_fails_its_job_and_writes_nothing() {
    let case = Case::new("bed").await;
    case.run("logs-5_fail-3", &everything()).await;
    assert_eq!(case.end().await, ("Failed".into(), "BackoffLimitExceeded".into()));
    assert!(case.api::<ConfigMap>().get_opt("snapshot").await.unwrap().is_none());

    let tail = case.log(&LogParams { tail_lines: Some(2), ..LogParams::default() }).await;
    assert_eq!(tail, "line 5 of 5\nerror: collector failed, exit code 3\n");
    let status = case.pod().await.status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Failed"));
    let container = &status.container_statuses.unwrap()[0];
    assert_eq!(container.state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 3);
}

#[tokio::test]
async fn an_agent_without_a_right_of_r9_fails_and_says_which() {
    let case = Case::new("bed").await;
    case.run("success", &[rule("", "nodes", "get")]).await;
    assert_eq!(case.end().await.0, "Failed");
    let log = case.log(&LogParams::default()).await;
    assert!(log.contains("nodes is forbidden"), "{log}");
}

#[tokio::test]
async fn a_log_is_followed_to_its_end_and_taken_up_by_time() {
    let case = Case::new("bed").await;
    case.run("drip-3-1s_no-write", &[]).await;
    until("the container to run", async || {
        let status = case.pod().await.status?.container_statuses?.pop()?;
        status.state?.running
    })
    .await;
    let follow = case.log(&LogParams { follow: true, timestamps: true, ..LogParams::default() }).await;
    let (first, last) = (follow.lines().next().unwrap(), follow.lines().last().unwrap());
    assert!(first.ends_with(" collecting the configuration of the node"), "{follow}");
    let (time, text) = last.split_once(' ').unwrap();
    assert_eq!(text, "line 3 of 3");
    // The API has whole seconds, and the client library would round up.
    let second = format!("{}Z", time.split_once('.').unwrap().0);
    let since = LogParams { since_time: Some(second.parse().unwrap()), ..LogParams::default() };
    assert_eq!(case.log(&since).await, "line 3 of 3\n");
}

#[tokio::test]
async fn an_image_that_is_not_there_is_told_as_a_kubelet_tells_it() {
    let case = Case::new("bed").await;
    case.run("image-pull-backoff", &[]).await;
    let message = case.waits_for("ImagePullBackOff").await;
    assert!(message.starts_with("Back-off pulling image \"registry.test/aicr:image-pull-backoff\""), "{message}");
    let pod = case.pod().await.name_any();
    let refused = case.api::<Pod>().logs(&pod, &LogParams::default()).await.unwrap_err();
    assert!(refused.to_string().contains("is waiting to start: trying and failing to pull image"), "{refused}");
    assert!(case.event("Failed").await.contains("rror"));
}

#[tokio::test]
async fn an_unknown_script_does_not_pass_for_another() {
    let case = Case::new("bed").await;
    case.run("sucess", &[]).await;
    assert!(case.waits_for("ErrImagePull").await.contains("no script has the word \"sucess\""));
}

#[tokio::test]
async fn a_pod_that_is_told_to_stop_may_still_write_in_its_grace_period() {
    let case = Case::new("bed").await;
    case.run("write-late-1s", &everything()).await;
    until("the container to run", async || case.pod().await.status?.container_statuses?.pop()?.state?.running).await;
    case.api::<Job>().delete("agent", &DeleteParams::foreground()).await.unwrap();
    let config_maps = case.api::<ConfigMap>();
    until("the late write", async || config_maps.get_opt("snapshot").await.unwrap()).await;
    until("the job to go", async || case.api::<Job>().get_opt("agent").await.unwrap().is_none().then_some(())).await;
    assert!(case.api::<Pod>().list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_pod_that_ignores_sigterm_is_killed_when_its_grace_period_is_over() {
    let case = Case::new("bed").await;
    case.run("ignore-term", &[]).await;
    let pod = case.pod().await;
    until("the container to run", async || case.pod().await.status?.container_statuses?.pop()?.state?.running).await;
    case.api::<Pod>().delete(&pod.name_any(), &DeleteParams::default().grace_period(1)).await.unwrap();
    assert_eq!(case.end().await.0, "Failed");
    until("the pod to go", async || case.api::<Pod>().get_opt(&pod.name_any()).await.unwrap().is_none().then_some(()))
        .await;
}

#[tokio::test]
async fn killed_evicted_and_unstartable_containers_say_why() {
    for (script, reason, code) in
        [("oom", "OOMKilled", 137), ("evicted", "Error", 137), ("start-error", "StartError", 128)]
    {
        let case = Case::new("bed").await;
        case.run(script, &[]).await;
        assert_eq!(case.end().await.0, "Failed", "{script}");
        let status = case.pod().await.status.unwrap();
        let ended = status.container_statuses.unwrap()[0].state.clone().unwrap().terminated.unwrap();
        assert_eq!((ended.reason.as_deref(), ended.exit_code), (Some(reason), code), "{script}");
        let evicted = (script == "evicted").then_some("Evicted");
        assert_eq!(status.reason.as_deref(), evicted, "{script}");
    }
}

#[tokio::test]
async fn users_have_the_rights_that_they_were_granted_and_no_others() {
    let bed = Bed::shared().await;
    let namespace = bed.namespace("bed").await;
    let holder = bed.user_with_certificate("holder", None);
    bed.grant(&holder, Some(&namespace.name), &[rule("", "pods", "list")]).await;
    let stranger = bed.user("stranger", &["visitors"]);
    let list = ListParams::default();

    let pods = Api::<Pod>::namespaced(bed.client(&holder).await, &namespace.name);
    assert!(pods.list(&list).await.unwrap().items.is_empty());
    let pods = Api::<Pod>::namespaced(bed.client(&stranger).await, &namespace.name);
    assert!(pods.list(&list).await.unwrap_err().to_string().contains("User \"stranger\" cannot list"));

    let members = bed.user("anybody", &["visitors", "system:masters"]);
    Api::<ClusterRole>::all(bed.client(&members).await).list(&list).await.unwrap();
}

#[tokio::test]
async fn a_revoked_token_and_a_service_accounts_token_are_told_apart() {
    let bed = Bed::shared().await;
    let namespace = bed.namespace("bed").await.name;
    let token = bed.token_for(&namespace, "default").await;
    let user = crate::support::kubeconfig::User::with_token("default", &token);
    let accounts = Api::<ServiceAccount>::namespaced(bed.client(&user).await, &namespace);
    let forbidden = accounts.get("default").await.unwrap_err();
    assert!(forbidden.to_string().contains(&format!("system:serviceaccount:{namespace}:default")), "{forbidden}");

    let user = bed.user("somebody", &[]);
    bed.revoke(&user);
    let accounts = Api::<ServiceAccount>::namespaced(bed.client(&user).await, &namespace);
    assert!(matches!(accounts.get("default").await, Err(kube::Error::Api(status)) if status.code == 401));
}

#[tokio::test]
async fn a_private_bed_survives_an_outage_of_its_api_server_and_takes_more_nodes() {
    let bed = Bed::private().await;
    let client = bed.admin_client().await;
    let namespace = bed.namespace("bed").await.name;
    let account = format!("system:serviceaccount:{namespace}:default");
    bed.grant(&bed.user(&account, &[]), None, &everything()).await;
    let jobs = Api::<Job>::namespaced(client.clone(), &namespace);
    jobs.create(&PostParams::default(), &job(&namespace, "slow-1s")).await.unwrap();
    until("the agent to read", async || {
        let pods = Api::<Pod>::namespaced(client.clone(), &namespace).list(&ListParams::default()).await.unwrap();
        pods.items.first()?.status.clone()?.container_statuses?.pop()?.state?.running
    })
    .await;
    bed.stop_apiserver();
    assert!(client.apiserver_version().await.is_err());
    tokio::time::sleep(Duration::from_secs(2)).await;
    bed.start_apiserver().await;
    until("the job to complete", async || jobs.get("agent").await.unwrap().status?.completion_time).await;

    let spec = NodeSpec::new("gpu-1").label("nvidia.com/gpu.present", "true").taint("nvidia.com/gpu", "", "NoSchedule");
    bed.add_node(&spec).await;
    let pod = json!({
        "metadata": { "name": "on-a-gpu" },
        "spec": {
            "nodeSelector": { "nvidia.com/gpu.present": "true" },
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{ "name": "any", "image": "registry.test/any:no-write" }],
            "restartPolicy": "Never",
        },
    });
    let pods = Api::<Pod>::namespaced(client, &namespace);
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    until("the pod to succeed", async || {
        let pod = pods.get("on-a-gpu").await.ok()?;
        (pod.status?.phase? == "Succeeded" && pod.spec?.node_name? == "gpu-1").then_some(())
    })
    .await;
}

/// Tells a child process of the test below what it is.
const HOLDS_A_BED: &str = "KUBECTL_AICR_TEST_HOLDS_A_BED";

#[tokio::test]
async fn nothing_outlives_a_killed_test_process() {
    if std::env::var_os(HOLDS_A_BED).is_some() {
        let bed = Bed::private().await;
        println!("bed={}", bed.dir().display());
        return std::future::pending().await;
    }
    let mut child = {
        let _spawning = spawning();
        Command::new(std::env::current_exe().unwrap())
            .args(["bed::nothing_outlives_a_killed_test_process", "--exact", "--nocapture"])
            .env(HOLDS_A_BED, "")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let dir = lines.find_map(|line| Some(line.split_once("bed=")?.1.to_owned())).unwrap();
    let processes = || {
        let listing = output_of(Command::new("ps").args(["-A", "-o", "args"])).unwrap();
        String::from_utf8_lossy(&listing.stdout).lines().filter(|line| line.contains(&dir)).count()
    };
    assert!(processes() >= 4, "the control plane does not run");
    child.kill().unwrap();
    child.wait().unwrap();
    until("everything to go", async || (processes() == 0 && !Path::new(&dir).exists()).then_some(())).await;
}
