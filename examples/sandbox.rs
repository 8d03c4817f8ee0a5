//! The plugin, without a cluster: `cargo run --example sandbox` plays through a run, a cleanup that is refused, what
//! finds and finishes it, and the rights of an account. `cargo run --example sandbox -- --serve` leaves the cluster
//! running.
//!
//! The cluster is `kubectl_aicr::fake`, in memory and on a free loopback port. The plugin is the real one: this program
//! starts itself again as `kubectl-aicr`, with a kubeconfig that leads to that port.

use std::error::Error;
use std::ffi::OsString;
use std::future::pending;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::PostParams;
use kubectl_aicr::error::exit;
use kubectl_aicr::fake::{Cluster, Fault, NodeSpec, Server, Verb, Workers};
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;

/// The argument with which this program is the plugin.
const PLUGIN: &str = "--as-plugin";

const NAMESPACE: &str = "gpu-operator";

const USAGE: &str = "\
Usage: cargo run --example sandbox [-- --serve]

Plays the plugin through on a Kubernetes API in memory; with --serve, leaves that API running.
";

/// As `println!`, but a reader who has seen enough is no panic.
macro_rules! say {
    ($($words:tt)*) => { writeln!(io::stdout(), $($words)*) };
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next();
    if first.as_deref() == Some(PLUGIN.as_ref()) {
        return kubectl_aicr::cli::main([OsString::from("kubectl-aicr")].into_iter().chain(arguments));
    }
    let serves = match first.as_deref().and_then(|argument| argument.to_str()) {
        None => false,
        Some("--serve") => true,
        Some("--help" | "-h") => {
            // A reader who went away needs no usage.
            let _ = write!(io::stdout(), "{USAGE}");
            return ExitCode::SUCCESS;
        }
        Some(other) => {
            eprintln!("error: unknown argument {other:?}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match play(serves) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_stdout(&*error) => ExitCode::from(exit::STDOUT_CLOSED),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn is_closed_stdout(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[tokio::main]
async fn play(serves: bool) -> Result<(), Box<dyn Error>> {
    let sandbox = Sandbox::start().await?;
    // However it ends, the folder goes with the sandbox.
    tokio::select! {
        biased;
        ended = told_to_end() => if serves { ended.map_err(Into::into) } else { Err("interrupted".into()) },
        played = async { if serves { sandbox.serve().await } else { sandbox.show().await } } => played,
    }
}

/// Ctrl-C, a request to stop, or a terminal that went away.
async fn told_to_end() -> io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut stop, mut hangup) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted,
            _ = stop.recv() => Ok(()),
            _ = hangup.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

/// A small GPU cluster on a port, and a directory for everything that is written.
struct Sandbox {
    cluster: Cluster,
    server: Server,
    directory: TempDir,
    _workers: Workers,
}

impl Sandbox {
    async fn start() -> Result<Self, Box<dyn Error>> {
        let cluster = Cluster::new();
        let gpu = |name: &str| {
            NodeSpec::new(name)
                .label("nvidia.com/gpu.present", "true")
                .label("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3")
                .taint("nvidia.com/gpu", "present", "NoSchedule")
        };
        let workers = cluster.start_workers(&[NodeSpec::new("cpu-1"), gpu("gpu-1"), gpu("gpu-2")]).await?;
        let namespace = serde_json::from_value(json!({ "metadata": { "name": NAMESPACE } }))?;
        Api::<Namespace>::all(cluster.client()).create(&PostParams::default(), &namespace).await?;
        cluster.enforce_rbac(true);
        let server = cluster.serve(0).await?;
        let directory = TempDir::with_prefix("kubectl-aicr-sandbox-")?;
        std::fs::write(directory.path().join("kubeconfig"), server.kubeconfig(NAMESPACE))?;
        Ok(Self { cluster, server, directory, _workers: workers })
    }

    async fn show(&self) -> Result<(), Box<dyn Error>> {
        self.introduce()?;
        self.run_well().await?;
        self.run_with_a_refused_cleanup().await?;
        self.finish_it().await?;
        self.render_rights().await?;
        say!("\nThat was the sandbox. Play on with:  cargo run --example sandbox -- --serve")?;
        Ok(())
    }

    fn introduce(&self) -> io::Result<()> {
        say!("A Kubernetes API is in memory and listens on {}.", self.server.url())?;
        say!("It has three nodes, two of them with GPUs, and the namespace {NAMESPACE}.")
    }

    async fn run_well(&self) -> Result<(), Box<dyn Error>> {
        explain("A run: the agent's objects are created, its document is fetched, and every object is deleted.")?;
        self.plugin(&["snapshot", "-o", "snapshot.yaml"], 0).await?;
        let document = std::fs::read_to_string(self.path().join("snapshot.yaml"))?;
        explain(&format!("The document, {} lines. The first of them:", document.lines().count()))?;
        for line in document.lines().take(12) {
            say!("{line}")?;
        }
        Ok(())
    }

    async fn run_with_a_refused_cleanup(&self) -> Result<(), Box<dyn Error>> {
        explain("A run whose cleanup is refused: from here on the cluster lets nobody delete a ClusterRole.")?;
        let refusal = Fault::fail(403, "Forbidden", "clusterroles are protected by a policy of this cluster");
        let policy = self.cluster.before(|request| request.is(Verb::Delete, "clusterroles"), refusal);
        self.plugin(&["snapshot", "-o", "snapshot.yaml", "--quiet"], 11).await?;
        explain("The document is there all the same. What was left is known:")?;
        self.plugin(&["orphans"], 0).await?;
        policy.lift();
        Ok(())
    }

    async fn finish_it(&self) -> Result<(), Box<dyn Error>> {
        explain("The policy is gone. Cleanup finishes what the run could not:")?;
        self.plugin(&["cleanup", "--yes"], 0).await?;
        self.plugin(&["orphans"], 0).await
    }

    async fn render_rights(&self) -> Result<(), Box<dyn Error>> {
        explain("For an account with its own cloud identity, the rights that it needs, to be looked at and applied:")?;
        self.plugin(&["roles", "--service-account", "aicr-agent", "--output-dir", "rights", "--yes"], 0).await?;
        let mut files = std::fs::read_dir(self.path().join("rights"))?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<Result<Vec<_>, _>>()?;
        files.sort();
        for file in files {
            say!("  rights/{}", file.display())?;
        }
        say!("Here they are in a folder that goes with the sandbox: run `kubectl aicr roles` where you want them.")?;
        Ok(())
    }

    /// Runs the plugin as kubectl would, and fails if it ends otherwise than it should.
    async fn plugin(&self, arguments: &[&str], code: i32) -> Result<(), Box<dyn Error>> {
        say!("\n$ kubectl aicr {}", arguments.join(" "))?;
        let status = Command::new(std::env::current_exe()?)
            .arg(PLUGIN)
            .args(arguments)
            .current_dir(self.path())
            .env("KUBECONFIG", self.path().join("kubeconfig"))
            .env("KUBECTL_AICR_STATE_DIR", self.path().join("state"))
            .kill_on_drop(true)
            .status()
            .await?;
        if status.code() == Some(i32::from(exit::STDOUT_CLOSED)) {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
        }
        say!("(exit code {})", status.code().map_or_else(|| "of a signal".to_owned(), |code| code.to_string()))?;
        if status.code() == Some(code) {
            Ok(())
        } else {
            Err(format!("`kubectl aicr {}` ended with {status}, not with exit code {code}", arguments.join(" ")).into())
        }
    }

    /// Says what can be done, and stays.
    async fn serve(&self) -> Result<(), Box<dyn Error>> {
        self.introduce()?;
        let (folder, plugin) = (self.path().display(), std::env::current_exe()?);
        say!("\nTry, in another terminal:\n")?;
        say!("  export KUBECONFIG='{folder}/kubeconfig' KUBECTL_AICR_STATE_DIR='{folder}/state'")?;
        say!("  alias aicr=\"'{}' {PLUGIN}\"    # the plugin, as this program has it", plugin.display())?;
        for line in [
            "aicr snapshot -o snapshot.yaml",
            "aicr snapshot --no-cleanup",
            "aicr snapshot --image registry.test/aicr:slow-8s_fail-3",
            "aicr orphans -A",
            "kubectl get nodes",
            "kubectl get pods -A -w",
            "kubectl aicr snapshot            # once kubectl-aicr is on the PATH",
        ] {
            say!("  {line}")?;
        }
        say!("\nAn image of registry.test acts by its tag: words of src/fake/node/script.rs, joined by _, such as")?;
        say!("  success, no-gpu, slow-8s, logs-100, fail-3, oom, evicted, hang, never-starts, image-pull-backoff")?;
        say!("\nCtrl-C ends it, and everything in it is gone.")?;
        pending().await
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}

fn explain(text: &str) -> io::Result<()> {
    say!("\n# {text}")
}
