//! The in-memory cluster on its port, for the real kubectl and the real binary.

use bytes::Bytes;
use http::{Request, StatusCode, Version};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use kubectl_aicr::fake::{self, Cluster, Fault, Server, Verb};
use serde_json::Value;

use super::cluster::{NAMESPACE, assert_clean, cluster, workers};
use crate::support::cli::{Home, Invocation};

/// A served cluster, and a home whose kubectl talks to it.
struct Served {
    cluster: Cluster,
    home: Home,
    _server: Server,
}

impl Served {
    async fn new() -> Self {
        let cluster = cluster().await;
        let server = cluster.serve(0).await.unwrap();
        let home = Home::new().kubeconfig(&server.kubeconfig(NAMESPACE));
        Self { cluster, home, _server: server }
    }

    fn kubectl(&self, line: &str) -> Invocation {
        self.home.program("kubectl", line.split(' '))
    }
}

/// One object of each kind that a user makes.
const ALL: &str = "
{ apiVersion: v1, kind: ConfigMap, metadata: { name: settings }, data: { a: '1' } }
---
{ apiVersion: v1, kind: ServiceAccount, metadata: { name: sa } }
---
{ apiVersion: v1, kind: Secret, metadata: { name: s }, stringData: { k: v } }
---
{ apiVersion: v1, kind: Namespace, metadata: { name: other } }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: { name: r }
rules: [{ apiGroups: [''], resources: [pods], verbs: [get] }]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: { name: rb }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: Role, name: r }
subjects: [{ kind: ServiceAccount, name: sa, namespace: gpu-operator }]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: { name: cr }
rules: [{ apiGroups: [''], resources: [nodes], verbs: [list] }]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: { name: crb }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cr }
subjects: [{ apiGroup: rbac.authorization.k8s.io, kind: User, name: u }]
---
apiVersion: batch/v1
kind: Job
metadata: { name: j }
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{ name: c, image: registry.test/any:success }]
---
{ apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: { name: nvidia }, handler: nvidia }
";

const JOB: &str = "
apiVersion: batch/v1
kind: Job
metadata: { name: j }
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{ name: j, image: registry.test/any:logs-3_no-write }]
";

const MAP: &str = "
apiVersion: v1
kind: ConfigMap
metadata: { name: settings, labels: { app: x } }
data: { a: '1', b: '2' }
";

#[tokio::test]
async fn kubectl_gets_describes_and_deletes_every_kind() {
    let served = Served::new().await;
    served.home.write("all.yaml", ALL);
    served.kubectl("create -f all.yaml").run().await.code(0).stdout_has("configmap/settings created\n");
    for (kind, name) in [
        ("configmap", "settings"),
        ("sa", "sa"),
        ("role", "r"),
        ("rolebinding", "rb"),
        ("clusterrole", "cr"),
        ("clusterrolebinding", "crb"),
        ("job", "j"),
        ("secret", "s"),
        ("ns", "other"),
        ("runtimeclass", "nvidia"),
    ] {
        let get = served.kubectl(&format!("get {kind}")).run().await;
        get.code(0).stdout_has("NAME").stdout_has(name);
        served.kubectl(&format!("get {kind} {name} -o wide")).run().await.code(0).stdout_has(name);
        served.kubectl(&format!("get {kind} {name} -o yaml")).run().await.code(0).stdout_has("resourceVersion");
        served.kubectl(&format!("describe {kind} {name}")).run().await.code(0).stdout_has(name);
        served.kubectl(&format!("delete {kind} {name}")).run().await.code(0).stdout_has("deleted");
        served.kubectl(&format!("get {kind} {name}")).run().await.code(1).stderr_has("(NotFound)");
    }
    served.kubectl("get pods").run().await.code(0).stderr_has("No resources found");
    served.kubectl("get gadgets").run().await.code(1).stderr_has("the server doesn't have a resource type \"gadgets\"");
    served.kubectl("api-resources").run().await.code(0).stdout_has("rolebindings").stdout_has("batch/v1");
    served.kubectl("version").run().await.code(0).stdout_has("Server Version: v1.36");
}

#[tokio::test]
async fn kubectl_applies_on_either_side_and_sees_what_would_change() {
    let served = Served::new().await;
    let apply = "apply -f map.yaml";
    served.home.write("map.yaml", MAP);
    served.kubectl(apply).run().await.code(0).stdout_is("configmap/settings created\n");
    served.kubectl(apply).run().await.code(0).stdout_is("configmap/settings unchanged\n");
    served.home.write("map.yaml", &MAP.replace("b: '2'", "c: '3'"));
    served.kubectl("diff -f map.yaml").run().await.code(1).stdout_has("-  b: \"2\"").stdout_has("+  c: \"3\"");
    served.kubectl(apply).run().await.code(0).stdout_is("configmap/settings configured\n");
    let data = served.kubectl("get cm settings -o jsonpath={.data}").run().await;
    data.code(0).stdout_is("{\"a\":\"1\",\"c\":\"3\"}");
    served.home.write("map.yaml", &MAP.replace("a: '1'", "a: '9'"));
    let server_side = "apply --server-side -f map.yaml";
    served.kubectl(server_side).run().await.code(1).stderr_has("conflict");
    let forced = served.kubectl(&format!("{server_side} --force-conflicts")).run().await;
    forced.code(0).stdout_has("serverside-applied");
    served.home.write("typo.yaml", &MAP.replace("\ndata:", "\ndta:"));
    served.kubectl("apply -f typo.yaml").run().await.code(1).stderr_has("unknown field \"dta\"");
    served.kubectl("label cm settings new=label").run().await.code(0);
    served.kubectl("annotate cm settings note=x").run().await.code(0);
    served.kubectl("patch cm settings -p {\"data\":{\"p\":\"q\"}}").run().await.code(0);
    served.kubectl("get cm -l new=label -o name").run().await.code(0).stdout_is("configmap/settings\n");
    served.kubectl("delete -f map.yaml").run().await.code(0);
}

