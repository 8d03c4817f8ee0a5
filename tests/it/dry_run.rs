//! `snapshot --dry-run`: what would be created, without creating it (R40).

use serde_json::Value;

use crate::support::{
    bed::Bed,
    cli::{Home, Outcome},
    proxy::Proxy,
    scene::Scene,
};

fn kinds(ran: &Outcome) -> Vec<String> {
    let kind = |document: &str| document.lines().find_map(|line| line.strip_prefix("kind: ")).unwrap().to_owned();
    ran.stdout().split("---\n").map(kind).collect()
}

const ALL: [&str; 6] = ["ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "Job"];

#[tokio::test]
async fn r40_a_client_dry_run_sends_nothing_and_prints_every_object() {
    let proxy = Proxy::before(Bed::shared().await).start().await;
    let scene = Scene::behind("dry-client", &proxy).await;
    for flag in ["--dry-run", "--dry-run=client"] {
        let ran = scene.snapshot("success").arg(flag).run().await;
        assert_eq!(kinds(ran.code(0)), ALL);
        ran.stdout_has(&format!("namespace: {}", scene.namespace.name)).stdout_has(&scene.run_id);
    }
    assert_eq!(proxy.transcript(), "");
    // Not even a cluster is needed.
    let nowhere = Home::new().aicr(["snapshot", "--dry-run", "-n", "gpu", "--format", "json"]).run().await;
    let list: Value = nowhere.code(0).stdout_json();
    assert_eq!((&list["kind"], list["items"].as_array().unwrap().len()), (&Value::from("List"), 6));
}

#[tokio::test]
async fn r40_a_server_dry_run_has_everything_checked_and_writes_nothing() {
    let proxy = Proxy::before(Bed::shared().await).start().await;
    let scene = Scene::behind("dry-server", &proxy).await;
    let ran = scene.snapshot("success").arg("--dry-run=server").run().await;
    assert_eq!(kinds(ran.code(0)), ALL);
    assert!(proxy.writes().is_empty(), "{}", proxy.transcript());
    let tried = proxy.requests().into_iter().filter(|entry| entry.query.contains("dryRun=All"));
    let tried: Vec<_> = tried.map(|entry| entry.target().resource).collect();
    for resource in ["serviceaccounts", "roles", "clusterroles", "rolebindings", "clusterrolebindings", "jobs"] {
        assert!(tried.iter().any(|other| other == resource), "{resource} was not tried: {tried:?}");
    }
    scene.assert_clean().await;
    // What it prints is what kubectl takes.
    let file = scene.home.write("objects.yaml", &ran.stdout());
    let create = ["create", "--dry-run=server", "--validate=strict", "-f", file.to_str().unwrap()];
    scene.home.program("kubectl", create).run().await.stdout_has("job.batch/");
}

#[tokio::test]
async fn r40_a_server_dry_run_says_what_a_missing_namespace_leaves_unchecked() {
    let scene = Scene::new("dry-absent").await;
    let absent = format!("{}-absent", scene.namespace.name);
    let ran = scene.home.aicr(["snapshot", "-n", &absent, "--dry-run=server"]).run().await;
    ran.code(0).stderr_has(&absent).stderr_has("unchecked");
    let mut expected = vec!["Namespace"];
    expected.extend(ALL);
    assert_eq!(kinds(&ran), expected);
    scene.home.aicr(["snapshot", "-n", &absent, "--dry-run=server", "--format", "table"]).run().await.code(2);
}

#[tokio::test]
async fn r40_a_server_dry_run_reports_missing_permissions_like_a_run() {
    let bed = Bed::shared().await;
    let namespace = bed.namespace("dry-weak").await.name;
    let weak = Home::new().kubeconfig(&bed.kubeconfig(&bed.user("dry-weak", &[]), None));
    weak.aicr(["snapshot", "-n", &namespace, "--dry-run=server"]).run().await.code(4).stdout_is("").stderr_has("VERB");
}
