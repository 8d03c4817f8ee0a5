//! What `kubectl aicr snapshot` takes, made into a request that is valid as far as no cluster is needed to tell.

#![expect(clippy::doc_markdown, reason = "comments on flags are help texts, shown as they stand")]

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args};

use crate::agent::config::{self, Config, Keep, Output};
use crate::agent::run_id::RunId;
use crate::cli::values;
use crate::deliver;
use crate::error::Invalid;
use crate::report::document::Format;

/// What `snapshot` takes beside the connection flags.
#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct SnapshotArgs {
    /// Where the document goes: a file, cm://NAMESPACE/NAME, or - for stdout
    #[arg(short, long, value_name = "DEST", default_value = "-", help_heading = "Output")]
    output: String,
    /// How a file or stdout shows the document: yaml, json or table
    #[arg(long, value_name = "FORMAT", default_value = "yaml", help_heading = "Output")]
    format: String,
    /// Show warnings and errors only
    #[arg(short, long, help_heading = "Output")]
    quiet: bool,
    /// Also write what happened as JSON to a file, however the run ends
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    report: Option<PathBuf>,

    /// The agent's image
    #[arg(long, allow_hyphen_values = true, value_name = "IMAGE", default_value = config::DEFAULT_IMAGE, help_heading = "Agent")]
    image: String,
    /// Secret to pull the image with; may be repeated
    #[arg(long, value_name = "NAME", help_heading = "Agent")]
    image_pull_secret: Vec<String>,
    /// Prefix of the Job's name
    #[arg(long, allow_hyphen_values = true, value_name = "PREFIX", help_heading = "Agent")]
    job_name: Option<String>,
    /// ServiceAccount to run as if it exists, else the prefix of the run's own
    #[arg(long, allow_hyphen_values = true, value_name = "NAME", help_heading = "Agent")]
    service_account_name: Option<String>,
    /// Labels of the nodes that may run the agent, as key=value; may be repeated
    #[arg(long, allow_hyphen_values = true, value_name = "LABELS", help_heading = "Agent")]
    node_selector: Vec<String>,
    /// Taint to tolerate, as key=value:Effect, key:Effect or * [default: all]; may be repeated
    #[arg(long, allow_hyphen_values = true, value_name = "TAINT", help_heading = "Agent")]
    toleration: Vec<String>,
    /// Run privileged, in the node's namespaces
    #[arg(
        long, value_name = "BOOL", default_value = "true", default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set, value_parser = BoolishValueParser::new(), help_heading = "Agent"
    )]
    privileged: bool,
    /// Ask for one GPU
    #[arg(long, help_heading = "Agent")]
    require_gpu: bool,
    /// RuntimeClass of the agent's pod; excludes --require-gpu
    #[arg(long, value_name = "NAME", help_heading = "Agent")]
    runtime_class: Option<String>,
    /// Operating system of the nodes, such as ubuntu or talos
    #[arg(long, value_name = "NAME", help_heading = "Agent")]
    os: Option<String>,
    /// Resource requests that replace the default ones, as cpu=1,memory=4Gi
    #[arg(long, allow_hyphen_values = true, value_name = "RESOURCES", help_heading = "Agent")]
    requests: Vec<String>,
    /// Resource limits that replace the default ones, as cpu=2,memory=8Gi
    #[arg(long, allow_hyphen_values = true, value_name = "RESOURCES", help_heading = "Agent")]
    limits: Vec<String>,
    /// Largest number of nodes that one entry of the topology names
    #[arg(long, value_name = "N", help_heading = "Agent")]
    max_nodes_per_entry: Option<u32>,
    /// Let the agent discover the network; this grants it rights that change the cluster
    #[arg(long, help_heading = "Agent")]
    discover_network: bool,
    /// Have the agent log in detail
    #[arg(long, help_heading = "Agent")]
    debug: bool,

    /// Run ID [default: generated]
    #[arg(long, allow_hyphen_values = true, value_name = "ID", help_heading = "Run")]
    run_id: Option<String>,
    /// How long the run may take after its checks, such as 90s or 1h
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", default_value = "5m", help_heading = "Run")]
    timeout: String,
    /// How long cleanup may take
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", default_value = "30s", help_heading = "Run")]
    cleanup_timeout: String,
    /// Keep everything that the run creates
    #[arg(long, conflicts_with = "keep_job", help_heading = "Run")]
    no_cleanup: bool,
    /// Keep Job, pod and log; take the agent's rights away
    #[arg(long, help_heading = "Run")]
    keep_job: bool,
}

