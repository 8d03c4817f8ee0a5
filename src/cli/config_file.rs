//! `--config`: what flags leave open, from an `AICRConfig` document (R44).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_saphyr::{MessageFormatter as _, UserMessageFormatter};

use crate::cli::places::Places;
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
    spec: Option<Spec>,
}

#[derive(Default, Deserialize)]
struct Spec {
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

/// Reads and checks a configuration file. `writes` where no flag says otherwise where the document goes.
///
/// # Errors
/// [`Invalid`] naming the file, the line and the field, as far as there are any, and the rule.
pub(crate) fn read(path: &Path, writes: bool) -> Result<FromFile, Invalid> {
    let invalid = |rule: String| Invalid::new("--config", path.display().to_string(), rule);
    let text = fs::read_to_string(path).map_err(|error| invalid(format!("cannot be read: {error}")))?;
    parse(&text, writes).map_err(invalid)
}

fn parse(text: &str, writes: bool) -> Result<FromFile, String> {
    let places = Places::of(text);
    let at = |field: &str, problem: String| match places.line(field) {
        Some(line) => format!("line {line}: {problem}"),
        None => problem,
    };
    let document: Document = serde_saphyr::from_str(text).map_err(|error| unreadable(&error, &places))?;
    if document.kind.as_deref() != Some(KIND) {
        return Err(at("kind", format!("its kind must be {KIND}")));
    }
    if !document.api_version.as_deref().is_some_and(|version| API_VERSIONS.contains(&version)) {
        return Err(at("apiVersion", format!("its apiVersion must be {} or {}", API_VERSIONS[0], API_VERSIONS[1])));
    }
    let snapshot = document.spec.and_then(|spec| spec.snapshot);
    if snapshot.is_none() && places.line("spec.snapshot").is_none() {
        let others = places.below("spec").collect::<Vec<_>>().join(", ");
        let others = if others.is_empty() { others } else { format!(", only {others}") };
        return Err(at("spec", format!("it has no spec.snapshot{others}")));
    }
    let file = FromFile::from(snapshot.unwrap_or_default());
    // Checked on its own, so that what is wrong with it is said of its field and not of a flag.
    Request::check(&file.args, file.namespace.as_deref(), writes).map_err(|invalid| {
        match FIELDS.iter().find(|(flag, _)| *flag == invalid.input()) {
            Some((_, field)) => {
                let field = format!("spec.snapshot.{field}");
                at(&field, invalid.of(field.clone()).to_string())
            }
            None => invalid.to_string(),
        }
    })?;
    Ok(file)
}

/// What is wrong with a document that is not of the form it should have.
fn unreadable(error: &serde_saphyr::Error, places: &Places) -> String {
    use serde_saphyr::Error;
    let problem = match error.without_snippet() {
        Error::MultipleDocuments { .. } => return "it must hold one document, and holds more".to_owned(),
        Error::InvalidScalar { ty: "boolean", .. } => "must be true or false".to_owned(),
        Error::InvalidScalar { ty, .. } if ty.starts_with('u') => "must be a whole number".to_owned(),
        Error::SerdeUnknownField { expected, .. } => {
            format!("there is no such field; there are {}", expected.join(", "))
        }
        other => UserMessageFormatter.format_message(other).lines().next().unwrap_or_default().to_owned(),
    };
    let Some(place) = error.location().filter(|place| place.line() > 0) else { return problem };
    match places.field_at(place) {
        Some(field) => format!("line {}: {field}: {problem}", place.line()),
        None => format!("line {}: {problem}", place.line()),
    }
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

    fn parse(text: &str) -> Result<FromFile, String> {
        super::parse(text, false)
    }

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
    fn r44_the_documented_example_says_every_field() {
        let page = include_str!("../../docs/config.md");
        let (_, example) = page.split_once("```yaml\n").unwrap();
        let example = example.split("```").next().unwrap();
        parse(example).unwrap();
        let places = Places::of(example);
        for field in FIELDS.map(|(_, field)| field).into_iter().chain(["execution.noCleanup"]) {
            assert!(places.line(&format!("spec.snapshot.{field}")).is_some(), "{field}");
            assert!(page.contains(&format!("| `{field}` |")), "{field}");
        }
    }

    #[test]
    fn r44_a_wrong_value_or_type_is_said_with_line_and_field() {
        for (body, named) in [
            ("agent: { tolerations: [gpu] }", "agent.tolerations"),
            ("agent: { jobName: Upper }", "agent.jobName"),
            ("agent: { namespace: Not_One }", "agent.namespace"),
            ("agent: { requireGpu: true, runtimeClassName: nvidia }", "agent.runtimeClassName"),
            ("agent: { image: [x] }", "agent.image"),
            ("agent: { tolerations: [{ key: gpu }] }", "agent.tolerations"),
            ("agent: { tolerations: gpu }", "agent.tolerations"),
            ("agent: { requests: { cpu: 1 } }", "agent.requests"),
            ("execution: { timeout: soon }", "execution.timeout"),
            ("execution: { privileged: maybe }", "execution.privileged"),
            ("execution: { maxNodesPerEntry: many }", "execution.maxNodesPerEntry"),
            ("execution: { maxNodesPerEntry: 0 }", "execution.maxNodesPerEntry"),
            ("output: { path: yaml }", "output.path"),
            ("output: out.yaml", "output"),
        ] {
            let error = parse(&snapshot(body)).unwrap_err();
            assert!(
                error.starts_with("line 5: ") && error.contains(&format!("spec.snapshot.{named}: ")),
                "{body}: {error}"
            );
        }
    }

    #[test]
    fn r44_an_unknown_field_is_said_with_line_and_the_known_ones() {
        for (body, named, known) in [
            ("agent: { imagePullSecret: x }", "spec.snapshot.agent.imagePullSecret: ", "imagePullSecrets, "),
            ("surplus: 1", "spec.snapshot.surplus: ", "output, agent, execution"),
        ] {
            let error = parse(&snapshot(body)).unwrap_err();
            assert!(error.starts_with("line 5: ") && error.contains(named) && error.contains(known), "{body}: {error}");
        }
    }

    #[test]
    fn r44_a_spec_without_a_snapshot_is_refused_and_an_empty_snapshot_is_not() {
        const HEAD: &str = "kind: AICRConfig\napiVersion: aicr.run/v1beta1\n";
        for (spec, error) in [
            ("spec:\n  snapshoot: {}\n  recipe: {}\n", "line 3: it has no spec.snapshot, only snapshoot, recipe"),
            ("spec: {}\n", "line 3: it has no spec.snapshot"),
            ("spec:\n", "line 3: it has no spec.snapshot"),
            ("", "it has no spec.snapshot"),
        ] {
            assert_eq!(parse(&format!("{HEAD}{spec}")).unwrap_err(), error);
        }
        for spec in ["spec:\n  snapshot:\n", "spec: { snapshot: {} }\n"] {
            assert_eq!(parse(&format!("{HEAD}{spec}")).unwrap().args.image, None, "{spec}");
        }
    }

    #[test]
    fn r44_what_is_no_document_of_the_kind_is_said_in_words_of_the_file() {
        for (text, said) in [
            ("kind: Other\n".to_owned(), "line 1: its kind must be AICRConfig"),
            ("\nkind: AICRConfig\napiVersion: v1\n".to_owned(), "line 3: its apiVersion must be aicr.run/v1alpha2"),
            (format!("{FULL}---\n{FULL}"), "it must hold one document, and holds more"),
            ("kind: [".to_owned(), "line 1"),
            ("- kind: AICRConfig\n".to_owned(), "line 1: "),
            (String::new(), "its kind must be AICRConfig"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.starts_with(said), "{text}: {error}");
            assert!(!error.contains("from_str") && !error.contains("struct "), "{text}: {error}");
        }
    }

    #[test]
    fn r44_a_destination_that_cannot_be_written_is_the_files_unless_a_flag_names_another() {
        let text = snapshot("output: { path: no/such/folder/out.yaml }");
        let error = super::parse(&text, true).unwrap_err();
        assert!(error.starts_with("line 5: ") && error.contains("spec.snapshot.output.path: "), "{error}");
        assert_eq!(parse(&text).unwrap().args.output.as_deref(), Some("no/such/folder/out.yaml"));
    }
}
