//! What a run shall do, made of flags and configuration file: valid as far as no cluster is needed to tell.

use std::path::PathBuf;
use std::time::Duration;

use crate::agent::config::{Config, Keep, Output};
use crate::agent::manifests::Names;
use crate::agent::run_id::{self, RunId};
use crate::cli::snapshot::SnapshotArgs;
use crate::cli::values;
use crate::deliver;
use crate::error::Invalid;
use crate::report::document::Format;

/// The destination that means stdout, and is the default.
pub(crate) const STDOUT: &str = "-";

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

impl Request {
    /// Checks everything that can be checked without a cluster, the destination included.
    pub(crate) fn new(args: SnapshotArgs) -> Result<Self, Invalid> {
        let request = Self::of(args)?;
        request.config.validate()?;
        request.check_destination()?;
        Ok(request)
    }

    fn check_destination(&self) -> Result<(), Invalid> {
        match &self.destination {
            Destination::File(path) => deliver::check_destination("--output", path),
            Destination::Stdout | Destination::ConfigMap(_) => Ok(()),
        }
    }

    /// Checks what a configuration file says as if there were no flags; its destination only where that is the one.
    pub(crate) fn check(args: &SnapshotArgs, namespace: Option<&str>, writes: bool) -> Result<(), Invalid> {
        let request = Self::of(args.clone())?;
        if writes {
            request.check_destination()?;
        }
        let mut config = request.config;
        config.namespace = namespace.map_or(config.namespace, str::to_owned);
        let run_id = config.run_id.clone().unwrap_or_else(run_id::generate);
        config.validate().and_then(|()| Names::new(&config, &run_id).map(drop))
    }

    fn of(args: SnapshotArgs) -> Result<Self, Invalid> {
        let destination = destination(args.output.as_deref().unwrap_or(STDOUT))?;
        let format = match given(args.format.as_ref()) {
            Some(format) => format.parse().map_err(|rule| Invalid::new("--format", format, rule))?,
            None => Format::Yaml,
        };
        if let Destination::ConfigMap(_) = destination
            && format != Format::Yaml
        {
            let rule = "the agent itself writes a cm:// output, always as yaml: leave --format out";
            return Err(Invalid::new("--format", format.to_string(), rule));
        }
        let quiet = args.quiet.unwrap_or(false);
        Ok(Self { config: configuration(args, &destination)?, destination, format, quiet })
    }
}

/// A value, unless it is missing or empty.
fn given(value: Option<&String>) -> Option<&str> {
    value.map(String::as_str).filter(|value| !value.is_empty())
}

fn configuration(args: SnapshotArgs, destination: &Destination) -> Result<Config, Invalid> {
    let default = Config::default();
    let owned = |value: Option<&String>| given(value).map(str::to_owned);
    let duration = |flag, value: Option<&String>, default: Duration| {
        given(value).map_or(Ok(default), |text| values::duration(flag, text))
    };
    let selector = args.node_selector.as_ref().map(|texts| values::node_selector(texts.iter().map(String::as_str)));
    let tolerations = args.toleration.as_ref().map(|texts| texts.iter().map(|text| values::toleration(text)).collect());
    Ok(Config {
        run_id: given(args.run_id.as_ref()).map(RunId::parse).transpose()?,
        job_name: owned(args.job_name.as_ref()),
        service_account_name: owned(args.service_account_name.as_ref()),
        image: args.image.unwrap_or(default.image),
        image_pull_secrets: args.image_pull_secret.unwrap_or_default(),
        node_selector: selector.transpose()?,
        tolerations: tolerations.transpose()?,
        privileged: args.privileged.unwrap_or(default.privileged),
        require_gpu: args.require_gpu.unwrap_or(default.require_gpu),
        runtime_class: owned(args.runtime_class.as_ref()),
        os: owned(args.os.as_ref()),
        requests: values::quantities("--requests", args.requests.iter().flatten().map(String::as_str))?,
        limits: values::quantities("--limits", args.limits.iter().flatten().map(String::as_str))?,
        max_nodes_per_entry: args.max_nodes_per_entry,
        discover_network: args.discover_network.unwrap_or(default.discover_network),
        debug: args.debug.unwrap_or(default.debug),
        output: match destination {
            Destination::ConfigMap(output) => output.clone(),
            Destination::Stdout | Destination::File(_) => Output::Staging,
        },
        keep: match (args.no_cleanup.unwrap_or(false), args.keep_job.unwrap_or(false)) {
            (true, true) => {
                let rule = "cannot be used with --no-cleanup, which keeps everything";
                return Err(Invalid::new("--keep-job", "true", rule));
            }
            (true, false) => Keep::Everything,
            (false, true) => Keep::Job,
            (false, false) => Keep::Nothing,
        },
        timeout: duration("--timeout", args.timeout.as_ref(), default.timeout)?,
        cleanup_timeout: duration("--cleanup-timeout", args.cleanup_timeout.as_ref(), default.cleanup_timeout)?,
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
        STDOUT => Ok(Destination::Stdout),
        _ if text.starts_with("cm:") => {
            text.parse().map(Destination::ConfigMap).map_err(|rule| Invalid::new("--output", text, rule))
        }
        _ => Ok(Destination::File(text.into())),
    }
}
