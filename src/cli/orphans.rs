//! `kubectl aicr orphans`: what runs left. Deletes nothing.

use std::collections::BTreeSet;

use clap::Args;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::agent::cluster::Cluster;
use crate::agent::event::Events;
use crate::agent::orphans::{self, Filter, Found};
use crate::agent::run_id::RunId;
use crate::cli::run::UNBOUNDED;
use crate::cli::state_dir::{self, PATIENCE};
use crate::deliver::on_stdout;
use crate::error::{Error, Invalid};
use crate::kubeconfig::Connection;
use crate::ledger::Reading;
use crate::report::orphans::{Format, nothing, write};
use crate::report::progress::Progress;

/// What `orphans` takes beside the connection flags.
#[derive(Args, Debug)]
pub(crate) struct OrphansArgs {
    /// Look in every namespace
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Show one run only
    #[arg(long, value_name = "ID")]
    run_id: Option<String>,
    /// How the list is shown
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Table)]
    output: Format,
    /// Leave the column headers out
    #[arg(long)]
    no_headers: bool,
}

/// A list as its flags describe it.
#[derive(Debug)]
pub(crate) struct Request {
    all_namespaces: bool,
    run_id: Option<RunId>,
    format: Format,
    headers: bool,
}

impl Request {
    /// Checks what can be checked without a cluster.
    pub(crate) fn new(args: OrphansArgs) -> Result<Self, Invalid> {
        let run_id = args.run_id.filter(|run_id| !run_id.is_empty());
        Ok(Self {
            all_namespaces: args.all_namespaces,
            run_id: run_id.map(|run_id| RunId::parse(&run_id)).transpose()?,
            format: args.output,
            headers: !args.no_headers,
        })
    }
}

/// Finds and shows them.
pub(crate) async fn run(request: Request, connection: Connection) -> Result<(), Error> {
    let (events, receiver) = Events::channel();
    let progress = Progress::start(receiver, false);
    let outcome = list(request, connection, &events).await;
    drop(events);
    progress.finish();
    outcome
}

async fn list(request: Request, connection: Connection, events: &Events) -> Result<(), Error> {
    let cluster = Cluster::new(connection.client, connection.request_timeout.unwrap_or(UNBOUNDED));
    let deadline = Instant::now() + PATIENCE;
    let reading = state_dir::read_ledgers(&cluster, &connection.server, deadline, events).await;
    let namespace = (!request.all_namespaces).then_some(connection.namespace);
    let filter = Filter { namespace, run_id: request.run_id };
    let found = orphans::find(&cluster, &reading, &filter, deadline, events).await?;
    let Found { orphans, undecided, abandoned, unseen } = found;

    let orphans = orphans.in_order();
    on_stdout(|stdout| write(&orphans, request.format, request.headers, Timestamp::now(), stdout))?;
    if orphans.is_empty() && matches!(request.format, Format::Table | Format::Wide) {
        events.note(nothing(filter.namespace.as_deref()));
    }
    for run_id in abandoned {
        events.note(format!(
            "run {run_id} of this machine was interrupted and its Job is still active: end it with `kubectl aicr cleanup \
             {run_id}`"
        ));
    }
    if let Some(namespaces) = recorded_elsewhere(&reading, &filter) {
        events.note(format!("runs of this machine may have left objects in {namespaces} too: look there with -A"));
    }
    for error in &unseen {
        events.warn(error.to_string());
    }
    if !undecided.is_empty() {
        let objects: Vec<String> = undecided.iter().map(ToString::to_string).collect();
        events.warn(format!(
            "not shown, since their runs may be active in namespaces whose jobs may not be listed: {}",
            objects.join(", ")
        ));
    }
    if unseen.is_empty() && undecided.is_empty() { Ok(()) } else { Err(Error::Incomplete) }
}

/// Namespaces that are not looked at although the ledgers name objects in them.
fn recorded_elsewhere(reading: &Reading, filter: &Filter) -> Option<String> {
    let pasts = reading.pasts.iter().filter(|past| !past.live && filter.takes_run(past.header.run_id.as_str()));
    let objects = pasts.flat_map(|past| past.entries.as_slice()).map(|entry| &entry.object);
    let namespaces: BTreeSet<&str> = objects
        .filter(|object| !filter.takes_namespace_of(object))
        .filter_map(|object| object.namespace.as_deref())
        .collect();
    (!namespaces.is_empty()).then(|| namespaces.into_iter().collect::<Vec<_>>().join(", "))
}
