//! Completion: through the real kubectl, in a real bash, and the scripts of shells (R43).

use std::time::{Duration, Instant};

use k8s_openapi::api::{core::v1::ServiceAccount, node::v1::RuntimeClass};
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::support::{
    cli::{Home, Outcome},
    scene::Scene,
};

/// What kubectl answers a shell that completes `kubectl aicr WORDS`.
async fn complete(home: &Home, words: &[&str]) -> Outcome {
    let shim = home.path().join("bin/kubectl_complete-aicr");
    if !shim.exists() {
        let shim = home.aicr(["completion", "kubectl"]).run().await.code(0).stdout();
        let path = home.write("bin/kubectl_complete-aicr", &shim);
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let words = ["__complete", "aicr"].iter().chain(words);
    home.program("kubectl", words).on_path(&home.path().join("bin")).run().await
}

#[tokio::test]
async fn r43_the_real_kubectl_completes_commands_flags_and_values() {
    let home = Home::new();
    let commands = complete(&home, &["sn"]).await;
    commands.code(0).stdout_is("snapshot\tCapture the configuration of the cluster\n:4\n");
    complete(&home, &["snapshot", "--runtime-"]).await.stdout_has("--runtime-class\tRuntimeClass of the agent's pod");
    complete(&home, &["snapshot", "--format", ""]).await.stdout_is("json\ntable\nyaml\n:4\n");
    complete(&home, &["orphans", "-o", "w"]).await.stdout_has("wide\tColumns, with UID").stdout_has(":4\n");
    complete(&home, &["snapshot", "-o", ""]).await.stdout_is(":0\n");
}

#[tokio::test]
async fn r43_the_real_kubectl_completes_names_that_the_cluster_and_the_kubeconfig_know() {
    let scene = Scene::new("completion").await;
    let home = &scene.home;
    let namespace = scene.namespace.name.as_str();
    let account: ServiceAccount = serde_json::from_value(json!({ "metadata": { "name": "irsa-sa" } })).unwrap();
    scene.api().create(&PostParams::default(), &account).await.unwrap();
    let class: RuntimeClass =
        serde_json::from_value(json!({ "metadata": { "name": namespace }, "handler": "none" })).unwrap();
    kube::Api::all(scene.client.clone()).create(&PostParams::default(), &class).await.unwrap();

    complete(home, &["snapshot", "-n", namespace]).await.stdout_is(&format!("{namespace}\n:4\n"));
    complete(home, &["snapshot", "-n", namespace, "--service-account-name", ""])
        .await
        .stdout_is("default\nirsa-sa\n:4\n");
    complete(home, &["roles", "--namespace", namespace, "--service-account", "i"]).await.stdout_is("irsa-sa\n:4\n");
    complete(home, &["snapshot", "--runtime-class", namespace]).await.stdout_is(&format!("{namespace}\n:4\n"));
    complete(home, &["snapshot", "--node-selector", "kubernetes.io/ho"])
        .await
        .stdout_is("kubernetes.io/hostname=\n:6\n");
    complete(home, &["snapshot", "--node-selector", "a=b,kubernetes.io/ho"])
        .await
        .stdout_is("a=b,kubernetes.io/hostname=\n:6\n");
    complete(home, &["snapshot", "--context", ""]).await.stdout_is("test\n:4\n");
    complete(home, &["snapshot", "--cluster="]).await.stdout_is("test\n:4\n");
    complete(home, &["snapshot", "--user", "cluster-"]).await.stdout_has(":4\n");

    scene.snapshot("success").args(["--no-cleanup", "-o", "out.yaml"]).run().await.code(0);
    let runs = complete(home, &["cleanup", ""]).await;
    runs.stdout_has(&format!("{}\tin {namespace} at {}, ended\n:4\n", scene.run_id, scene.bed.server()));
    scene.remove_everything().await;
    kube::Api::<RuntimeClass>::all(scene.client.clone()).delete(namespace, &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn r43_a_cluster_that_does_not_answer_costs_two_seconds_and_no_words() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("https://{}", silent.local_addr().unwrap());
    let home = Home::new();
    let started = Instant::now();
    complete(&home, &["snapshot", "--server", &server, "-n", ""]).await.code(0).stdout_is(":4\n");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    complete(&home, &["snapshot", "--kubeconfig", "missing", "-n", ""]).await.code(0).stdout_is(":4\n");
}

#[tokio::test]
async fn r43_tab_in_a_real_bash_completes_the_line() {
    let scene = Scene::new("bash").await;
    let home = &scene.home;
    complete(home, &["sn"]).await.code(0);
    let rc = home.write(
        "rc",
        "PS1='> '; bind 'set enable-bracketed-paste off'; bind 'set bell-style none'\n\
         source <(kubectl completion bash 2>/dev/null)\n",
    );
    // bash-completion is not everywhere; kubectl's script needs only these of it.
    let rc_text = std::fs::read_to_string(&rc).unwrap();
    std::fs::write(&rc, format!("{BASH_COMPLETION}\n{rc_text}")).unwrap();
    let mut bash = home
        .program("bash", ["--noprofile", "--rcfile", rc.to_str().unwrap(), "-i"])
        .on_path(&home.path().join("bin"))
        .terminal()
        .spawn();
    bash.wait_stderr_contains("> ").await;
    bash.keys("kubectl aicr sn\t").await;
    bash.wait_stderr_contains("kubectl aicr snapshot ").await;
    bash.keys("--form\tj\t").await;
    bash.wait_stderr_contains("kubectl aicr snapshot --format json ").await;
    let part = &scene.namespace.name[..scene.namespace.name.len() - 1];
    bash.keys(&format!("-n {part}\t")).await;
    bash.wait_stderr_contains(&format!("--format json -n {} ", scene.namespace.name)).await;
    bash.keys("\x15exit\n").await;
    bash.wait().await.code(0);
}

/// The two functions of bash-completion that cobra's script falls back from or calls.
const BASH_COMPLETION: &str = r#"
_get_comp_words_by_ref() {
    while [[ $1 == -* ]]; do [[ $1 == -n ]] && shift; shift; done
    cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
}
__ltrim_colon_completions() { :; }
"#;

#[tokio::test]
async fn r43_each_shell_gets_a_script_that_bash_at_least_accepts_and_uses() {
    let home = Home::new();
    for (shell, sign) in
        [("zsh", "#compdef kubectl-aicr"), ("fish", "complete -c kubectl-aicr"), ("powershell", "'kubectl-aicr'")]
    {
        let script = home.aicr(["completion", shell]).run().await;
        script
            .code(0)
            .stdout_has(sign)
            .stdout_has("snapshot")
            .stdout_has("run-id")
            .stdout_lacks("__complete")
            .stderr_is("");
    }
    let script = "source <(kubectl-aicr completion bash); COMP_WORDS=(kubectl-aicr sn); COMP_CWORD=1; \
                  complete=($(complete -p kubectl-aicr)); ${complete[-2]} kubectl-aicr sn kubectl-aicr; echo \"${COMPREPLY[@]}\"";
    home.program("bash", ["-c", script]).run().await.code(0).stdout_is("snapshot\n").stderr_is("");
}

#[tokio::test]
async fn r43_the_shim_is_installed_where_kubectl_finds_it_and_the_place_is_said() {
    let home = Home::new();
    std::fs::create_dir(home.path().join("bin")).unwrap();
    let bin = home.path().join("bin");
    // The folder of the test's own binary is no place to write to.
    std::fs::copy(env!("CARGO_BIN_EXE_kubectl-aicr"), bin.join("kubectl-aicr")).unwrap();
    let install = home.program("kubectl", ["aicr", "completion", "kubectl", "--install"]).on_path(&bin);
    install.run().await.code(0).stdout_is("").stderr_has(&format!("wrote {}/kubectl_complete-aicr", bin.display()));
    home.program("kubectl", ["__complete", "aicr", "vers"]).on_path(&bin).run().await.stdout_has("version\t");
    home.aicr(["completion", "bash", "--install"]).run().await.code(2).stderr_has("--install");
}

#[tokio::test]
async fn a_request_for_candidates_may_meet_any_line() {
    let home = Home::new();
    for words in
        [&["__complete"] as &[&str], &["__complete", "--", "-x"], &["__complete", "snapshot", "-", "--=", "-n=", "é"]]
    {
        home.aicr(words).run().await.code(0).stdout_has(":").stderr_is("");
    }
}
