//! Programs built once from the Go modules in `tests/cluster`, and kept below `target/`.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use super::cli::output_of;

pub(super) const ETCD: &str = "etcd";
const ETCD_MODULE: &str = "go.etcd.io/etcd/server/v3";
const KUBERNETES_MODULE: &str = "k8s.io/kubernetes";
const KREW_MODULE: &str = "sigs.k8s.io/krew";

const KREW: &str = "krew";
const KREW_VALIDATOR: &str = "validate-krew-manifest";

/// The pinned kubectl.
pub(crate) fn kubectl() -> PathBuf {
    expect("kubectl")
}

/// The pinned krew.
pub(crate) fn krew() -> PathBuf {
    expect(KREW)
}

/// krew's own judge of manifests.
pub(crate) fn krew_validator() -> PathBuf {
    expect(KREW_VALIDATOR)
}

fn expect(name: &'static str) -> PathBuf {
    program(name).unwrap_or_else(|why| panic!("{why}"))
}

/// A program of the cache, built first if it is not there yet.
pub(super) fn program(program: &'static str) -> Result<PathBuf, String> {
    let cache = source(program).cache();
    let path = cache.join(program);
    if path.is_file() {
        return Ok(path);
    }
    let failed = |what: &str, e: std::io::Error| format!("{what} in {}: {e}", cache.display());
    fs::create_dir_all(&cache).map_err(|e| failed("cannot create the cache", e))?;
    // Test processes that start together build once: the others wait here.
    let lock = File::create(cache.join(".lock")).map_err(|e| failed("cannot open the lock", e))?;
    lock.lock().map_err(|e| failed("cannot take the lock", e))?;
    if !path.is_file() {
        build(program, &path)?;
    }
    Ok(path)
}

/// What a program is built from.
struct Source {
    /// The folder of its `go.mod` below `tests/cluster`.
    module: &'static str,
    package: String,
}

fn source(program: &str) -> Source {
    match program {
        ETCD => Source { module: "etcd", package: ETCD_MODULE.to_owned() },
        KREW | KREW_VALIDATOR => Source { module: "krew", package: format!("{KREW_MODULE}/cmd/{program}") },
        _ => Source { module: ".", package: format!("{KUBERNETES_MODULE}/cmd/{program}") },
    }
}

impl Source {
    /// The folder of what is built, by its version.
    fn cache(&self) -> PathBuf {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target directory");
        target.join("control-plane").join(match self.module {
            "krew" => format!("krew-{}", pinned(include_str!("../cluster/krew/go.mod"), KREW_MODULE)),
            _ => format!(
                "kubernetes-{}-etcd-{}",
                kubernetes_version(),
                pinned(include_str!("../cluster/etcd/go.mod"), ETCD_MODULE)
            ),
        })
    }
}

fn build(program: &'static str, path: &Path) -> Result<(), String> {
    let Source { module, package } = source(program);
    let version = kubernetes_version();
    let (major, minor) = minor(version).unwrap_or(("", ""));
    let variable = "-X k8s.io/component-base/version";
    let partial = path.with_extension("partial");
    say(&format!(
        "building {program} for the tests from its Go module; once, all of them take about 12 \
         minutes on two cores"
    ));
    let started = Instant::now();
    let mut build = Command::new("go");
    build
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster").join(module))
        .args(["build", "-mod=readonly", "-ldflags"])
        .arg(format!(
            "-s -w {variable}.gitVersion={version} {variable}.gitMajor={major} \
             {variable}.gitMinor={minor}"
        ))
        .arg("-o")
        .arg(&partial)
        .arg(package);
    let output = output_of(&mut build);
    let remedy = "install Go 1.26 or newer (https://go.dev/dl); a control plane alone can also come from \
                  KUBEBUILDER_ASSETS, a directory with etcd, kube-apiserver, kube-controller-manager and \
                  kube-scheduler";
    let output = output.map_err(|e| format!("cannot run go to build {program}: {e}; {remedy}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("go could not build {program}: {}; {remedy}", text.trim()));
    }
    fs::rename(&partial, path).map_err(|e| format!("cannot keep {}: {e}", path.display()))?;
    say(&format!("built {program} in {} s", started.elapsed().as_secs()));
    Ok(())
}

/// Writes to the terminal past the test harness's capture: ten silent minutes
/// look like a hang.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

pub(super) fn kubernetes_version() -> &'static str {
    pinned(include_str!("../cluster/go.mod"), KUBERNETES_MODULE)
}

/// The version that a `go.mod` requires of a module.
fn pinned(go_mod: &'static str, module: &str) -> &'static str {
    go_mod
        .lines()
        .filter_map(|line| line.trim().strip_prefix(module)?.trim().split(' ').next())
        .find(|version| version.starts_with('v'))
        .expect("go.mod requires the module")
}

/// The first two parts of a version such as `v1.36.3`.
pub(super) fn minor(version: &str) -> Option<(&str, &str)> {
    let mut parts = version.strip_prefix('v')?.split('.');
    Some((parts.next()?, parts.next()?))
}
