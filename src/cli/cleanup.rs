//! `kubectl aicr cleanup`: finishes what interrupted invocations left.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use futures::future::join_all;
use tokio::time::Instant;

use crate::agent::cleanup::Removal;
use crate::agent::cluster::Cluster;
use crate::agent::event::Events;
use crate::agent::orphans::{self, Due};
use crate::agent::run_id::RunId;
use crate::cli::confirm::confirm;
use crate::cli::run::UNBOUNDED;
use crate::cli::state_dir::{self, PATIENCE};
use crate::cli::values;
use crate::error::{Error, Invalid};
use crate::kubeconfig::Connection;
use crate::ledger::{Past, Reading};
use crate::report::progress::Progress;
use crate::report::{summary, table};

/// What `cleanup` takes beside the connection flags.
#[derive(Args, Debug)]
pub(crate) struct CleanupArgs {
    /// Runs to finish [default: all that were interrupted]
    #[arg(value_name = "RUN-ID")]
    run_ids: Vec<String>,
    /// Delete without asking
    #[arg(short, long)]
    yes: bool,
    /// How long the cleanup may take
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    cleanup_timeout: String,
}

/// A cleanup as its flags describe it.
#[derive(Debug)]
pub(crate) struct Request {
    runs: BTreeSet<RunId>,
    namespace: Option<String>,
    yes: bool,
    timeout: Duration,
}

impl Request {
    /// Checks what can be checked without a cluster. Runs of other namespaces are left alone only if `namespace` was
    /// asked for: a ledger knows where its run was.
    pub(crate) fn new(args: &CleanupArgs, namespace: Option<String>) -> Result<Self, Invalid> {
        Ok(Self {
            runs: args.run_ids.iter().map(|run_id| named(run_id)).collect::<Result<_, _>>()?,
            namespace: namespace.filter(|namespace| !namespace.is_empty()),
            yes: args.yes,
            timeout: values::duration("--cleanup-timeout", &args.cleanup_timeout)?,
        })
    }
}

/// A run ID that is an argument here and no flag.
fn named(run_id: &str) -> Result<RunId, Invalid> {
    RunId::parse(run_id).map_err(|invalid| invalid.of("RUN-ID".to_owned()))
}

/// Finds what is left, asks, deletes it and shows what became of each object.
pub(crate) async fn run(request: Request, connection: Connection) -> Result<(), Error> {
    let (events, receiver) = Events::channel();
    let progress = Progress::start(receiver, false);
    let finished = finish(&request, connection, &events).await;
    drop(events);
    progress.finish();

    let (mut left, mut runs) = (0, BTreeSet::new());
    for (run_id, removals) in finished? {
        summary::print(&run_id, &removals, false);
        let left_of_run = removals.iter().filter(|removal| removal.fate.is_left()).count();
        if left_of_run > 0 {
            left += left_of_run;
            runs.insert(run_id);
        }
    }
    if left == 0 { Ok(()) } else { Err(Error::LeftBehind { count: left, runs: runs.into_iter().collect() }) }
}

async fn finish(
    request: &Request,
    connection: Connection,
    events: &Events,
) -> Result<Vec<(RunId, Vec<Removal>)>, Error> {
    let cluster = Cluster::new(connection.client, connection.request_timeout.unwrap_or(UNBOUNDED));
    let deadline = Instant::now() + PATIENCE;
    let reading = state_dir::read_ledgers(&cluster, &connection.server, deadline, events).await;
    let reading = choose(reading, request)?;
    let due = orphans::due(&cluster, &reading, !request.runs.is_empty(), deadline, events).await?;
    if due.is_empty() {
        events.note("nothing to clean up");
        return Ok(Vec::new());
    }
    if request.yes {
        alive(&due).for_each(|warning| events.warn(warning));
    } else {
        confirm(&explanation(&due), "Delete what is proven to be theirs?").await?;
    }
    let deadline = Instant::now() + request.timeout;
    let finished = due.iter().map(|due| async {
        let removals = due.finish(&cluster, deadline, events.clone()).await;
        (due.past.header.run_id.clone(), removals)
    });
    Ok(join_all(finished).await)
}

/// The pasts that were asked for. Without names, what a live process still works with is left to it.
fn choose(mut reading: Reading, request: &Request) -> Result<Reading, Error> {
    let in_namespace = |past: &Past| request.namespace.as_ref().is_none_or(|wanted| *wanted == past.header.namespace);
    reading.pasts.retain(in_namespace);
    if request.runs.is_empty() {
        reading.pasts.retain(|past| !past.live);
        return Ok(reading);
    }
    reading.pasts.retain(|past| request.runs.contains(&past.header.run_id));
    let is_known = |run_id: &&RunId| reading.pasts.iter().any(|past| past.header.run_id == **run_id);
    match request.runs.iter().find(|run_id| !is_known(run_id)) {
        None => Ok(reading),
        Some(unknown) => Err(Error::NotFound(not_recorded(unknown, &reading, request.namespace.as_deref()))),
    }
}

fn not_recorded(run_id: &RunId, reading: &Reading, namespace: Option<&str>) -> String {
    let place = namespace.map_or_else(String::new, |namespace| format!(" in namespace {namespace}"));
    match reading.elsewhere.iter().find(|past| past.header.run_id == *run_id) {
        Some(past) => format!(
            "run {run_id} is not recorded for this cluster{place} but for the one at {}: choose its context",
            past.header.cluster.server()
        ),
        None => format!(
            "run {run_id} is not recorded on this machine for this cluster{place}: it left nothing, or it ran elsewhere; \
             `kubectl aicr orphans -A --run-id {run_id}` looks at the cluster"
        ),
    }
}

fn alive(due: &[Due]) -> impl Iterator<Item = String> + '_ {
    due.iter().filter(|due| due.past.live).map(|due| {
        let header = &due.past.header;
        format!("run {} belongs to a process that still runs (PID {})", header.run_id, header.pid)
    })
}

fn explanation(due: &[Due]) -> String {
    let header = ["KIND", "NAMESPACE", "NAME", "RUN ID"].map(str::to_owned);
    let rows = due.iter().flat_map(|due| {
        due.entries.iter().map(|entry| {
            [
                entry.object.kind.to_string(),
                entry.object.namespace.clone().unwrap_or_else(|| "<none>".to_owned()),
                entry.object.name.clone(),
                due.past.header.run_id.to_string(),
            ]
        })
    });
    let mut text = format!("Left by earlier runs:\n\n{}", table::columns(std::iter::once(header).chain(rows)));
    for warning in alive(due) {
        text.push_str("\nwarning: ");
        text.push_str(&warning);
    }
    text.trim_end().to_owned()
}
