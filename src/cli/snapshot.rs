//! The flags of `kubectl aicr snapshot`. A missing one leaves the choice to the configuration file, then to the default.

#![expect(clippy::doc_markdown, reason = "comments on flags are help texts, shown as they stand")]

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use crate::agent::config;
use crate::cli::values;

/// What checks the objects that are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    /// A real run, not a dry one
    None,
    /// Asks no cluster: does not know of GPU nodes that a run would choose, nor of accounts that exist
    Client,
    /// Has a run's checks and the API server look at everything
    Server,
}

/// What `snapshot` takes beside the connection flags.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SnapshotArgs {
    /// Where the document goes: a file, cm://NAMESPACE/NAME, or - for stdout [default: -]
    #[arg(short, long, value_name = "DEST", value_hint = ValueHint::AnyPath, help_heading = "Output")]
    pub(crate) output: Option<String>,
    /// How a file or stdout shows the document: yaml, json or table [default: yaml]
    #[arg(long, value_name = "FORMAT", help_heading = "Output")]
    pub(crate) format: Option<String>,
    /// Show warnings and errors only
    #[arg(short, long, help_heading = "Output")]
    pub(crate) quiet: Option<bool>,
    /// Also write what happened as JSON to a file, however the run ends
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub(crate) report: Option<PathBuf>,

    #[arg(
        long, allow_hyphen_values = true, value_name = "IMAGE", help_heading = "Agent",
        help = format!("The agent's image [default: {}]", config::DEFAULT_IMAGE)
    )]
    pub(crate) image: Option<String>,
    /// Secret to pull the image with; may be repeated
    #[arg(long, value_name = "NAME", help_heading = "Agent")]
    pub(crate) image_pull_secret: Option<Vec<String>>,
    /// Prefix of the Job's name
    #[arg(long, allow_hyphen_values = true, value_name = "PREFIX", help_heading = "Agent")]
    pub(crate) job_name: Option<String>,
    /// ServiceAccount to run as if it exists, else the prefix of the run's own
    #[arg(long, allow_hyphen_values = true, value_name = "NAME", help_heading = "Agent")]
    pub(crate) service_account_name: Option<String>,
    /// Labels of the nodes that may run the agent, as key=value; may be repeated
    #[arg(long, allow_hyphen_values = true, value_name = "LABELS", help_heading = "Agent")]
    pub(crate) node_selector: Option<Vec<String>>,
    /// Taint to tolerate, as key=value:Effect, key:Effect or * [default: all]; may be repeated
    #[arg(long, allow_hyphen_values = true, value_name = "TAINT", help_heading = "Agent")]
    pub(crate) toleration: Option<Vec<String>>,
    /// Run privileged, in the node's namespaces [default: true]
    #[arg(long, help_heading = "Agent")]
    pub(crate) privileged: Option<bool>,
    /// Ask for one GPU
    #[arg(long, help_heading = "Agent")]
    pub(crate) require_gpu: Option<bool>,
    /// RuntimeClass of the agent's pod; excludes --require-gpu
    #[arg(long, value_name = "NAME", help_heading = "Agent")]
    pub(crate) runtime_class: Option<String>,
    /// Operating system of the nodes, such as ubuntu or talos
    #[arg(long, value_name = "NAME", help_heading = "Agent")]
    pub(crate) os: Option<String>,
    /// Resource requests that replace the default ones, as cpu=1,memory=4Gi
    #[arg(long, allow_hyphen_values = true, value_name = "RESOURCES", help_heading = "Agent")]
    pub(crate) requests: Option<Vec<String>>,
    /// Resource limits that replace the default ones, as cpu=2,memory=8Gi
    #[arg(long, allow_hyphen_values = true, value_name = "RESOURCES", help_heading = "Agent")]
    pub(crate) limits: Option<Vec<String>>,
    /// Largest number of nodes that one entry of the topology names
    #[arg(long, value_name = "N", value_parser = values::nodes, help_heading = "Agent")]
    pub(crate) max_nodes_per_entry: Option<u32>,
    /// Let the agent discover the network; this grants it rights that change the cluster
    #[arg(long, help_heading = "Agent")]
    pub(crate) discover_network: Option<bool>,
    /// Have the agent log in detail
    #[arg(long, help_heading = "Agent")]
    pub(crate) debug: Option<bool>,

    /// Read what no flag says from the spec.snapshot of an AICRConfig document; docs/config.md lists its fields
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Run")]
    pub(crate) config: Option<PathBuf>,
    /// Run ID [default: generated]
    #[arg(long, allow_hyphen_values = true, value_name = "ID", help_heading = "Run")]
    pub(crate) run_id: Option<String>,
    /// How long the run may take after its checks, such as 90s or 1h [default: 5m]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", help_heading = "Run")]
    pub(crate) timeout: Option<String>,
    /// How long cleanup may take [default: 30s]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", help_heading = "Run")]
    pub(crate) cleanup_timeout: Option<String>,
    /// Print what a run would create, and create nothing
    #[arg(
        long, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "client",
        help_heading = "Run"
    )]
    pub(crate) dry_run: Option<DryRun>,
    /// Keep everything that the run creates
    #[arg(long, help_heading = "Run")]
    pub(crate) no_cleanup: Option<bool>,
    /// Keep Job, pod and log; take the agent's rights away
    #[arg(long, help_heading = "Run")]
    pub(crate) keep_job: Option<bool>,
}

impl SnapshotArgs {
    /// These flags, and what they leave open as a configuration file has it (R44).
    pub(crate) fn or(self, file: Self) -> Self {
        Self {
            output: self.output.or(file.output),
            format: self.format.or(file.format),
            image: self.image.or(file.image),
            image_pull_secret: self.image_pull_secret.or(file.image_pull_secret),
            job_name: self.job_name.or(file.job_name),
            service_account_name: self.service_account_name.or(file.service_account_name),
            node_selector: self.node_selector.or(file.node_selector),
            toleration: self.toleration.or(file.toleration),
            privileged: self.privileged.or(file.privileged),
            require_gpu: self.require_gpu.or(file.require_gpu),
            runtime_class: self.runtime_class.or(file.runtime_class),
            os: self.os.or(file.os),
            requests: self.requests.or(file.requests),
            limits: self.limits.or(file.limits),
            max_nodes_per_entry: self.max_nodes_per_entry.or(file.max_nodes_per_entry),
            timeout: self.timeout.or(file.timeout),
            no_cleanup: self.no_cleanup.or(file.no_cleanup),
            ..self
        }
    }
}
