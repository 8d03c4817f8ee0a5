//! The main job: `kubectl aicr snapshot` from deploy to cleanup on a real control plane.

use std::fs;

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Namespace, ServiceAccount},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use rustix::process::Signal;
use serde_json::json;

use crate::support::{
    bed::Bed,
    namespace::TestNamespace,
    proxy::{Fault, Proxy, after, before, delete, post},
    scene::Scene,
};

#[tokio::test]
async fn main_job_delivers_the_agents_bytes_and_leaves_nothing() {
    let scene = Scene::new("main").await;
    let ran = scene.snapshot("logs-3").args(["-o", "snapshot.yaml"]).run().await;
    ran.code(0).stdout_is("").stderr_has("agent | line 3 of 3");
    assert_eq!(scene.home.read("snapshot.yaml"), scene.document());
    for kind in ["ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "Job", "ConfigMap"] {
        let row = ran.stderr().lines().any(|line| line.starts_with(&format!("{kind} ")) && line.ends_with("deleted"));
        assert!(row, "no row says that the {kind} was deleted:\n{}", ran.stderr());
    }
    scene.assert_clean().await;
}

#[tokio::test]
async fn stdout_holds_the_document_and_nothing_else() {
    let scene = Scene::new("stdout").await;
    let ran = scene.snapshot("success").run().await;
    ran.code(0).stdout_is(&scene.document());
    scene.assert_clean().await;
}

#[tokio::test]
async fn r4_r5_six_labelled_objects_and_the_agents_config_map_stand_during_a_run() {
    let scene = Scene::new("kept").await;
    scene.snapshot("success").args(["--no-cleanup", "-o", "out.yaml"]).run().await.code(0).stderr_has("kept");
    let id = &scene.run_id;
    let namespace = &scene.namespace.name;
    let objects = scene.objects().await;
    let expected = [
        format!("ClusterRole aicr-node-reader-{id}"),
        format!("ClusterRoleBinding aicr-node-reader-{id}"),
        format!("ConfigMap {namespace}/aicr-agent-snapshot-{id}"),
        format!("Job {namespace}/aicr-{id}"),
        format!("Role {namespace}/aicr-{id}"),
        format!("RoleBinding {namespace}/aicr-{id}"),
        format!("ServiceAccount {namespace}/aicr-{id}"),
    ];
    assert_eq!(objects.keys().cloned().collect::<Vec<_>>(), expected);

    let job = scene.api::<Job>().get(&format!("aicr-{id}")).await.unwrap();
    let template = job.spec.as_ref().unwrap().template.metadata.clone().unwrap().labels.unwrap();
    let account = scene.api::<ServiceAccount>().get(&format!("aicr-{id}")).await.unwrap();
    for labels in [job.labels(), &template, account.labels()] {
        for (key, value) in [
            ("app.kubernetes.io/name", "aicr"),
            ("app.kubernetes.io/managed-by", "aicr"),
            ("app.kubernetes.io/component", "snapshot-agent"),
            ("aicr.run/run-id", id.as_str()),
        ] {
            assert_eq!(labels.get(key).map(String::as_str), Some(value), "{key}");
        }
        assert_eq!(labels["aicr.run/invocation-id"].len(), 32);
    }
    let staging = scene.api::<ConfigMap>().get(&format!("aicr-agent-snapshot-{id}")).await.unwrap();
    assert!(staging.managed_fields().iter().any(|field| field.manager.as_deref() == Some("aicr")));
    scene.remove_everything().await;
}

#[tokio::test]
async fn a_failed_job_exits_10_with_the_agents_last_lines_and_an_unchanged_file() {
    let scene = Scene::new("failed").await;
    scene.home.write("out.yaml", "old");
    let ran = scene.snapshot("fail-3").args(["-o", "out.yaml"]).run().await;
    ran.code(10).stdout_is("").stderr_has("collector failed").stderr_has("exit code 3");
    assert_eq!(scene.home.read("out.yaml"), "old");
    scene.assert_clean().await;
}

#[tokio::test]
async fn r26_a_missing_or_empty_document_is_an_error_and_never_an_empty_file() {
    for (script, problem) in
        [("no-write", "does not exist"), ("missing-key", "no key snapshot.yaml"), ("empty-document", "empty document")]
    {
        let scene = Scene::new(script).await;
        scene.home.write("out.yaml", "old");
        scene.snapshot(script).args(["-o", "out.yaml"]).run().await.code(1).stderr_has(problem);
        assert_eq!(scene.home.read("out.yaml"), "old", "{script}");
        scene.assert_clean().await;
    }
}

#[tokio::test]
async fn a_run_that_takes_too_long_exits_5_and_leaves_nothing() {
    let scene = Scene::new("timeout").await;
    scene.home.write("out.yaml", "old");
    let ran = scene.snapshot("hang").args(["-o", "out.yaml", "--timeout", "3s"]).run().await;
    ran.code(5).stderr_has("timed out after 3s");
    assert_eq!(scene.home.read("out.yaml"), "old");
    scene.assert_clean().await;
}

