//! `--report`: what a pipeline reads of a run, on every way out (R40).

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::scene::Scene;

fn report(scene: &Scene) -> Value {
    serde_json::from_str(&scene.home.read("report.json")).unwrap()
}

#[tokio::test]
async fn r40_a_good_run_reports_identity_phases_and_the_fate_of_every_object() {
    let scene = Scene::new("report").await;
    scene.snapshot("success").args(["-o", "out.yaml", "--report", "report.json"]).run().await.code(0);
    let report = report(&scene);
    assert_eq!(report["schemaVersion"], 1);
    assert_eq!(report["runId"], scene.run_id.as_str());
    assert_eq!(report["invocationId"].as_str().unwrap().len(), 32);
    assert_eq!(report["cluster"]["server"], scene.bed.server());
    assert_eq!(report["namespace"], scene.namespace.name.as_str());
    assert_eq!(report["serviceAccount"], json!({ "name": format!("aicr-{}", scene.run_id), "owned": true }));
    assert_eq!(report["output"], "out.yaml");
    let phases: Vec<_> = report["phases"].as_array().unwrap().iter().map(|phase| phase["name"].clone()).collect();
    assert_eq!(phases, ["preflight", "deploy", "wait", "fetch", "deliver", "cleanup"]);
    let objects = report["objects"].as_array().unwrap();
    assert_eq!(objects.len(), 7);
    for object in objects {
        assert_eq!((&object["fate"], &object["reason"]), (&json!("deleted"), &Value::Null), "{object}");
        assert!(object["uid"].is_string(), "{object}");
    }
    assert_eq!(report["outcome"], json!({ "exitCode": 0, "reason": "Succeeded", "message": null }));
    assert_eq!(report.get("evidence"), None);
}

#[tokio::test]
async fn r24_r40_a_failed_run_reports_its_evidence() {
    let scene = Scene::new("report-failed").await;
    scene.snapshot("fail-3").args(["--quiet", "--report", "report.json"]).run().await.code(10);
    let report = report(&scene);
    assert_eq!(report["outcome"]["exitCode"], 10);
    assert_eq!(report["outcome"]["reason"], "JobFailed");
    let evidence = &report["evidence"];
    assert!(evidence["pods"].to_string().contains("exit code 3"), "{evidence}");
    assert!(evidence["log"].to_string().contains("collector failed"), "{evidence}");
    assert!(evidence["events"].to_string().contains("SuccessfulCreate"), "{evidence}");
}

#[tokio::test]
async fn r40_an_interrupted_run_and_bad_input_report_too() {
    let scene = Scene::new("report-int").await;
    let running = scene.snapshot("hang").args(["--report", "report.json"]).spawn();
    scene.agent_runs().await;
    running.signal(Signal::TERM);
    running.wait().await.code(143);
    assert_eq!(report(&scene)["outcome"]["reason"], "Interrupted");

    scene.snapshot("success").args(["--timeout", "never", "--report", "report.json"]).run().await.code(2);
    let report = report(&scene);
    assert_eq!(report["outcome"]["reason"], "Invalid");
    assert!(report["outcome"]["message"].as_str().unwrap().contains("--timeout"), "{report}");

    scene.snapshot("success").args(["--report", "no/such/dir.json"]).run().await.code(2).stderr_has("--report");
}

#[tokio::test]
async fn r40_a_report_replaces_no_document_and_goes_to_no_stdout() {
    let scene = Scene::new("report-place").await;
    let cwd = scene.home.path().to_owned();
    for (output, report) in [("out.yaml", "out.yaml".into()), ("./out.yaml", cwd.join("out.yaml"))] {
        let ran = scene.snapshot("success").args(["-o", output]).arg("--report").arg(report).run().await;
        ran.code(2).stderr_has("must be another file than --output");
    }
    scene.snapshot("success").args(["--report", "-"]).run().await.code(2).stderr_has("stdout is for the document");
    scene.assert_clean().await;
}
