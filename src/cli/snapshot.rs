//! `kubectl aicr snapshot`: one run from flags to exit code.

#![expect(clippy::doc_markdown, reason = "comments on flags are help texts, shown as they stand")]

use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args};

use crate::agent::cleanup::Removal;
use crate::agent::config::{self, Config, Keep, Output};
use crate::agent::deployer::Deployer;
use crate::agent::run_id::RunId;
use crate::cli::signals::Signals;
use crate::cli::state_dir;
use crate::cli::values;
use crate::deliver;
use crate::error::{Error, Invalid, Signal};
use crate::kubeconfig::Connection;
use crate::report::document::{self, Format};
use crate::report::progress::Progress;
use crate::report::summary;

/// A bound for calls where `--request-timeout=0` asks for none.
const UNBOUNDED: Duration = Duration::from_hours(24);

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
enum Destination {
    Stdout,
    File(PathBuf),
    ConfigMap(Output),
}

/// A run as its flags describe it: valid as far as no cluster is needed to tell.
#[derive(Debug)]
pub(crate) struct Request {
    config: Config,
    destination: Destination,
    format: Format,
    quiet: bool,
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
            deliver::check_destination(path)?;
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

/// Runs the agent, hands the document over, cleans up, and shows what became of every object.
pub(crate) async fn run(request: Request, connection: Connection) -> Result<(), Error> {
    let Request { mut config, destination, format, quiet } = request;
    config.namespace = connection.namespace;
    config.request_timeout = connection.request_timeout.unwrap_or(UNBOUNDED);
    config.ledger = state_dir::ledger_place(&connection.server);
    let mut signals =
        Signals::listen().map_err(|error| Error::Internal(format!("cannot listen for signals: {error}")))?;
    let (deployer, events) = Deployer::observed(connection.client, config)?;
    let progress = Progress::start(events, quiet);
    let run_id = deployer.run_id().clone();

    let outcome = tokio::select! {
        biased;
        signal = signals.next() => Err(Error::Interrupted(signal)),
        outcome = capture(&deployer, destination, format) => outcome,
    };
    let interrupted = match outcome {
        Err(Error::Interrupted(signal)) => Some(signal),
        _ => None,
    };
    let cleaned = clean_up(&deployer, &mut signals, interrupted).await;
    // The progress ends when nobody can emit an event any more.
    drop(deployer);
    progress.finish();
    let (removals, interrupted) = cleaned.map_err(|signal| Error::Stopped { signal, run_id: run_id.clone() })?;
    summary::print(&run_id, &removals, quiet);

    let left = removals.iter().filter(|removal| removal.fate.is_left()).count();
    match (outcome, interrupted) {
        (Ok(()), Some(signal)) => Err(Error::Interrupted(signal)),
        (Ok(()), None) if left > 0 => Err(Error::LeftBehind { count: left, run_id }),
        (outcome, _) => outcome,
    }
}

/// Deploys, waits, reads and delivers.
async fn capture(deployer: &Deployer, destination: Destination, format: Format) -> Result<(), Error> {
    deployer.deploy().await?;
    deployer.wait_for_completion().await?;
    let document = deployer.get_snapshot().await?;
    // On a thread: a pipe that nobody reads must not keep a signal from being seen.
    let delivery = tokio::task::spawn_blocking(move || deliver(&document, &destination, format));
    delivery.await.unwrap_or_else(|error| Err(Error::Internal(format!("delivery did not run to its end: {error}"))))
}

fn deliver(document: &[u8], destination: &Destination, format: Format) -> Result<(), Error> {
    match destination {
        Destination::ConfigMap(_) => Ok(()),
        Destination::Stdout => deliver::to_stdout(&document::render(document, format)?),
        Destination::File(path) => deliver::to_file(path, &document::render(document, format)?),
    }
}

/// Cleans up. Nothing cancels it but its own deadline or a second signal, which is then the error.
async fn clean_up(
    deployer: &Deployer,
    signals: &mut Signals,
    mut interrupted: Option<Signal>,
) -> Result<(Vec<Removal>, Option<Signal>), Signal> {
    let mut cleanup = pin!(deployer.cleanup());
    loop {
        tokio::select! {
            biased;
            signal = signals.next() => match interrupted {
                Some(_) => return Err(signal),
                None => interrupted = Some(signal),
            },
            removals = &mut cleanup => return Ok((removals, interrupted)),
        }
    }
}
