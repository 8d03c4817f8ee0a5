//! The runner of the real binary shows what a command does, and lets none hang.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use futures::FutureExt as _;
use rustix::process::Signal;

use crate::support::cli::{Home, Invocation};

fn sh(script: &str) -> Invocation {
    Home::new().program("sh", ["-c", script])
}

/// The message of a panic that must happen.
async fn panic_of(future: impl Future<Output = ()>) -> String {
    let panic = AssertUnwindSafe(future).catch_unwind().await.unwrap_err();
    *panic.downcast::<String>().unwrap()
}

#[tokio::test]
async fn a_command_has_a_home_of_its_own_and_no_inherited_environment() {
    let home = Home::new().kubeconfig("kind: Config\n");
    let out = home.program("env", [] as [&str; 0]).env("EXTRA", "1").run().await;
    out.code(0).stderr_is("");
    let text = out.stdout();
    let mut names: Vec<&str> = text.lines().filter_map(|line| line.split('=').next()).collect();
    names.sort_unstable();
    assert_eq!(names, ["EXTRA", "HOME", "KUBECTL_AICR_STATE_DIR", "PATH"]);

    let out = home.program("sh", ["-c", "pwd; cat $HOME/.kube/config; command -v kubectl-aicr"]).run().await;
    out.code(0).stdout_has(&format!("{}\nkind: Config\n", home.path().display())).stdout_has("/kubectl-aicr\n");
    home.program("sh", ["-c", "test -z \"$PATH\""]).without_env("KUBECTL_AICR_STATE_DIR").run().await.code(1);
}

#[tokio::test]
async fn the_real_binary_runs() {
    Home::new().aicr(["--version"]).run().await.code(0).stderr_is("");
}

#[tokio::test]
async fn both_outputs_and_the_exit_code_are_asserted() {
    let out = sh("echo out; printf err >&2; exit 7").run().await;
    out.code(7).stdout_is("out\n").stdout_has("ou").stdout_lacks("err");
    out.stderr_is("err").stderr_has("er").stderr_lacks("out");
    assert_eq!(out.stdout_bytes(), b"out\n");
    assert_eq!(sh("echo '[1]'").run().await.stdout_json()[0], 1);

    let checks: [&dyn Fn(); 9] = [
        &|| drop(out.code(0).stdout()),
        &|| drop(out.killed_by(Signal::KILL).stdout()),
        &|| drop(out.stdout_is("out").stdout()),
        &|| drop(out.stdout_has("x").stdout()),
        &|| drop(out.stdout_lacks("out").stdout()),
        &|| drop(out.stderr_is("").stdout()),
        &|| drop(out.stderr_has("x").stdout()),
        &|| drop(out.stderr_lacks("err").stdout()),
        &|| drop(out.stdout_json()),
    ];
    for check in checks {
        let panic = catch_unwind(AssertUnwindSafe(check)).unwrap_err();
        let message = panic.downcast::<String>().unwrap();
        assert!(message.contains("--- stdout\nout\n") && message.contains("--- stderr\nerr\n"), "{message}");
    }
}

#[tokio::test]
async fn of_a_long_output_a_failure_shows_both_ends() {
    let out = sh("seq 1000").run().await;
    let shown = out.to_string();
    assert!(shown.contains("\n1\n2\n") && shown.contains("\n[920 lines left out]\n961\n"), "{shown}");
    assert!(shown.contains("\n1000\n"));
    out.stdout_has("\n500\n");
}

#[tokio::test]
async fn stdin_is_empty_a_text_or_open() {
    sh("cat").run().await.code(0).stdout_is("");
    sh("cat").stdin("a\nb").run().await.code(0).stdout_is("a\nb");
    let mut running = sh("echo ready; read line; echo got $line").stdin_open().spawn();
    running.wait_stdout_contains("ready").await;
    running.keys("this\n").await;
    running.wait().await.code(0).stdout_is("ready\ngot this\n");
}

