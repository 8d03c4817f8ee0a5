//! `snapshot --dry-run`: prints what a run would create (R40).

use serde_json::Value;

use crate::agent::deployer::Deployer;
use crate::agent::manifests::text;
use crate::agent::rehearsal;
use crate::cli::request::Request;
use crate::cli::run::UNBOUNDED;
use crate::deliver;
use crate::error::{Error, Invalid};
use crate::kubeconfig::{self, ConnectionFlags, Environment};
use crate::report::document::Format;
use crate::report::progress::Progress;

/// Asks no cluster.
pub(crate) fn client(request: Request, flags: &ConnectionFlags, env: &Environment) -> Result<(), Error> {
    let render = renderer(request.format)?;
    let mut config = request.config;
    config.namespace = kubeconfig::namespace(flags, env)?;
    deliver::to_stdout(render(&rehearsal::plan(&config)?).as_bytes())
}

/// Has the gate and the API server check everything.
pub(crate) async fn server(request: Request, flags: &ConnectionFlags, env: &Environment) -> Result<(), Error> {
    let render = renderer(request.format)?;
    let connection = kubeconfig::connect(flags, env).await?;
    let Request { mut config, quiet, .. } = request;
    config.namespace = connection.namespace;
    config.request_timeout = connection.request_timeout.unwrap_or(UNBOUNDED);
    let (deployer, events) = Deployer::observed(connection.client, config)?;
    let progress = Progress::start(events, quiet);
    let objects = deployer.rehearse().await;
    drop(deployer);
    progress.finish();
    deliver::to_stdout(render(&objects?).as_bytes())
}

fn renderer(format: Format) -> Result<fn(&[Value]) -> String, Invalid> {
    match format {
        Format::Yaml => Ok(|objects| objects.iter().map(text::yaml).collect::<Vec<_>>().join("---\n")),
        Format::Json => Ok(|objects| text::json_list(objects)),
        Format::Table => Err(Invalid::new("--format", "table", "a dry run prints yaml or json")),
    }
}
