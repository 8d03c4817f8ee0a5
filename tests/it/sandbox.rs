//! `cargo run --example sandbox`, as someone without a cluster meets it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use rustix::process::Signal;

use crate::support::cli::{Home, output_of};

/// The example, built as it stands.
fn sandbox() -> String {
    static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
        let test = std::env::current_exe().unwrap();
        // TARGET/PROFILE/deps/TEST
        let profile = test.ancestors().nth(2).unwrap();
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--example", "sandbox", "--target-dir"]).arg(profile.parent().unwrap());
        if profile.ends_with("release") {
            build.arg("--release");
        }
        let built = output_of(build.current_dir(env!("CARGO_MANIFEST_DIR"))).unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        profile.join("examples/sandbox")
    });
    BUILT.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_sandbox_shows_table_document_and_orphans_and_ends_well() {
    let home = Home::new();
    // It needs nothing that is on the PATH, and no terminal.
    let ran = home.program(&sandbox(), [""; 0]).env("PATH", "").run().await;
    ran.code(0).stdout_has("kind: Snapshot").stdout_has("(exit code 11)").stderr_has("protected by a policy");
    let rows = |column: &str, word: &str| {
        let text = ran.stdout() + &ran.stderr();
        text.lines().filter(|line| line.starts_with(column) && line.trim_end().ends_with(word)).count()
    };
    assert_eq!(rows("ClusterRole ", "deleted"), 2, "the first run's, and later the orphan");
    assert_eq!(rows("ClusterRole ", "DeleteFailed"), 1);
    ran.stdout_has("rights/04-clusterrolebinding.yaml");
}

#[tokio::test]
async fn the_sandbox_refuses_what_it_does_not_know_and_says_how_it_is_used() {
    let ran = Home::new().program(&sandbox(), ["--severe"]).run().await;
    ran.code(2).stdout_is("").stderr_has("--severe").stderr_has("Usage: cargo run --example sandbox");
    let ran = Home::new().program(&sandbox(), ["--help"]).run().await;
    ran.code(0).stdout_has("Usage: cargo run --example sandbox").stderr_is("");
}

#[tokio::test]
async fn the_sandbox_ends_quietly_when_its_reader_has_seen_enough() {
    let ran = Home::new().program("sh", ["-c", "\"$0\" | head -n 3", &sandbox()]).run().await;
    ran.code(0).stderr_lacks("panicked").stderr_lacks("error: ");
    assert_eq!(ran.stdout().lines().count(), 3, "{}", ran.stdout());
}

#[tokio::test]
async fn the_served_sandbox_says_how_to_reach_it_and_takes_its_folder_along() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let home = Home::new();
        let folder = home.write("tmp/.keep", "").parent().unwrap().to_owned();
        let mut served = home.program(&sandbox(), ["--serve"]).env("TMPDIR", &folder).spawn();
        served.wait_stdout_contains("Ctrl-C ends it").await;
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "the folder of the sandbox");
        served.signal(signal);
        let served = served.wait().await;
        served.code(0).stdout_has("export KUBECONFIG=").stdout_has("kubectl get pods -A -w");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "{signal:?}");
    }
}
