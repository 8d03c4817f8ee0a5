//! The command line: parses, routes to one file a subcommand, and turns what comes back into an exit code.

mod cleanup;
mod completion;
mod config_file;
mod confirm;
pub(crate) mod connection;
mod dry_run;
mod help;
mod orphans;
mod places;
mod request;
mod roles;
mod run;
mod signals;
mod snapshot;
mod state_dir;
mod values;
mod version;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use clap::builder::{BoolishValueParser, ValueParser};
use clap::{Arg, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::cli::connection::ConnectionArgs;
use crate::error::{Error, exit};
use crate::kubeconfig::{self, ConnectionFlags, Environment};
use crate::report::text::{harmless, next_line};
use crate::report::{preflight, stderr};

/// How long a thread that still writes to a stalled pipe may hold the process up.
const LINGER: Duration = Duration::from_millis(100);

const ERROR: Style = AnsiColor::Red.on_default().bold();

/// Captures the configuration of a GPU cluster and leaves the cluster as it found it
#[derive(Debug, Parser)]
#[command(name = "kubectl-aicr", bin_name = "kubectl aicr", max_term_width = 100)]
#[command(version = version::short(), long_version = version::long())]
#[command(subcommand_required = true, arg_required_else_help = true, disable_help_subcommand = true)]
struct Cli {
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Log level: 6 shows each request, 7 its headers too, 8 and more also those of the answer
    #[arg(
        short, long = "v", global = true, value_name = "LEVEL", default_value_t = 0, hide_default_value = true,
        value_parser = values::verbosity
    )]
    verbosity: u8,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Capture the configuration of the cluster
    Snapshot(Box<snapshot::SnapshotArgs>),
    /// Delete what interrupted runs left on the cluster
    ///
    /// Takes what this machine's runs recorded, by the rules of a run's own cleanup: each object only if it is proven
    /// to be the run's. Runs that were kept on purpose, or still run, are taken only when named.
    Cleanup(cleanup::CleanupArgs),
    /// List what runs left on the cluster
    ///
    /// Looks at what this machine's runs recorded and at the cluster itself. Deletes nothing.
    Orphans(orphans::OrphansArgs),
    /// Render the rights that a service account needs to run the agent
    ///
    /// Asks, then writes manifests for an administrator to look at and to apply. Contacts no cluster and applies
    /// nothing.
    Roles(roles::RolesArgs),
    /// Print what completes this command in a shell, or in kubectl
    Completion(completion::CompletionArgs),
    /// Show which version this is, and which agent it runs
    Version(version::VersionArgs),
    /// Explain a command, exit codes, or rights
    Help(help::HelpArgs),
}

/// The command line as clap knows it; man pages are made of it.
#[must_use]
pub fn command() -> clap::Command {
    help::with_examples(as_kubectl(Cli::command()))
}

/// Runs the command line.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let [_, first, words @ ..] = arguments.as_slice()
        && first == completion::REQUEST
    {
        return finish(completion::answer(command(), words), None);
    }
    let parsed = command().try_get_matches_from(arguments).and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches)?;
        Ok((cli, matches.subcommand_name().map(str::to_owned)))
    });
    let (cli, subcommand) = match parsed {
        Ok(parsed) => parsed,
        // A closed stdout or stderr changes nothing about what was asked for.
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { exit::INVALID } else { exit::OK });
        }
    };
    log_to_stderr(cli.verbosity);
    finish(run(cli), subcommand.as_deref())
}

/// Runs to the end and gives the exit code.
fn finish(work: impl Future<Output = Result<(), Error>>, subcommand: Option<&str>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report(&Error::Internal(format!("cannot start: {error}")), subcommand),
    };
    let outcome = runtime.block_on(work);
    runtime.shutdown_timeout(LINGER);
    stderr::flush();
    outcome.map_or_else(|error| report(&error, subcommand), |()| ExitCode::SUCCESS)
}

/// Has switches take `=true` and `=false`, as kubectl's do.
fn as_kubectl(command: clap::Command) -> clap::Command {
    let is_switch = |arg: &Arg| arg.get_value_parser().type_id() == ValueParser::bool().type_id();
    let command = command.mut_args(|arg| {
        if is_switch(&arg) && arg.get_action().takes_values() {
            let arg = arg.num_args(0..=1).require_equals(true).default_missing_value("true");
            arg.value_parser(BoolishValueParser::new()).value_name("BOOL").hide_possible_values(true)
        } else {
            arg
        }
    });
    command.mut_subcommands(as_kubectl)
}

async fn run(cli: Cli) -> Result<(), Error> {
    let flags = ConnectionFlags::from(cli.connection);
    let environment = Environment::from_process();
    match cli.command {
        Command::Snapshot(args) => Box::pin(run::snapshot(*args, flags, &environment)).await,
        Command::Cleanup(args) => {
            let request = cleanup::Request::new(&args, flags.namespace.clone())?;
            cleanup::run(request, kubeconfig::connect(&flags, &environment).await?).await
        }
        Command::Orphans(args) => {
            let request = orphans::Request::new(args)?;
            orphans::run(request, kubeconfig::connect(&flags, &environment).await?).await
        }
        Command::Roles(args) => roles::run(args, kubeconfig::namespace(&flags, &environment)?).await,
        Command::Completion(args) => completion::run(&args, command()),
        Command::Version(args) => version::run(&args),
        Command::Help(args) => help::run(&args, command()),
    }
}

/// Says what went wrong on stderr and gives the exit code.
fn report(error: &Error, subcommand: Option<&str>) -> ExitCode {
    let (said, details) = match error {
        Error::Preflight(found) => (found.headline(), preflight::details(found)),
        error => (error.to_string(), String::new()),
    };
    let next = match (error, subcommand) {
        (Error::Invalid(_), Some(subcommand)) => Some(format!("see `kubectl aicr {subcommand} --help`")),
        _ => error.next_step(),
    };
    let next = next.as_deref().map(next_line).unwrap_or_default();
    stderr::print(format!("{ERROR}error:{ERROR:#} {}\n{details}{next}", harmless(&said)));
    ExitCode::from(error.exit_code())
}

/// kubectl's `-v`. Bodies and credentials are logged at no level.
fn log_to_stderr(verbosity: u8) {
    let level = match verbosity {
        0..6 => return,
        6 => LevelFilter::INFO,
        7 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    tracing_subscriber::registry()
        .with(tracing_subscriber::fmt::layer().with_writer(|| stderr::Lossy).with_target(false))
        .with(Targets::new().with_target("kubectl_aicr", level))
        .init();
}