#[tokio::test]
async fn r42_each_signal_during_the_wait_cleans_up_and_has_its_exit_code() {
    for (signal, code) in [(Signal::HUP, 129), (Signal::INT, 130), (Signal::TERM, 143)] {
        let scene = Scene::new("signal").await;
        scene.home.write("out.yaml", "old");
        let running = scene.snapshot("hang").args(["-o", "out.yaml"]).spawn();
        scene.agent_runs().await;
        running.signal(signal);
        running.wait().await.code(code).stderr_has("deleted");
        assert_eq!(scene.home.read("out.yaml"), "old");
        scene.assert_clean().await;
    }
}

#[tokio::test]
async fn under_nohup_a_hangup_is_ignored_and_other_signals_are_not() {
    let scene = Scene::new("nohup").await;
    let running = scene.snapshot("hang").under(["nohup"]).spawn();
    scene.agent_runs().await;
    running.signal(Signal::HUP);
    running.signal(Signal::TERM);
    running.wait().await.code(143);
    scene.assert_clean().await;
}

#[tokio::test]
async fn r29_ctrl_c_while_a_create_is_on_its_way_leaves_nothing() {
    for (kind, hold) in [("serviceaccounts", before(Fault::Hold)), ("jobs", after(Fault::Hold))] {
        let proxy = Proxy::before(Bed::shared().await).start().await;
        let scene = Scene::behind("ctrl-c", &proxy).await;
        let held = proxy.on(post(&format!("**/{kind}")), hold);
        let mut running = scene.snapshot("hang").spawn();
        held.arrived().await;
        running.signal(Signal::INT);
        running.wait_stderr_contains("run ").await;
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        held.release();
        running.wait().await.code(130);
        scene.assert_clean().await;
    }
}

#[tokio::test]
async fn r42_a_second_signal_stops_at_once_and_says_how_to_finish() {
    let proxy = Proxy::before(Bed::shared().await).start().await;
    let scene = Scene::behind("twice", &proxy).await;
    let running = scene.snapshot("hang").spawn();
    scene.agent_runs().await;
    let held = proxy.on(delete("**"), before(Fault::Hold));
    running.signal(Signal::INT);
    held.arrived().await;
    running.signal(Signal::INT);
    running.wait().await.code(130).stderr_has(&format!("kubectl aicr cleanup {}", scene.run_id));
    held.release();
    scene.remove_everything().await;
}

#[tokio::test]
async fn three_runs_at_once_in_one_namespace_succeed_and_leave_nothing() {
    let scene = Scene::new("three").await;
    let ids: Vec<String> = (1..=3).map(|n| format!("{}-{n}", scene.run_id)).collect();
    let runs = ids.iter().map(|id| {
        let image = "registry.test/aicr:slow-1s";
        let namespace = scene.namespace.name.as_str();
        scene.home.aicr(["snapshot", "-n", namespace, "--image", image, "--run-id", id]).run()
    });
    for (ran, id) in futures::future::join_all(runs).await.iter().zip(&ids) {
        let document = scene.bed.document(&scene.namespace.name, &format!("aicr-{id}")).unwrap();
        ran.code(0).stdout_is(&document);
    }
    for id in ids {
        let scene = Scene { run_id: id, ..Scene::new("three-after").await };
        scene.assert_clean().await;
    }
    scene.assert_clean().await;
}

#[tokio::test]
async fn r6_a_second_run_under_the_same_run_id_is_refused_and_the_first_keeps_its_objects() {
    let scene = Scene::new("same-id").await;
    let first = scene.snapshot("slow-6s").spawn();
    scene.agent_runs().await;
    let before = scene.objects().await;
    assert_eq!(before.len(), 6);
    let second = scene.snapshot("success").run().await;
    second.code(1).stderr_has(&format!("run ID {} is in use", scene.run_id)).stderr_lacks("deleted");
    assert_eq!(scene.objects().await, before);
    first.wait().await.code(0).stdout_is(&scene.document());
    scene.assert_clean().await;
}

#[tokio::test]
async fn r26_json_and_table_show_the_document() {
    let scene = Scene::new("formats").await;
    let json = scene.snapshot("success").args(["--format", "json"]).run().await;
    assert_eq!(json.code(0).stdout_json()["kind"], "Snapshot");
    let table = scene.snapshot("success").args(["--format", "table"]).run().await;
    table.code(0).stdout_has("TYPE").stdout_has("gpu-count");
}

#[tokio::test]
async fn r7_a_config_map_that_the_user_names_is_written_and_kept() {
    let scene = Scene::new("cm").await;
    let namespace = scene.namespace.name.clone();
    let elsewhere = scene.bed.namespace("cm-elsewhere").await.name;
    for target in [&namespace, &elsewhere] {
        let destination = format!("cm://{target}/mine");
        scene.snapshot("success").args(["-o", &destination]).run().await.code(0).stdout_is("");
        let maps = Api::<ConfigMap>::namespaced(scene.client.clone(), target);
        let data = maps.get("mine").await.unwrap().data.unwrap();
        assert_eq!(data["snapshot.yaml"], scene.document());
        maps.delete("mine", &DeleteParams::default()).await.unwrap();
        scene.assert_clean().await;
    }
    let in_elsewhere = Scene { namespace: TestNamespace { name: elsewhere }, ..scene };
    in_elsewhere.assert_clean().await;
}