#[tokio::test]
async fn arguments_and_the_working_directory_are_given() {
    let home = Home::new();
    let file = home.write("sub/file", "text");
    let dir = file.parent().unwrap();
    let out = home.program("sh", ["-c", "echo $# \"$2\"; cat file; echo > new"]).arg("zero").args(["one", "two words"]);
    out.cwd(dir).run().await.code(0).stdout_is("2 two words\ntext");
    assert_eq!(home.read("sub/new"), "\n");
}

#[tokio::test]
async fn signals_reach_the_command_at_a_chosen_moment() {
    let script = "trap 'echo cleaned; exit 130' INT; echo waiting >&2; while :; do sleep 0.05; done";
    let mut running = sh(script).spawn();
    running.wait_stderr_contains("waiting").await;
    running.signal(Signal::INT);
    running.wait().await.code(130).stdout_is("cleaned\n");

    let mut running = sh(script).spawn();
    running.wait_stderr_contains("waiting").await;
    running.kill().await.killed_by(Signal::KILL).stdout_is("");
}

#[tokio::test]
async fn a_closed_reader_is_a_broken_pipe() {
    let script = "echo go >&2; read x; echo 1 || echo broken >&2; exit 3";
    let mut running = sh(script).stdin_open().spawn();
    running.wait_stderr_contains("go").await;
    running.close_stdout().await;
    running.keys("\n").await;
    // Without a trap a shell dies from the signal as any program does by default.
    running.wait().await.killed_by(Signal::PIPE).stderr_is("go\n");

    let mut running = sh("trap '' PIPE; echo go; read x; echo 1 >&2 || echo broken; exit 3").stdin_open().spawn();
    running.wait_stdout_contains("go").await;
    running.close_stderr().await;
    running.keys("\n").await;
    running.wait().await.code(3).stdout_is("go\nbroken\n");
}

#[tokio::test]
async fn a_command_that_hangs_fails_the_test_with_what_it_said() {
    let start = Instant::now();
    let hangs = || sh("echo said; echo and this >&2; exec sleep 100").deadline(Duration::from_millis(500));
    let message = panic_of(async { drop(hangs().run().await) }).await;
    assert!(message.contains("still runs at its deadline"), "{message}");
    assert!(message.contains("\nsaid\n") && message.contains("\nand this\n"), "{message}");

    let message = panic_of(async { hangs().spawn().wait_stderr_contains("never").await }).await;
    assert!(message.contains("stderr never had \"never\""), "{message}");
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn a_wait_for_words_ends_with_the_command() {
    let message = panic_of(async { sh("echo no >&2").spawn().wait_stderr_contains("yes").await }).await;
    assert!(message.contains("stderr never had \"yes\"") && message.contains("\nno\n"), "{message}");
}

#[tokio::test]
async fn on_a_terminal_questions_can_be_answered() {
    let script = "test -t 0 && test -t 1 && test -t 2 && stty size && \
                  printf '\\033[1mSure?\\033[0m [y/N] ' && read a && echo \"got $a\"";
    let mut running = sh(script).terminal().spawn();
    running.wait_stderr_contains("Sure? [y/N] ").await;
    running.keys("y\r").await;
    let out = running.wait().await;
    out.code(0).stdout_is("").stderr_has("50 160\n").stderr_has("got y\n");
    assert!(out.stderr_bytes().windows(4).any(|bytes| bytes == b"\x1b[1m"), "as it came");
}

#[tokio::test]
async fn on_a_terminal_stdout_may_go_elsewhere() {
    let script = "test -t 0 && test ! -t 1 && test -t 2 && echo out && echo err >&2";
    let out = sh(script).terminal_but_stdout().run().await;
    out.code(0).stdout_is("out\n").stderr_is("err\r\n");
}

const SLEEP: &str = "echo go; exec sleep 100";

#[tokio::test]
async fn on_a_terminal_ctrl_c_and_hangup_are_signals() {
    let mut running = sh(SLEEP).terminal().spawn();
    running.wait_stderr_contains("go").await;
    running.keys("\x03").await;
    running.wait().await.killed_by(Signal::INT);

    let mut running = sh(SLEEP).terminal().spawn();
    running.wait_stderr_contains("go").await;
    running.hang_up().await;
    running.wait().await.killed_by(Signal::HUP);
}
