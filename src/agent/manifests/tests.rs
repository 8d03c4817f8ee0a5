//! Every object of a run, as SPEC has it field by field.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::*;

fn render(config: &Config) -> String {
    let identity = Identity {
        run_id: RunId::parse("20260821-142233-9f3a1c0b7e2d4a55").unwrap(),
        invocation_id: InvocationId::recorded("20260821-142234-0011223344556677".to_owned()),
    };
    let names = Names::new(config, &identity.run_id).unwrap();
    let account = Account::Owned { name: names.account.clone() };
    let plan = Plan::new(config, &identity, &names, &account);
    let bodies: Vec<_> = plan.all().map(|manifest| &manifest.body).collect();
    serde_json::to_string_pretty(&bodies).unwrap()
}

fn gpu_namespace() -> Config {
    Config { namespace: "gpu".to_owned(), ..Config::default() }
}

/// The Job alone, where RBAC is the same.
fn render_job(config: &Config) -> String {
    let all: Vec<serde_json::Value> = serde_json::from_str(&render(config)).unwrap();
    serde_json::to_string_pretty(all.last().unwrap()).unwrap()
}

#[test]
fn r8_r9_all_objects_of_a_privileged_run() {
    insta::assert_snapshot!(render(&gpu_namespace()));
}

#[test]
fn r8_the_restricted_job() {
    insta::assert_snapshot!(render_job(&Config { privileged: false, ..gpu_namespace() }));
}

#[test]
fn r8_the_talos_job_mounts_nothing_of_the_host() {
    insta::assert_snapshot!(render_job(&Config { os: Some("talos".to_owned()), ..gpu_namespace() }));
}

#[test]
fn r8_the_job_that_requires_a_gpu() {
    let job = render_job(&Config {
        require_gpu: true,
        node_selector: Some([("nvidia.com/gpu.present".to_owned(), "true".to_owned())].into()),
        tolerations: Some(Vec::new()),
        ..gpu_namespace()
    });
    insta::assert_snapshot!(job);
}

#[test]
fn r8_a_gpu_limit_of_the_user_wins() {
    let gpus = |config: &Config| {
        let job: serde_json::Value = serde_json::from_str(&render_job(config)).unwrap();
        job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"].clone()
    };
    let limits: BTreeMap<_, _> = [("nvidia.com/gpu".to_owned(), Quantity("4".to_owned()))].into();
    assert_eq!(gpus(&Config { require_gpu: true, limits, ..gpu_namespace() }), "4");
    assert_eq!(gpus(&Config { require_gpu: true, privileged: false, ..gpu_namespace() }), serde_json::Value::Null);
}

#[test]
fn r8_the_job_of_a_runtime_class_sees_all_gpus() {
    let job = render_job(&Config {
        runtime_class: Some("nvidia".to_owned()),
        image_pull_secrets: vec!["registry".to_owned()],
        max_nodes_per_entry: Some(50),
        ..gpu_namespace()
    });
    insta::assert_snapshot!(job);
}

#[test]
fn r9_all_objects_of_a_run_that_discovers_the_network() {
    insta::assert_snapshot!(render(&Config { discover_network: true, ..gpu_namespace() }));
}

#[test]
fn r8_the_debug_job_logs_json_before_the_subcommand() {
    let job: serde_json::Value = serde_json::from_str(&render_job(&Config { debug: true, ..gpu_namespace() })).unwrap();
    assert_eq!(
        job["spec"]["template"]["spec"]["containers"][0]["args"],
        serde_json::json!([
            "--debug",
            "--log-json",
            "snapshot",
            "-o",
            "cm://gpu/aicr-agent-snapshot-20260821-142233-9f3a1c0b7e2d4a55"
        ])
    );
}

#[test]
fn r16_an_output_elsewhere_gets_its_own_role_with_the_config_map_rule_alone() {
    let output = Output::ConfigMap { namespace: "reports".to_owned(), name: "snap".to_owned() };
    insta::assert_snapshot!(render(&Config { output, ..gpu_namespace() }));
}

#[test]
fn r11_an_existing_account_brings_no_rbac() {
    let config = gpu_namespace();
    let identity = Identity { run_id: crate::run_id::generate(), invocation_id: InvocationId::generate() };
    let names = Names::new(&config, &identity.run_id).unwrap();
    let account = Account::Existing { name: "irsa-sa".to_owned() };
    let plan = Plan::new(&config, &identity, &names, &account);
    assert_eq!(plan.all().map(|manifest| manifest.object.kind).collect::<Vec<_>>(), [Kind::Job]);
    assert_eq!(plan.job.body["spec"]["template"]["spec"]["serviceAccountName"], "irsa-sa");
}
