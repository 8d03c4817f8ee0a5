//! The plugin, without a cluster: `cargo run --example sandbox` plays through a run, a cleanup that is refused, what
//! finds and finishes it, and the rights of an account. `cargo run --example sandbox -- --serve` leaves the cluster
//! running.
//!
//! The cluster is `kubectl_aicr::fake`, in memory and on a free loopback port. The plugin is the real one: this program
//! starts itself again as `kubectl-aicr`, with a kubeconfig that leads to that port.

use std::error::Error;
use std::ffi::OsString;
use std::path::Path;
use std::pin::pin;
use std::process::ExitCode;
use std::task::Poll;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::PostParams;
use kubectl_aicr::fake::{Cluster, Fault, NodeSpec, Server, Verb, Workers};
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;

/// The argument with which this program is the plugin.
const PLUGIN: &str = "--as-plugin";

const NAMESPACE: &str = "gpu-operator";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next();
    if first.as_deref() == Some(PLUGIN.as_ref()) {
        return kubectl_aicr::cli::main([OsString::from("kubectl-aicr")].into_iter().chain(arguments));
    }
    let serves = match first.as_deref().and_then(|argument| argument.to_str()) {
        None => false,
        Some("--serve") => true,
        Some(other) => {
            eprintln!("error: unknown argument {other:?}: only --serve is taken");
            return ExitCode::from(2);
        }
    };
    match play(serves) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn play(serves: bool) -> Result<(), Box<dyn Error>> {
    let sandbox = Sandbox::start().await?;
    if serves {
        return sandbox.serve().await;
    }
    sandbox.introduce();
    sandbox.run_well().await?;
    sandbox.run_with_a_refused_cleanup().await?;
    sandbox.finish_it().await?;
    sandbox.render_rights().await?;
    println!("\nThat was the sandbox. Play on with:  cargo run --example sandbox -- --serve");
    Ok(())
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

    fn introduce(&self) {
        println!("A Kubernetes API is in memory and listens on {}.", self.server.url());
        println!("It has three nodes, two of them with GPUs, and the namespace {NAMESPACE}.");
    }

    async fn run_well(&self) -> Result<(), Box<dyn Error>> {
        explain("A run: the agent's objects are created, its document is fetched, and every object is deleted.");
        self.plugin(&["snapshot", "-o", "snapshot.yaml"], 0).await?;
        let document = std::fs::read_to_string(self.path().join("snapshot.yaml"))?;
        explain(&format!("The document, {} lines. The first of them:", document.lines().count()));
        for line in document.lines().take(12) {
            println!("{line}");
        }
        Ok(())
    }

    async fn run_with_a_refused_cleanup(&self) -> Result<(), Box<dyn Error>> {
        explain("A run whose cleanup is refused: from here on the cluster lets nobody delete a ClusterRole.");
        let refusal = Fault::fail(403, "Forbidden", "clusterroles are protected by a policy of this cluster");
        let policy = self.cluster.before(|request| request.is(Verb::Delete, "clusterroles"), refusal);
        self.plugin(&["snapshot", "-o", "snapshot.yaml", "--quiet"], 11).await?;
        explain("The document is there all the same. What was left is known:");
        self.plugin(&["orphans"], 0).await?;
        policy.lift();
        Ok(())
    }

    async fn finish_it(&self) -> Result<(), Box<dyn Error>> {
        explain("The policy is gone. Cleanup finishes what the run could not:");
        self.plugin(&["cleanup", "--yes"], 0).await?;
        self.plugin(&["orphans"], 0).await
    }

    async fn render_rights(&self) -> Result<(), Box<dyn Error>> {
        explain("For an account with its own cloud identity, the rights that it needs, to be looked at and applied:");
        self.plugin(&["roles", "--service-account", "aicr-agent", "--output-dir", "rights", "--yes"], 0).await?;
        let mut files = std::fs::read_dir(self.path().join("rights"))?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<Result<Vec<_>, _>>()?;
        files.sort();
        for file in files {
            println!("  rights/{}", file.display());
        }
        Ok(())
    }

    /// Runs the plugin as kubectl would, and fails if it ends otherwise than it should.
    async fn plugin(&self, arguments: &[&str], code: i32) -> Result<(), Box<dyn Error>> {
        println!("\n$ kubectl aicr {}", arguments.join(" "));
        let status = Command::new(std::env::current_exe()?)
            .arg(PLUGIN)
            .args(arguments)
            .current_dir(self.path())
            .env("KUBECONFIG", self.path().join("kubeconfig"))
            .env("KUBECTL_AICR_STATE_DIR", self.path().join("state"))
            .kill_on_drop(true)
            .status()
            .await?;
        println!("(exit code {})", status.code().map_or_else(|| "of a signal".to_owned(), |code| code.to_string()));
        if status.code() == Some(code) {
            Ok(())
        } else {
            Err(format!("`kubectl aicr {}` ended with {status}, not with exit code {code}", arguments.join(" ")).into())
        }
    }

    /// Says what can be done, and waits for Ctrl-C.
    async fn serve(&self) -> Result<(), Box<dyn Error>> {
        // From here on, not only once everything is said.
        let mut end = pin!(tokio::signal::ctrl_c());
        if let Poll::Ready(failed) = futures::poll!(&mut end) {
            failed?;
        }
        self.introduce();
        let kubeconfig = self.path().join("kubeconfig").display().to_string();
        println!("\nTry, in another terminal:\n");
        println!("  export KUBECONFIG={kubeconfig}");
        for line in [
            "kubectl get nodes",
            "kubectl get jobs,pods -A -w",
            "cargo run -- snapshot -o snapshot.yaml",
            "cargo run -- snapshot --no-cleanup",
            "cargo run -- orphans -A",
            "kubectl aicr snapshot            # once kubectl-aicr is on the PATH",
        ] {
            println!("  {line}");
        }
        println!("\nAn image of registry.test acts by its tag, such as --image registry.test/aicr:slow-5s_fail-3.");
        println!("Ctrl-C ends it, and everything in it is gone.");
        end.await?;
        Ok(())
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}

fn explain(text: &str) {
    println!("\n# {text}");
}
