//! What a person who asks for help, or mistypes, is told.

use crate::support::cli::Home;

#[tokio::test]
async fn r40_version_says_which_program_and_which_agent_in_every_form() {
    let home = Home::new();
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    let json = home.aicr(["version", "-o", "json"]).run().await.code(0).stdout_json();
    assert_eq!(json["clientVersion"], version);
    assert_eq!(json["agentImage"], "ghcr.io/nvidia/aicr:v1.1.2");
    let commit = json["gitCommit"].as_str().unwrap();
    let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(is_commit || commit == "unknown", "{commit}");

    let yaml = home.aicr(["version", "-o", "yaml"]).run().await;
    assert_eq!(serde_saphyr::from_str::<serde_json::Value>(&yaml.stdout()).unwrap(), json);
    let lines = format!("{version}\nGit Commit: {commit}\nAgent Image: ghcr.io/nvidia/aicr:v1.1.2\n");
    home.aicr(["version"]).run().await.code(0).stdout_is(&format!("Client Version: {lines}")).stderr_is("");
    home.aicr(["--version"]).run().await.code(0).stdout_is(&format!("kubectl-aicr {lines}"));
    home.aicr(["-V"]).run().await.code(0).stdout_is(&format!("kubectl-aicr {version} ({commit})\n"));
}

#[tokio::test]
async fn r43_help_is_about_kubectl_aicr_and_a_topic_has_its_own() {
    let home = Home::new();
    home.aicr(["help"]).run().await.code(0).stdout_has("Usage: kubectl aicr [OPTIONS] <COMMAND>").stderr_is("");
    home.aicr(["help", "snapshot"])
        .run()
        .await
        .code(0)
        .stdout_has("Usage: kubectl aicr snapshot")
        .stdout_has("Examples:");
    home.aicr(["snapshot", "--help"]).run().await.code(0).stdout_has("Examples:").stdout_lacks("\u{1b}");
    home.aicr(["help", "exit-codes"]).run().await.code(0).stdout_has("  6  cluster or identity provider unreachable");
    home.aicr(["help", "rights"]).run().await.code(0).stdout_has("clusterpolicies (nvidia.com)");
    home.aicr(["help", "nonsense"]).run().await.code(2).stdout_is("").stderr_has("error: ").stderr_has("exit-codes");
}

#[tokio::test]
async fn a_misspelt_word_is_answered_with_the_one_that_was_meant() {
    let home = Home::new();
    for (words, meant) in [
        (["snapshot", "--namspace=gpu"], "'--namespace'"),
        (["snapshot", "--tolerations=a:NoExecute"], "'--toleration'"),
        (["orphans", "--all-namespace"], "'--all-namespaces'"),
        (["snapshto", "-q"], "'snapshot'"),
        (["orphans", "--output=jsn"], "'json'"),
    ] {
        home.aicr(words).run().await.code(2).stdout_is("").stderr_has("error: ").stderr_has(meant);
    }
}

#[tokio::test]
async fn a_refused_value_is_answered_with_the_help_of_its_command_and_the_name_that_was_typed() {
    let home = Home::new();
    for (words, named, help) in [
        (["snapshot", "--timeout=soon"], "--timeout", "kubectl aicr snapshot --help"),
        (["cleanup", "Bad ID"], "\"Bad ID\" for RUN-ID", "kubectl aicr cleanup --help"),
        (["orphans", "--run-id=Bad_ID"], "--run-id", "kubectl aicr orphans --help"),
        (["snapshot", "--max-nodes-per-entry=many"], "--max-nodes-per-entry", "must be a whole number"),
        (["orphans", "--v=much"], "--v", "must be a whole number from 0 to 255"),
    ] {
        home.aicr(words).run().await.code(2).stdout_is("").stderr_has(named).stderr_has(help);
    }
}
