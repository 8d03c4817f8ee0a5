//! An API server that is away, silent, or no longer knows the caller.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{EVENTS, JOBS, LOG, PODS, agent_lines, job_completes, lines_of, list, watch};
use crate::support::{
    bed::Bed,
    cli::Running,
    kubeconfig::{Credential, User},
    proxy::{End, Fault, Limit, Outage, Proxy, Status, answer, before, cut, get},
    scene::Scene,
    wait::until,
};

/// Ends a run well and looks at what it showed.
async fn succeeds(running: Running, scene: &Scene, lines: usize) {
    let ran = running.wait().await;
    ran.code(0).stdout_is(&scene.document());
    assert_eq!(agent_lines(&ran), lines_of(scene, lines), "{ran}");
    scene.assert_clean().await;
}

#[tokio::test]
async fn r20_an_api_server_that_is_stopped_for_20_seconds_does_not_end_the_wait() {
    let scene = Scene::on(Bed::private().await, "restart").await;
    let mut running = scene.snapshot("drip-40-1s").spawn();
    running.wait_stderr_contains("agent | line 2 of 40").await;
    scene.bed.stop_apiserver();
    tokio::time::sleep(Duration::from_secs(20)).await;
    running.wait_stderr_contains("this may have changed: cannot").await;
    scene.bed.start_apiserver().await;
    succeeds(running, &scene, 40).await;
}

#[tokio::test]
async fn r20_a_job_that_completes_while_the_api_server_is_away_is_seen_afterwards() {
    let proxy = Proxy::before(Bed::shared().await).start().await;
    let scene = Scene::behind("away", &proxy).await;
    let mut running = scene.snapshot("drip-6-500ms").spawn();
    running.wait_stderr_contains("agent | line 2 of 6").await;
    proxy.down(Outage::Reset);
    job_completes(&scene).await;
    proxy.up();
    succeeds(running, &scene, 6).await;
}

#[tokio::test]
async fn r24_a_run_whose_time_is_up_while_the_api_server_is_away_points_there() {
    let proxy = Proxy::before(Bed::shared().await).start().await;
    let scene = Scene::behind("gone", &proxy).await;
    let args = ["--timeout", "15s", "--cleanup-timeout", "1s"];
    let running = scene.snapshot("hang").args(args).spawn();
    scene.agent_runs().await;
    proxy.down(Outage::Reset);
    running.wait().await.code(5).stderr_has("kubectl get --raw /readyz").stderr_has("kubectl aicr cleanup");
    proxy.up();
    scene.cleanup().run().await.code(0);
    scene.assert_clean().await;
}

#[tokio::test]
async fn r20_pings_find_a_silent_connection() {
    let proxy = Proxy::before(Bed::shared().await).start().await;
    let scene = Scene::behind("silent", &proxy).await;
    let mut running = scene.snapshot("drip-6-500ms").spawn();
    running.wait_stderr_contains("agent | line 2 of 6").await;
    proxy.down(Outage::Silence);
    proxy.up();
    succeeds(running, &scene, 6).await;
}

#[tokio::test]
async fn r20_a_watch_of_the_job_that_stalls_does_not_delay_the_run() {
    let proxy = Proxy::before(Bed::shared().await).start().await;
    let scene = Scene::behind("stall", &proxy).await;
    let stalled = proxy.on(watch(JOBS), cut(Limit::Time(Duration::from_millis(500)), End::Stall));
    let running = scene.snapshot("drip-4-500ms").spawn();
    job_completes(&scene).await;
    let completed = Instant::now();
    succeeds(running, &scene, 4).await;
    assert_eq!(stalled.hits(), 1, "{}", proxy.transcript());
    assert!(completed.elapsed() < Duration::from_secs(30), "{:?}", completed.elapsed());
}

/// What stands between may keep the connection alive although it has lost the server.
#[tokio::test]
async fn r20_streams_that_all_stall_on_a_live_connection_are_taken_up_again() {
    let proxy = Proxy::before(Bed::shared().await).start().await;
    let scene = Scene::behind("stalls", &proxy).await;
    let after = Limit::Time(Duration::from_secs(1));
    for stream in
        [watch(JOBS), watch(PODS), watch(EVENTS).query("kind%3DJob"), watch(EVENTS).query("kind%3DPod"), get(LOG)]
    {
        proxy.on(stream.first(1), cut(after, End::Stall));
    }
    let running = scene.snapshot("drip-4-500ms").spawn();
    succeeds(running, &scene, 4).await;
}

