//! The in-memory cluster on its port, for the real kubectl and the real binary.

use kubectl_aicr::fake::{Cluster, Server};

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

const MAP: &str = "
apiVersion: v1
kind: ConfigMap
metadata: { name: settings, labels: { app: x } }
data: { a: '1', b: '2' }
";

#[tokio::test]
async fn kubectl_gets_describes_and_deletes_every_kind() {
    let served = Served::new().await;
    served.home.write("map.yaml", MAP);
    served.kubectl("create -f map.yaml").run().await.code(0).stdout_is("configmap/settings created\n");
    served.kubectl("create serviceaccount sa").run().await.code(0);
    served.kubectl("create role r --verb=get --resource=pods").run().await.code(0);
    let binding = format!("create rolebinding rb --role=r --serviceaccount={NAMESPACE}:sa");
    served.kubectl(&binding).run().await.code(0);
    served.kubectl("create clusterrole cr --verb=list --resource=nodes").run().await.code(0);
    served.kubectl("create clusterrolebinding crb --clusterrole=cr --user=u").run().await.code(0);
    served.kubectl("create job j --image=registry.test/any:success").run().await.code(0);
    served.kubectl("create secret generic s --from-literal=k=v").run().await.code(0);
    served.kubectl("create namespace other").run().await.code(0);
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
    served.kubectl("auth can-i create jobs").run().await.code(0).stdout_is("yes\n");
    served.kubectl("auth can-i create jobs --as=nobody").run().await.code(1).stdout_is("no\n");
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
    served.kubectl("create job j --image=registry.test/any:logs-3_no-write").run().await.code(0);
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
