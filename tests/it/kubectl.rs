//! `kubectl aicr …` through the real kubectl, with its connection flags.

use crate::support::{
    bed::Bed,
    cli::{Home, Invocation},
    scene::Scene,
};

fn through_kubectl(home: &Home, namespace: &str, flags: &[&str]) -> Invocation {
    let image = "registry.test/aicr:success";
    home.program("kubectl", ["aicr", "snapshot", "-n", namespace, "--image", image]).args(flags)
}

#[tokio::test]
async fn r39_kubectls_flags_reach_the_server_user_and_namespace_that_they_name() {
    let bed = Bed::shared().await;
    let scene = Scene::new("kubectl").await;
    let namespace = scene.namespace.name.as_str();
    let admin = bed.user("flagged", &["system:masters"]);
    let token = match &admin.credential {
        crate::support::kubeconfig::Credential::Token(token) => token.clone(),
        crate::support::kubeconfig::Credential::Certificate(_) => unreachable!("users have tokens"),
    };
    let file = scene.home.write("admin.yaml", &bed.kubeconfig(bed.admin(), None));
    let file = file.to_str().unwrap();
    let ca = scene.home.write("ca.pem", bed.ca_pem());
    let powerless = bed.user("powerless", &[]);
    let empty = Home::new();
    let weak = Home::new().kubeconfig(&bed.kubeconfig(&powerless, None));

    let cases: Vec<(&str, &Home, Vec<&str>, i32)> = vec![
        ("the kubeconfig of the home", &scene.home, vec![], 0),
        ("--kubeconfig", &empty, vec!["--kubeconfig", file], 0),
        ("--context", &empty, vec!["--kubeconfig", file, "--context", "test"], 0),
        ("a context that is not there", &empty, vec!["--kubeconfig", file, "--context", "other"], 2),
        ("--as an administrator", &scene.home, vec!["--as", "jane", "--as-group", "system:masters"], 0),
        ("--as someone without rights", &scene.home, vec!["--as", "jane"], 4),
        (
            "--server and --token",
            &empty,
            vec!["--server", bed.server(), "--token", &token, "--certificate-authority", ca.to_str().unwrap()],
            0,
        ),
        ("--token over the kubeconfig's", &weak, vec!["--token", &token], 0),
        ("a user without rights", &weak, vec![], 4),
    ];
    for (what, home, flags, code) in cases {
        let ran = through_kubectl(home, namespace, &flags).run().await;
        assert_eq!(ran.status(), Some(code), "{what}:\n{}", ran.stderr());
    }
    scene.assert_clean().await;
}

#[tokio::test]
async fn r39_a_kubeconfig_of_several_files_merges_and_a_missing_one_is_skipped() {
    let bed = Bed::shared().await;
    let scene = Scene::new("several").await;
    let first = scene.home.write("first.yaml", "apiVersion: v1\nkind: Config\ncurrent-context: test\n");
    let second = scene.home.write("second.yaml", &bed.kubeconfig(bed.admin(), Some(&scene.namespace.name)));
    let list = format!("{}:{}/missing.yaml:{}", first.display(), scene.home.path().display(), second.display());
    let image = "registry.test/aicr:success";
    let ran =
        Home::new().program("kubectl", ["aicr", "snapshot", "--image", image]).env("KUBECONFIG", list).run().await;
    ran.code(0).stderr_has(&format!("in namespace {}", scene.namespace.name));
}