#[tokio::test]
async fn kubectl_follows_a_job_its_log_and_its_events() {
    let served = Served::new().await;
    let _workers = workers(&served.cluster).await;
    let watch = served.kubectl("get jobs -w --output-watch-events").spawn();
    served.home.write("job.yaml", JOB);
    served.kubectl("apply -f job.yaml").run().await.code(0);
    served.kubectl("wait job/j --for=condition=complete --timeout=60s").run().await.code(0);
    served.kubectl("logs job/j").run().await.code(0).stdout_has("line 3 of 3\n");
    served.kubectl("logs job/j -f --tail=1 --timestamps").run().await.code(0).stdout_has("Z line 3 of 3\n");
    served.kubectl("get pods").run().await.code(0).stdout_has("Completed");
    served.kubectl("describe job j").run().await.code(0).stdout_has("SuccessfulCreate").stdout_has("1 Succeeded");
    served.kubectl("events").run().await.code(0).stdout_has("Started container j");
    served.kubectl("delete job j --cascade=foreground").run().await.code(0);
    served.kubectl("get pods").run().await.code(0).stderr_has("No resources found");
    watch.signal(rustix::process::Signal::TERM);
    let watched = watch.wait().await;
    watched.stdout_has("ADDED").stdout_has("Complete").stdout_has("DELETED");
}

#[tokio::test]
async fn the_real_binary_runs_against_it_and_leaves_nothing() {
    let served = Served::new().await;
    let _workers = workers(&served.cluster).await;
    let ran = served.home.aicr(["snapshot", "-o", "out.yaml"]).run().await;
    ran.code(0).stderr_has("agent | ");
    assert!(served.home.read("out.yaml").starts_with("kind: Snapshot"));
    assert_clean(&served.cluster, "after a run").await;
    served.home.aicr(["orphans"]).run().await.code(0);
}

/// The answers to two requests over one connection, whose protocol is known beforehand.
async fn ask(http2: bool, url: &str, token: Option<&str>) -> Vec<(StatusCode, Value)> {
    let client = legacy::Client::builder(TokioExecutor::new()).http2_only(http2).build_http::<Full<Bytes>>();
    let mut answers = Vec::new();
    for path in ["/version", "/api/v1/namespaces/gpu-operator"] {
        let mut request = Request::get(format!("{url}{path}"));
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let answer = client.request(request.body(Full::default()).unwrap()).await.unwrap();
        let status = answer.status();
        assert_eq!(answer.version(), if http2 { Version::HTTP_2 } else { Version::HTTP_11 });
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        answers.push((status, serde_json::from_slice(&body).unwrap()));
    }
    answers
}

#[tokio::test]
async fn the_port_speaks_either_http_and_knows_tokens() {
    let cluster = cluster().await;
    cluster.enforce_rbac(true);
    let server = cluster.serve(0).await.unwrap();
    for http2 in [false, true] {
        let answers = ask(http2, &server.url(), None).await;
        assert_eq!(answers[0].1["minor"], "36");
        assert_eq!(answers[1].1["metadata"]["name"], NAMESPACE);
        let unknown = ask(http2, &server.url(), Some("nobody's")).await;
        assert!(unknown.iter().all(|(status, _)| *status == StatusCode::UNAUTHORIZED));
        let accounts = Api::<ServiceAccount>::namespaced(cluster.client(), NAMESPACE);
        let request = TokenRequest::default();
        let token: TokenRequest =
            accounts.create_subresource("token", "default", &PostParams::default(), &request).await.unwrap();
        let token = token.status.unwrap().token.unwrap();
        let weak = ask(http2, &server.url(), Some(&token)).await;
        assert_eq!(weak[0].0, StatusCode::OK);
        let (status, body) = &weak[1];
        assert_eq!(*status, StatusCode::FORBIDDEN);
        let user = format!("User \"system:serviceaccount:{NAMESPACE}:default\" cannot get");
        assert!(body["message"].as_str().unwrap().contains(&user), "{body}");
    }
}

#[tokio::test]
async fn a_dropped_answer_breaks_the_connection_and_the_binary_finds_out_what_was_done() {
    let served = Served::new().await;
    let _workers = workers(&served.cluster).await;
    let create =
        |request: &fake::Request| request.is(Verb::Create, "clusterroles") && request.query.contains("timeout");
    let lost = served.cluster.after(move |request| create(request) && !request.query.contains("dryRun"), Fault::Drop);
    served.home.aicr(["snapshot"]).run().await.code(6).stderr_has("cannot create ClusterRole");
    assert_eq!(lost.hits(), 1);
    assert_clean(&served.cluster, "after a lost answer").await;
}
