//! The agent's log, and who reads it.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use super::{LOG, agent_lines, lines_of};
use crate::support::{
    bed::Bed,
    cli::Running,
    proxy::{End, Limit, Proxy, cut, delete, get},
    scene::Scene,
    wait::until,
};

/// KiB that a long log may need beyond a short one: far below its size, far above a connection's windows.
const FLAT: usize = 16 * 1024;

/// KiB that any run may need: a debug build needs about a third.
const MOST: usize = 96 * 1024;

/// How long an end may take on a loaded machine that takes about a second elsewhere.
const SOON: Duration = Duration::from_secs(20);

/// The most memory that a process has had so far, in KiB.
fn peak_memory(running: &Running) -> Option<usize> {
    let status = fs::read_to_string(format!("/proc/{}/status", running.pid().as_raw_nonzero())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

#[tokio::test]
async fn r23_of_a_hundred_thousand_lines_each_is_shown_and_memory_stays_flat() {
    let mut peaks = Vec::new();
    for count in [10, 100_000] {
        let scene = Scene::new("flood").await;
        let running = scene.snapshot(&format!("logs-{count}_slow-2s")).spawn();
        let mut peak = 0;
        // A process that has ended has none.
        while let Some(memory) = peak_memory(&running) {
            peak = memory;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let ran = running.wait().await;
        ran.code(0).stdout_is(&scene.document());
        assert!(agent_lines(&ran) == lines_of(&scene, count), "{ran}");
        scene.assert_clean().await;
        peaks.push(peak);
    }
    eprintln!("peak memory with 10 lines and with 100,000: {peaks:?} KiB");
    assert!(peaks[0] > 0 && peaks[1] < peaks[0] + FLAT, "{peaks:?} KiB");
}

#[tokio::test]
async fn r42_ctrl_c_in_a_flood_of_lines_is_heeded_at_once() {
    let proxy = Proxy::before(Bed::shared().await).start().await;
    let scene = Scene::behind("flood", &proxy).await;
    let cleanup = proxy.observe(delete("**"));
    let mut running = scene.snapshot("logs-100000_logs-100000_logs-100000_hang").spawn();
    running.wait_stderr_contains("agent | line 1000 of 100000").await;
    running.signal(Signal::INT);
    let start = Instant::now();
    cleanup.arrived().await;
    assert!(start.elapsed() < SOON / 4, "{:?}", start.elapsed());
    running.wait().await.code(130).stderr_has("deleted");
    scene.assert_clean().await;
}

#[tokio::test]
async fn a_stderr_that_nobody_reads_holds_up_neither_a_run_nor_its_cleanup() {
    for verbosity in ["0", "8"] {
        let scene = Scene::new("unread").await;
        let run = scene.snapshot("logs-100000").args(["-v", verbosity]);
        run.stderr_unread().deadline(Duration::from_mins(1)).run().await.code(0).stdout_is(&scene.document());
        scene.assert_clean().await;

        let scene = Scene::new("unread").await;
        let run = scene.snapshot("logs-100000_hang").args(["-v", verbosity]);
        let running = run.stderr_unread().spawn();
        scene.agent_runs().await;
        let memory = until("the pipe to be full", async || {
            tokio::time::sleep(Duration::from_secs(2)).await;
            peak_memory(&running)
        });
        assert!(memory.await < MOST);
        running.signal(Signal::INT);
        let start = Instant::now();
        running.wait().await.code(130);
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
        scene.assert_clean().await;
    }
}

#[tokio::test]
async fn a_stderr_whose_reader_is_gone_prevents_neither_the_document_nor_cleanup() {
    for (script, code) in [("drip-6-300ms", 0), ("slow-1s_fail", 10)] {
        let scene = Scene::new("closed").await;
        let mut running = scene.snapshot(script).args(["-o", "out.yaml"]).spawn();
        running.wait_stderr_contains("waiting").await;
        running.close_stderr().await;
        running.wait().await.code(code);
        if code == 0 {
            assert_eq!(scene.home.read("out.yaml"), scene.document());
        }
        scene.assert_clean().await;
    }
}

#[tokio::test]
async fn r24_quiet_still_shows_evidence_and_error_of_a_job_that_fails() {
    let scene = Scene::new("quiet").await;
    let ran = scene.snapshot("fail-3").arg("--quiet").run().await;
    ran.code(10).stdout_is("").stderr_has("error: ").stderr_has("exit code 3");
    ran.stderr_has("what the cluster showed:").stderr_has("collector failed").stderr_lacks("agent | ");
    ran.stderr_lacks("waiting").stderr_lacks("deleted");
    scene.assert_clean().await;
}

#[tokio::test]
async fn r23_long_and_unfinished_lines_come_whole_and_once_wherever_the_log_is_cut() {
    for limit in
        [Limit::Bytes(150), Limit::Bytes(70 * 1024), Limit::Bytes(199 * 1024), Limit::Lines(2), Limit::Lines(3)]
    {
        let proxy = Proxy::before(Bed::shared().await).start().await;
        let scene = Scene::behind("long-line", &proxy).await;
        proxy.on(get(LOG).first(1), cut(limit, End::Drop));
        proxy.on(get(LOG).nth(2), cut(limit, End::Close));
        let ran = scene.snapshot("long-line-200KiB_slow-1s_fail").run().await;
        ran.code(10);
        let lines = agent_lines(&ran);
        let (first, rest) = lines.split_first().unwrap();
        assert_eq!(first, "collecting the configuration of the node");
        let (long, rest) = rest.split_at(rest.iter().take_while(|line| line.starts_with('x')).count());
        assert_eq!(long.concat(), "x".repeat(200 * 1024), "{limit:?}");
        assert_eq!(rest, ["error: collector failed, exit code 1"], "{limit:?}");
        scene.assert_clean().await;
    }
}

#[tokio::test]
async fn r23_an_agent_without_a_line_feed_at_its_end_is_shown_to_the_last_word() {
    let scene = Scene::new("partial").await;
    let ran = scene.snapshot("no-write_partial-line").run().await;
    ran.code(1);
    assert_eq!(agent_lines(&ran).last().map(String::as_str), Some("no line feed follows"), "{ran}");
    scene.assert_clean().await;
}