/// Where the document goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Stdout,
    File(PathBuf),
    ConfigMap(Output),
}

/// A run as its flags describe it: valid as far as no cluster is needed to tell.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) config: Config,
    pub(crate) destination: Destination,
    pub(crate) format: Format,
    pub(crate) quiet: bool,
}

impl SnapshotArgs {
    /// The destination as it was given.
    pub(crate) fn output(&self) -> &str {
        &self.output
    }

    /// Where the report goes, if one is wanted and can be written.
    pub(crate) fn report(&self) -> Result<Option<PathBuf>, Invalid> {
        if let Some(path) = &self.report {
            deliver::check_destination("--report", path)?;
        }
        Ok(self.report.clone())
    }
}

impl Request {
    /// Checks everything that can be checked without a cluster, the destination included.
    pub(crate) fn new(args: SnapshotArgs) -> Result<Self, Invalid> {
        let destination = destination(&args.output)?;
        let format = args.format.parse::<Format>().map_err(|rule| Invalid::new("--format", &args.format, rule))?;
        if let Destination::ConfigMap(_) = destination
            && format != Format::Yaml
        {
            let rule = "the agent itself writes a cm:// output, always as yaml: leave --format out";
            return Err(Invalid::new("--format", args.format, rule));
        }
        if let Destination::File(path) = &destination {
            deliver::check_destination("--output", path)?;
        }
        let quiet = args.quiet;
        Ok(Self { config: configuration(args, &destination)?, destination, format, quiet })
    }
}

fn configuration(args: SnapshotArgs, destination: &Destination) -> Result<Config, Invalid> {
    let selector = values::node_selector(args.node_selector.iter().map(String::as_str))?;
    let tolerations = args.toleration.iter().map(|text| values::toleration(text)).collect::<Result<Vec<_>, _>>()?;
    let given = |value: Option<String>| value.filter(|value| !value.is_empty());
    Ok(Config {
        run_id: given(args.run_id).map(|id| RunId::parse(&id)).transpose()?,
        job_name: given(args.job_name),
        service_account_name: given(args.service_account_name),
        image: args.image,
        image_pull_secrets: args.image_pull_secret,
        node_selector: (!selector.is_empty()).then_some(selector),
        tolerations: (!tolerations.is_empty()).then_some(tolerations),
        privileged: args.privileged,
        require_gpu: args.require_gpu,
        runtime_class: given(args.runtime_class),
        os: given(args.os),
        requests: values::quantities("--requests", args.requests.iter().map(String::as_str))?,
        limits: values::quantities("--limits", args.limits.iter().map(String::as_str))?,
        max_nodes_per_entry: args.max_nodes_per_entry,
        discover_network: args.discover_network,
        debug: args.debug,
        output: match destination {
            Destination::ConfigMap(output) => output.clone(),
            Destination::Stdout | Destination::File(_) => Output::Staging,
        },
        keep: match (args.no_cleanup, args.keep_job) {
            (true, _) => Keep::Everything,
            (false, true) => Keep::Job,
            (false, false) => Keep::Nothing,
        },
        timeout: values::duration("--timeout", &args.timeout)?,
        cleanup_timeout: values::duration("--cleanup-timeout", &args.cleanup_timeout)?,
        ..Config::default()
    })
}

fn destination(text: &str) -> Result<Destination, Invalid> {
    const FORMATS: [&str; 7] = ["yaml", "json", "table", "wide", "name", "jsonpath", "custom-columns"];
    let word = text.split_once('=').map_or(text, |(word, _)| word);
    if FORMATS.contains(&word) {
        let rule = format!("-o names where the document goes; for a format pass --format {word}, for a file ./{word}");
        return Err(Invalid::new("--output", text, rule));
    }
    match text {
        "" => Err(Invalid::new("--output", text, "must be a file, cm://NAMESPACE/NAME, or - for stdout")),
        "-" => Ok(Destination::Stdout),
        _ if text.starts_with("cm:") => {
            text.parse().map(Destination::ConfigMap).map_err(|rule| Invalid::new("--output", text, rule))
        }
        _ => Ok(Destination::File(text.into())),
    }
}
