//! `kubectl aicr snapshot`: one run from its request to its exit code.

use std::pin::pin;
use std::time::Duration;

use crate::agent::cleanup::Removal;
use crate::agent::deployer::Deployer;
use crate::agent::event::Phase;
use crate::cli::request::{Destination, Request, STDOUT};
use crate::cli::signals::Signals;
use crate::cli::snapshot::{DryRun, SnapshotArgs};
use crate::cli::state_dir;
use crate::cli::{config_file, dry_run};
use crate::deliver;
use crate::diagnose::evidence::Evidence;
use crate::error::{Error, Invalid, Signal};
use crate::kubeconfig::{self, Connection, ConnectionFlags, Environment};
use crate::report::document::{self, Format};
use crate::report::progress::Progress;
use crate::report::run_report::{self, RunReport};
use crate::report::summary;

/// A bound for calls where `--request-timeout=0` asks for none.
pub(crate) const UNBOUNDED: Duration = Duration::from_hours(24);

/// One run, and its report whichever way it ends.
pub(crate) async fn snapshot(args: SnapshotArgs, flags: ConnectionFlags, env: &Environment) -> Result<(), Error> {
    let path = args.report.clone();
    if let Some(path) = &path {
        if path.as_os_str() == STDOUT {
            let rule = "must be a file: stdout is for the document";
            return Err(Invalid::new("--report", STDOUT, rule).into());
        }
        deliver::check_destination("--report", path)?;
    }
    let mut report = RunReport::new();
    let mut evidence = None;
    let outcome = Box::pin(prepare_and_run(args, flags, env, &mut report, &mut evidence)).await;
    report.finish(&outcome, evidence);
    let written = path.map_or(Ok(()), |path| deliver::to_file(&path, report.json().as_bytes()));
    // What went wrong with the run matters more than what went wrong with its report.
    outcome.and(written)
}

/// From flags and configuration file to a connection, and then to a run.
async fn prepare_and_run(
    mut args: SnapshotArgs,
    mut flags: ConnectionFlags,
    env: &Environment,
    report: &mut RunReport,
    evidence: &mut Option<Evidence>,
) -> Result<(), Error> {
    if let Some(path) = &args.config {
        let file = config_file::read(path, args.output.is_none())?;
        args = args.or(file.args);
        flags.namespace = flags.namespace.filter(|namespace| !namespace.is_empty()).or(file.namespace);
    }
    report.output = Some(args.output.clone().unwrap_or_else(|| STDOUT.to_owned()));
    let dry_run = args.dry_run.unwrap_or(DryRun::None);
    let to = args.report.clone();
    let request = Request::new(args)?;
    if let (Some(to), Destination::File(path)) = (&to, &request.destination)
        && deliver::are_the_same(to, path)
    {
        let rule = "must be another file than --output: the report would replace the document";
        return Err(Invalid::new("--report", to.display().to_string(), rule).into());
    }
    match dry_run {
        DryRun::None => {}
        DryRun::Client => return dry_run::client(request, &flags, env),
        DryRun::Server => return dry_run::server(request, &flags, env).await,
    }
    let connection = kubeconfig::connect(&flags, env).await?;
    run(request, connection, report, evidence).await
}

/// Runs the agent, hands the document over, cleans up, and shows what became of every object.
async fn run(
    request: Request,
    connection: Connection,
    report: &mut RunReport,
    evidence: &mut Option<Evidence>,
) -> Result<(), Error> {
    let Request { mut config, destination, format, quiet } = request;
    config.namespace = connection.namespace;
    config.request_timeout = connection.request_timeout.unwrap_or(UNBOUNDED);
    config.ledger = state_dir::ledger_place(&connection.server);
    report.cluster.server = Some(connection.server);
    report.namespace = Some(config.namespace.clone());
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
    // Recorded first: cleanup takes entries out of the created-set.
    describe(report, &deployer);
    let cleaned = clean_up(&deployer, &mut signals, interrupted).await;
    report.set_phases(&deployer.phases());
    *evidence = deployer.evidence();
    if cleaned.is_err() {
        report.set_unfinished(&deployer.created().entries());
    }
    // The progress ends when nobody can emit an event any more.
    drop(deployer);
    progress.finish();
    let (removals, interrupted) = cleaned.map_err(|signal| Error::Stopped { signal, run_id: run_id.clone() })?;
    report.set_removals(&removals);
    summary::print(&run_id, &removals, quiet);

    let count = removals.iter().filter(|removal| removal.fate.is_left()).count();
    let left = (count > 0).then(|| Error::LeftBehind { count, runs: vec![run_id] });
    let outcome = match (outcome, interrupted) {
        (Ok(()), Some(signal)) => Err(Error::Interrupted(signal)),
        (outcome, _) => outcome,
    };
    match (outcome, left) {
        (Ok(()), Some(left)) => Err(left),
        (outcome, left) => {
            left.iter().for_each(summary::print_left);
            outcome
        }
    }
}

/// What a report says of the run itself.
fn describe(report: &mut RunReport, deployer: &Deployer) {
    report.run_id = Some(deployer.run_id().to_string());
    report.invocation_id = Some(deployer.invocation_id().to_string());
    report.cluster.uid = deployer.cluster_uid().cloned();
    report.service_account =
        deployer.service_account().map(|(name, owned)| run_report::ServiceAccount { name: name.to_owned(), owned });
    report.job = Some(run_report::Job { name: deployer.job_name().to_owned(), uid: deployer.job_uid() });
}

/// Deploys, waits, reads and delivers.
async fn capture(deployer: &Deployer, destination: Destination, format: Format) -> Result<(), Error> {
    deployer.deploy().await?;
    // The run's own deadline bounds it.
    deployer.wait_for_completion(Duration::MAX).await?;
    let document = deployer.get_snapshot().await?;
    deployer.enter(Phase::Deliver);
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