#[tokio::test]
async fn r20_where_no_watch_gets_through_lists_show_the_jobs_end() {
    let proxy = Proxy::before(Bed::shared().await).start().await;
    let scene = Scene::behind("lists", &proxy).await;
    for path in [JOBS, PODS, EVENTS] {
        proxy.on(watch(path), cut(Limit::Bytes(0), End::Close));
    }
    // Not even by looking at the Job itself.
    proxy.on(get("/apis/batch/v1/namespaces/*/jobs/*").first(3), before(Fault::Hang));
    let running = scene.snapshot("drip-4-500ms").args(["--request-timeout", "5s"]).spawn();
    succeeds(running, &scene, 4).await;
}

#[tokio::test]
async fn r23_pods_that_cannot_be_listed_when_the_job_ends_are_asked_for_again() {
    let proxy = Proxy::before(Bed::shared().await).start().await;
    let scene = Scene::behind("catch-up", &proxy).await;
    let refused = proxy.on(list(PODS), answer(Status::unavailable()));
    let running = scene.snapshot("drip-2-300ms").spawn();
    let lift = async {
        job_completes(&scene).await;
        let before = refused.hits();
        until("the pods to be asked for", async || (refused.hits() > before).then_some(())).await;
        refused.lift();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = succeeds(running, &scene, 2) => {}
        () = lift => unreachable!("it only lifts"),
    }
}

#[tokio::test]
async fn r16_r20_without_events_and_with_a_forbidden_log_the_run_succeeds_all_the_same() {
    let proxy = Proxy::before(Bed::shared().await).start().await;
    let scene = Scene::behind("blind", &proxy).await;
    for requests in [list(EVENTS), watch(EVENTS), get(LOG)] {
        proxy.on(requests, answer(Status::forbidden()));
    }
    let ran = scene.snapshot("drip-4-100ms").run().await;
    ran.code(0).stdout_is(&scene.document()).stderr_lacks("agent | ").stderr_lacks("this may have changed");
    scene.assert_clean().await;
}

#[tokio::test]
async fn r20_r39_a_token_that_expires_during_the_wait_is_asked_for_again() {
    let bed = Bed::shared().await;
    let proxy = Proxy::before(bed).start().await;
    let scene = Scene::behind("expired", &proxy).await;
    let (first, second) = (bed.user("root", &["system:masters"]), bed.user("root", &["system:masters"]));
    let credential = |user: &User| {
        let Credential::Token(token) = &user.credential else { panic!("{user:?} has no token") };
        let version = "client.authentication.k8s.io/v1";
        json!({ "apiVersion": version, "kind": "ExecCredential", "status": { "token": token } }).to_string()
    };
    let current = scene.home.write("credential.json", &credential(&first));
    let plugin = format!("echo asked >>{}/asked; cat {}", scene.home.path().display(), current.display());
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", plugin],
        "interactiveMode": "Never",
    });
    let mut config: serde_json::Value = serde_saphyr::from_str(&scene.home.read(".kube/config")).unwrap();
    config["users"][0]["user"] = json!({ "exec": exec });
    scene.home.write(".kube/config", &config.to_string());

    // Streams that are open already outlive the token; new ones do not, once the server's cache of ten seconds is over.
    for stream in [watch(JOBS), watch(PODS), get(LOG)] {
        proxy.on(stream, cut(Limit::Time(Duration::from_secs(1)), End::Drop));
    }
    let mut running = scene.snapshot("drip-30-500ms").spawn();
    running.wait_stderr_contains("agent | line 1 of 30").await;
    fs::write(&current, credential(&second)).unwrap();
    bed.revoke(&first);
    succeeds(running, &scene, 30).await;
    assert_eq!(scene.home.read("asked").lines().count(), 2, "{}", proxy.transcript());
    let refused = proxy.requests().iter().filter(|entry| entry.status == Some(401)).count();
    assert!(refused > 0, "{}", proxy.transcript());
}