#[tokio::test]
async fn r26_a_document_of_an_earlier_run_is_not_taken_for_this_one() {
    let scene = Scene::new("stale").await;
    let destination = format!("cm://{}/mine", scene.namespace.name);
    scene.snapshot("success").args(["-o", &destination]).run().await.code(0);
    // Clocks of API servers may differ by seconds, so the second run has to be later than that.
    tokio::time::sleep(std::time::Duration::from_secs(7)).await;
    let ran = scene.snapshot("no-write").args(["-o", &destination]).run().await;
    ran.code(1).stderr_has("earlier run");
    let left: Vec<_> = scene.objects().await.into_keys().collect();
    assert_eq!(left, [format!("ConfigMap {}/mine", scene.namespace.name)]);
}

#[tokio::test]
async fn r7_the_namespace_is_made_labelled_or_left_and_never_deleted() {
    let scene = Scene::new("ns").await;
    let namespaces = Api::<Namespace>::all(scene.client.clone());
    let managed_by = async |name: &str| {
        let live = namespaces.get(name).await.unwrap();
        live.labels().get("app.kubernetes.io/managed-by").cloned()
    };
    scene.snapshot("success").run().await.code(0);
    assert_eq!(managed_by(&scene.namespace.name).await.as_deref(), Some("aicr"));

    let label = Patch::Merge(json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": "Helm" } } }));
    namespaces.patch(&scene.namespace.name, &PatchParams::default(), &label).await.unwrap();
    scene.snapshot("success").run().await.code(0).stderr_has("managed by Helm");
    assert_eq!(managed_by(&scene.namespace.name).await.as_deref(), Some("Helm"));

    let absent = format!("{}-new", scene.namespace.name);
    let image = "registry.test/aicr:success";
    let ran = scene.home.aicr(["snapshot", "-n", &absent, "--image", image, "--quiet"]).run().await;
    ran.code(0).stderr_is("");
    assert_eq!(managed_by(&absent).await.as_deref(), Some("aicr"));
}

#[tokio::test]
async fn r40_keep_job_leaves_the_job_and_takes_the_rights_away() {
    let scene = Scene::new("keep-job").await;
    scene.snapshot("fail").args(["--keep-job"]).run().await.code(10).stderr_has("kept");
    let objects = scene.objects().await;
    assert_eq!(
        objects.keys().cloned().collect::<Vec<_>>(),
        [format!("Job {}/aicr-{}", scene.namespace.name, scene.run_id)]
    );
    scene.remove_everything().await;
}

#[tokio::test]
async fn r8_a_restricted_run_passes_pod_security_restricted() {
    let mut scene = Scene::new("restricted").await;
    let labels = [("pod-security.kubernetes.io/enforce", "restricted")];
    scene.namespace = scene.bed.namespace_with_labels("restricted", &labels).await;
    scene.snapshot("success").args(["--privileged=false"]).run().await.code(0);
    scene.assert_clean().await;
}

#[tokio::test]
async fn r27_a_closed_stdout_is_no_panic_and_cleanup_still_runs() {
    let scene = Scene::new("closed").await;
    let mut running = scene.snapshot("slow-1s_big-512KiB").spawn();
    running.close_stdout().await;
    running.wait().await.code(141).stderr_lacks("panicked");
    scene.assert_clean().await;
}

#[tokio::test]
async fn r23_control_characters_of_the_log_never_reach_the_terminal() {
    let scene = Scene::new("control").await;
    let ran = scene.snapshot("control").run().await;
    ran.code(0);
    assert!(!ran.stderr_bytes().contains(&0x1b), "{}", ran.stderr());
}

#[tokio::test]
async fn r27_an_output_file_keeps_its_permissions() {
    use std::os::unix::fs::PermissionsExt as _;
    let scene = Scene::new("mode").await;
    let path = scene.home.write("out.yaml", "old");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    scene.snapshot("success").args(["-o", "out.yaml"]).run().await.code(0);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
}

#[tokio::test]
async fn r6_an_object_of_someone_else_at_a_name_of_the_run_is_left_untouched() {
    let scene = Scene::new("namesake").await;
    let name = format!("aicr-{}", scene.run_id);
    let account = ServiceAccount {
        metadata: kube::core::ObjectMeta { name: Some(name.clone()), ..Default::default() },
        ..Default::default()
    };
    let theirs = scene.api::<ServiceAccount>().create(&PostParams::default(), &account).await.unwrap();
    scene.snapshot("success").run().await.code(1).stderr_has("is in use");
    let live = scene.api::<ServiceAccount>().get(&name).await.unwrap();
    assert_eq!((live.uid(), live.resource_version()), (theirs.uid(), theirs.resource_version()));
    scene.assert_clean().await;
}
