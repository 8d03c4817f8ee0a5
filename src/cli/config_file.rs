//! `--config`: what flags leave open, from an `AICRConfig` document (R44).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::cli::request::Request;
use crate::cli::snapshot::SnapshotArgs;
use crate::error::Invalid;

/// The document's kind.
const KIND: &str = "AICRConfig";

/// Versions of the document that are read. They agree on `spec.snapshot`.
const API_VERSIONS: [&str; 2] = ["aicr.run/v1alpha2", "aicr.run/v1beta1"];

/// Which field a flag's value comes from.
const FIELDS: [(&str, &str); 17] = [
    ("--output", "output.path"),
    ("--format", "output.format"),
    ("--namespace", "agent.namespace"),
    ("--image", "agent.image"),
    ("--image-pull-secret", "agent.imagePullSecrets"),
    ("--job-name", "agent.jobName"),
    ("--service-account-name", "agent.serviceAccountName"),
    ("--node-selector", "agent.nodeSelector"),
    ("--toleration", "agent.tolerations"),
    ("--require-gpu", "agent.requireGpu"),
    ("--runtime-class", "agent.runtimeClassName"),
    ("--os", "agent.os"),
    ("--requests", "agent.requests"),
    ("--limits", "agent.limits"),
    ("--timeout", "execution.timeout"),
    ("--privileged", "execution.privileged"),
    ("--max-nodes-per-entry", "execution.maxNodesPerEntry"),
];

/// What a configuration file says.
#[derive(Debug, Default)]
pub(crate) struct FromFile {
    pub(crate) args: SnapshotArgs,
    pub(crate) namespace: Option<String>,
}

// The document's other fields belong to other commands.
#[derive(Deserialize)]
struct Document {
    kind: Option<String>,
    #[serde(rename = "apiVersion")]
    api_version: Option<String>,
    #[serde(default)]
    spec: Spec,
}

