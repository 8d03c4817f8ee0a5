//! `kubectl aicr roles`: asks, writes a new directory or nothing, contacts no cluster (R12–R14).

use std::{fs, path::Path};

use kube::{
    Api,
    api::{ApiResource, DynamicObject, PostParams},
    core::GroupVersionKind,
};
use serde_json::Value;

use crate::support::{
    bed::Bed,
    cli::{Home, Invocation},
    kubeconfig::{User, kubeconfig},
};

fn roles(home: &Home) -> Invocation {
    home.aicr(["roles", "--service-account", "irsa-sa", "-n", "gpu"])
}

/// What stands in a directory.
fn entries(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const FILES: [&str; 4] = ["01-role.yaml", "02-rolebinding.yaml", "03-clusterrole.yaml", "04-clusterrolebinding.yaml"];

#[tokio::test]
async fn r13_every_answer_but_yes_writes_nothing() {
    for keys in ["n\r", "\r", "no\r", "x\r", "\u{4}", "\u{3}"] {
        for output in [&[] as &[&str], &["-o", "yaml"]] {
            let home = Home::new();
            let mut running = roles(&home).args(output).terminal_but_stdout().spawn();
            running.wait_stderr_contains("Write these manifests? [y/N]").await;
            running.keys(keys).await;
            running.wait().await.code(2).stdout_is("").stderr_has("declined");
            assert!(entries(home.path()).is_empty(), "{keys:?}");
        }
    }
}

#[tokio::test]
async fn r13_a_terminal_that_goes_away_is_no_yes() {
    let home = Home::new();
    let mut running = roles(&home).terminal_but_stdout().spawn();
    running.wait_stderr_contains("[y/N]").await;
    running.hang_up().await;
    running.wait().await.stdout_is("");
    assert!(entries(home.path()).is_empty());
}

#[tokio::test]
async fn r13_the_question_says_what_to_whom_and_where_and_a_yes_writes() {
    let home = Home::new();
    let mut running = roles(&home).args(["--discover-network"]).terminal_but_stdout().spawn();
    running.wait_stderr_contains("[y/N]").await;
    running.keys("y\r").await;
    let out = running.wait().await;
    out.code(0).stdout_is("").stderr_has("ServiceAccount gpu/irsa-sa").stderr_has("in namespace gpu");
    out.stderr_has("THIS CHANGES THE CLUSTER").stderr_has("patch nodes: labels nodes");
    let written = entries(home.path());
    assert!(written.len() == 1 && written[0].starts_with("snapshot-rbac-"), "{written:?}");
    assert_eq!(entries(&home.path().join(&written[0])), FILES);
    out.stderr_has(&format!("kubectl apply -f {}/", written[0])).stderr_has("kubectl delete -f");
}

#[tokio::test]
async fn r13_without_a_terminal_nothing_is_waited_for() {
    for command in [
        |home: &Home| roles(home),
        |home: &Home| roles(home).stdin("y\n"),
        |home: &Home| roles(home).stdin_open(),
        |home: &Home| roles(home).args(["-o", "json"]),
    ] {
        let home = Home::new();
        command(&home).run().await.code(2).stdout_is("").stderr_has("--yes");
        assert!(entries(home.path()).is_empty());
    }
}

#[tokio::test]
async fn r14_what_stands_at_the_directory_is_refused_before_the_question() {
    let home = Home::new();
    home.write("taken/file", "mine");
    home.write("file", "mine");
    for directory in ["taken", "taken/", "file", ".", "..", ""] {
        let out = roles(&home).args(["--output-dir", directory]).terminal_but_stdout().run().await;
        out.code(2).stderr_has("--output-dir").stderr_lacks("[y/N]");
    }
    assert_eq!(entries(home.path()), ["file", "taken"]);
    assert_eq!(entries(&home.path().join("taken")), ["file"]);
}

#[tokio::test]
async fn r14_a_parent_that_cannot_be_written_is_named_and_nothing_is_left() {
    let home = Home::new();
    home.write("file", "mine");
    // Neither can hold a directory, whoever asks.
    for parent in ["file", "absent", "/proc"] {
        let target = format!("{parent}/rbac");
        let out = roles(&home).args(["--yes", "--output-dir", &target]).run().await;
        out.stderr_has(&target);
        assert!(!Path::new(&target).exists(), "{out}");
    }
    assert_eq!(entries(home.path()), ["file"]);
}

#[tokio::test]
async fn r14_two_runs_give_the_same_bytes() {
    let home = Home::new();
    for directory in ["one", "two"] {
        roles(&home).args(["--yes", "--discover-network", "--output-dir", directory]).run().await.code(0);
    }
    for file in FILES {
        assert_eq!(home.read(&format!("one/{file}")), home.read(&format!("two/{file}")));
    }
    for format in ["yaml", "json"] {
        let once = roles(&home).args(["-y", "-o", format]).run().await;
        let twice = roles(&home).args(["-y", "-o", format]).run().await;
        assert_eq!(once.code(0).stdout(), twice.code(0).stdout());
    }
}

#[tokio::test]
async fn r12_no_cluster_is_contacted_and_the_namespace_comes_from_the_kubeconfig() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let server = format!("https://{}", listener.local_addr().unwrap());
    let home = Home::new().kubeconfig(&kubeconfig(&server, "", &User::with_token("u", "t"), Some("from-context")));
    let out = home.aicr(["roles", "--service-account", "sa", "--yes", "-o", "json"]).run().await;
    assert_eq!(out.code(0).stdout_json()["items"][0]["metadata"]["namespace"], "from-context");
    assert!(listener.accept().is_err(), "somebody connected");
    // Without any kubeconfig it works as well.
    let out = Home::new().aicr(["roles", "--service-account", "sa", "--yes", "-o", "json"]).run().await;
    assert_eq!(out.code(0).stdout_json()["items"][0]["metadata"]["namespace"], "default");
}

#[tokio::test]
async fn r12_a_name_that_cannot_exist_is_refused() {
    for (account, namespace, flag) in [("Irsa", "gpu", "--service-account"), ("irsa", "a.b", "--namespace")] {
        let home = Home::new();
        let out = home.aicr(["roles", "--service-account", account, "-n", namespace, "--yes"]).run().await;
        out.code(2).stdout_is("").stderr_has(flag);
        assert!(entries(home.path()).is_empty());
    }
}

/// Creates the objects of YAML documents.
pub(crate) async fn apply(client: &kube::Client, documents: &str) {
    for object in serde_saphyr::from_multiple::<Value>(documents).unwrap() {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let types = object.types.clone().unwrap();
        let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types).unwrap());
        let api: Api<DynamicObject> = match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        api.create(&PostParams { field_manager: None, dry_run: false }, &object).await.unwrap();
    }
}

#[tokio::test]
async fn r14_the_api_server_accepts_the_files_in_their_order() {
    let bed = Bed::shared().await;
    let namespace = bed.namespace("roles").await;
    let home = Home::new();
    let command = home.aicr(["roles", "--service-account", "team.irsa", "-n", &namespace.name, "--discover-network"]);
    command.args(["--yes", "--output-dir", "rbac"]).run().await.code(0);
    let client = bed.admin_client().await;
    for file in FILES {
        apply(&client, &home.read(&format!("rbac/{file}"))).await;
    }
}