#[derive(Default, Deserialize)]
struct Spec {
    #[serde(default)]
    snapshot: Option<Snapshot>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Snapshot {
    #[serde(default)]
    output: Option<Output>,
    #[serde(default)]
    agent: Option<Agent>,
    #[serde(default)]
    execution: Option<Execution>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Output {
    path: Option<String>,
    format: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Agent {
    namespace: Option<String>,
    image: Option<String>,
    image_pull_secrets: Option<Vec<String>>,
    job_name: Option<String>,
    service_account_name: Option<String>,
    node_selector: Option<BTreeMap<String, String>>,
    tolerations: Option<Vec<String>>,
    require_gpu: Option<bool>,
    runtime_class_name: Option<String>,
    os: Option<String>,
    requests: Option<String>,
    limits: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Execution {
    timeout: Option<String>,
    no_cleanup: Option<bool>,
    privileged: Option<bool>,
    max_nodes_per_entry: Option<u32>,
}

/// Reads and checks a configuration file.
///
/// # Errors
/// [`Invalid`] naming the file and the line, or the field, its value and the rule.
pub(crate) fn read(path: &Path) -> Result<FromFile, Invalid> {
    let invalid = |rule: String| Invalid::new("--config", path.display().to_string(), rule);
    let text = fs::read_to_string(path).map_err(|error| invalid(format!("cannot be read: {error}")))?;
    parse(&text).map_err(invalid)
}

fn parse(text: &str) -> Result<FromFile, String> {
    let document: Document = serde_saphyr::from_str(text).map_err(|error| {
        // The first line says all; a drawing of the place follows.
        let text = error.to_string();
        text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
    })?;
    if document.kind.as_deref() != Some(KIND) {
        return Err(format!("its kind must be {KIND}"));
    }
    if !document.api_version.as_deref().is_some_and(|version| API_VERSIONS.contains(&version)) {
        return Err(format!("its apiVersion must be {} or {}", API_VERSIONS[0], API_VERSIONS[1]));
    }
    let file = FromFile::from(document.spec.snapshot.unwrap_or_default());
    // Checked on its own, so that what is wrong with it is said of its field and not of a flag.
    Request::check(&file.args, file.namespace.as_deref()).map_err(|invalid| {
        let field = FIELDS.iter().find(|(flag, _)| *flag == invalid.input()).map(|(_, field)| *field);
        field.map_or_else(
            || invalid.to_string(),
            |field| invalid.clone().of(format!("spec.snapshot.{field}")).to_string(),
        )
    })?;
    Ok(file)
}

impl From<Snapshot> for FromFile {
    fn from(snapshot: Snapshot) -> Self {
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let output = snapshot.output.unwrap_or_default();
        let agent = snapshot.agent.unwrap_or_default();
        let execution = snapshot.execution.unwrap_or_default();
        let selector =
            agent.node_selector.map(|labels| labels.iter().map(|(key, value)| format!("{key}={value}")).collect());
        let args = SnapshotArgs {
            output: given(output.path),
            format: given(output.format),
            image: given(agent.image),
            image_pull_secret: agent.image_pull_secrets,
            job_name: given(agent.job_name),
            service_account_name: given(agent.service_account_name),
            node_selector: selector,
            toleration: agent.tolerations,
            privileged: execution.privileged,
            require_gpu: agent.require_gpu,
            runtime_class: given(agent.runtime_class_name),
            os: given(agent.os),
            requests: given(agent.requests).map(|text| vec![text]),
            limits: given(agent.limits).map(|text| vec![text]),
            max_nodes_per_entry: execution.max_nodes_per_entry,
            timeout: given(execution.timeout),
            no_cleanup: execution.no_cleanup,
            ..SnapshotArgs::default()
        };
        Self { args, namespace: given(agent.namespace) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = r#"
kind: AICRConfig
apiVersion: aicr.run/v1alpha2
metadata: { name: nightly }
spec:
  recipe: { anything: [goes] }
  snapshot:
    output: { path: out.yaml, format: json }
    agent:
      namespace: gpu
      image: ghcr.io/nvidia/aicr:v1.1.1
      imagePullSecrets: [registry]
      jobName: nightly
      serviceAccountName: irsa-sa
      nodeSelector: { nvidia.com/gpu.present: "true" }
      tolerations: ["gpu=yes:NoSchedule"]
      requireGpu: true
      runtimeClassName: ""
      os: ubuntu
      requests: cpu=1,memory=2Gi
      limits: cpu=2
    execution: { timeout: 10m, noCleanup: false, privileged: true, maxNodesPerEntry: 20 }
"#;

    #[test]
    fn r44_every_field_reaches_its_flag_and_other_sections_are_not_read() {
        let FromFile { args, namespace } = parse(FULL).unwrap();
        assert_eq!(namespace.as_deref(), Some("gpu"));
        assert_eq!(args.output.as_deref(), Some("out.yaml"));
        assert_eq!(args.format.as_deref(), Some("json"));
        assert_eq!(args.image.as_deref(), Some("ghcr.io/nvidia/aicr:v1.1.1"));
        assert_eq!(args.image_pull_secret, Some(vec!["registry".to_owned()]));
        assert_eq!(args.job_name.as_deref(), Some("nightly"));
        assert_eq!(args.service_account_name.as_deref(), Some("irsa-sa"));
        assert_eq!(args.node_selector, Some(vec!["nvidia.com/gpu.present=true".to_owned()]));
        assert_eq!(args.toleration, Some(vec!["gpu=yes:NoSchedule".to_owned()]));
        assert_eq!((args.require_gpu, args.no_cleanup, args.privileged), (Some(true), Some(false), Some(true)));
        assert_eq!(args.runtime_class, None, "an empty string means absent");
        assert_eq!(args.os.as_deref(), Some("ubuntu"));
        assert_eq!(args.requests, Some(vec!["cpu=1,memory=2Gi".to_owned()]));
        assert_eq!(args.limits, Some(vec!["cpu=2".to_owned()]));
        assert_eq!((args.timeout.as_deref(), args.max_nodes_per_entry), (Some("10m"), Some(20)));
    }

    fn snapshot(body: &str) -> String {
        format!("kind: AICRConfig\napiVersion: aicr.run/v1beta1\nspec:\n  snapshot:\n    {body}\n")
    }

    #[test]
    fn r44_an_absent_list_means_the_default_and_an_empty_one_none() {
        let absent = parse(&snapshot("agent: {}")).unwrap().args;
        assert_eq!((absent.toleration, absent.image_pull_secret, absent.node_selector), (None, None, None));
        let empty =
            parse(&snapshot("agent: { tolerations: [], imagePullSecrets: [], nodeSelector: {} }")).unwrap().args;
        assert_eq!(empty.toleration, Some(Vec::new()));
        let config = Request::new(empty).unwrap().config;
        assert_eq!((config.tolerations, config.node_selector), (Some(Vec::new()), Some(BTreeMap::new())));
    }

    #[test]
    fn r44_a_flag_wins_over_the_file() {
        let flags = SnapshotArgs {
            timeout: Some("90s".to_owned()),
            require_gpu: Some(false),
            toleration: Some(vec!["*".to_owned()]),
            ..SnapshotArgs::default()
        };
        let args = flags.or(parse(FULL).unwrap().args);
        assert_eq!((args.timeout.as_deref(), args.require_gpu), (Some("90s"), Some(false)));
        assert_eq!(args.toleration, Some(vec!["*".to_owned()]));
        assert_eq!(args.job_name.as_deref(), Some("nightly"));
    }

    #[test]
    fn r44_errors_name_the_field_or_the_line() {
        for (body, named) in [
            ("agent: { tolerations: [gpu] }", "spec.snapshot.agent.tolerations"),
            ("agent: { jobName: Upper }", "spec.snapshot.agent.jobName"),
            ("agent: { namespace: Not_One }", "spec.snapshot.agent.namespace"),
            ("execution: { timeout: soon }", "spec.snapshot.execution.timeout"),
            ("output: { path: yaml }", "spec.snapshot.output.path"),
            ("agent: { imagePullSecret: x }", "imagePullSecret"),
            ("execution: { privileged: maybe }", "line 5"),
            ("surplus: 1", "surplus"),
        ] {
            let error = parse(&snapshot(body)).unwrap_err();
            assert!(error.contains(named), "{body}: {error}");
        }
        for (text, named) in [
            ("kind: Other\n", "kind must be AICRConfig"),
            ("kind: AICRConfig\napiVersion: v1\n", "aicr.run/v1alpha2"),
            ("kind: [", "line"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
