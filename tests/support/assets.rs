//! Where the control plane's programs come from: `KUBEBUILDER_ASSETS`, an
//! installed setup-envtest, the cache below `target/`, or a build of the Go
//! modules in `tests/cluster` into that cache.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

/// The programs of a control plane.
#[derive(Clone, Debug)]
pub(crate) struct Assets {
    pub(crate) etcd: PathBuf,
    pub(crate) apiserver: PathBuf,
    pub(crate) controller_manager: PathBuf,
    pub(crate) scheduler: PathBuf,
}

const ETCD: &str = "etcd";
const APISERVER: &str = "kube-apiserver";
const CONTROLLER_MANAGER: &str = "kube-controller-manager";
const SCHEDULER: &str = "kube-scheduler";

impl Assets {
    /// Finds the programs, or builds them. Errors say what to install.
    pub(crate) fn locate() -> Result<Self, String> {
        Self::from(std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from), dirs::data_dir(), cached)
    }

    fn from(
        chosen: Option<PathBuf>,
        data: Option<PathBuf>,
        cached: impl Fn(&'static str) -> Result<PathBuf, String>,
    ) -> Result<Self, String> {
        let bundle = match chosen {
            Some(dir) => {
                usable(&dir).map_err(|why| format!("KUBEBUILDER_ASSETS={}: {why}", dir.display()))?;
                Some(dir)
            }
            // A store may hold bundles of any age; one that does not fit is no error.
            None => data.and_then(|data| newest_first(&data)).into_iter().flatten().find(|dir| usable(dir).is_ok()),
        };
        let find = |program| match bundle.as_ref().map(|dir| dir.join(program)) {
            Some(path) if path.is_file() => Ok(path),
            _ => cached(program),
        };
        Ok(Self {
            etcd: find(ETCD)?,
            apiserver: find(APISERVER)?,
            controller_manager: find(CONTROLLER_MANAGER)?,
            scheduler: find(SCHEDULER)?,
        })
    }
}

/// Whether a directory's programs can be used. Envtest bundles hold no controller
/// manager and no scheduler: ours join them if the API server is of our version,
/// for neither may be newer than it.
fn usable(dir: &Path) -> Result<(), String> {
    let has = |program: &&str| dir.join(program).is_file();
    if let Some(program) = [ETCD, APISERVER].iter().find(|program| !has(program)) {
        return Err(format!("no {program} there"));
    }
    if [CONTROLLER_MANAGER, SCHEDULER].iter().all(has) {
        return Ok(());
    }
    let (version, ours) = (version_of(&dir.join(APISERVER))?, kubernetes_version());
    if minor(&version) == minor(ours) {
        return Ok(());
    }
    Err(format!(
        "it holds {APISERVER} {version} without {CONTROLLER_MANAGER} and {SCHEDULER}, which are at \
         hand for {ours} only; add them there, or unset the variable"
    ))
}

/// The bundles in setup-envtest's store.
fn newest_first(data: &Path) -> Option<Vec<PathBuf>> {
    let store = if cfg!(target_os = "macos") { "io.kubebuilder.envtest" } else { "kubebuilder-envtest" };
    let bundles = fs::read_dir(data.join(store).join("k8s")).ok()?;
    let mut bundles: Vec<(Vec<u32>, PathBuf)> = bundles
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let version = name.split('-').next()?.split('.');
            Some((version.map(str::parse).collect::<Result<_, _>>().ok()?, entry.path()))
        })
        .collect();
    bundles.sort();
    Some(bundles.into_iter().rev().map(|(_, path)| path).collect())
}

/// A program of the cache, built first if it is not there yet.
fn cached(program: &'static str) -> Result<PathBuf, String> {
    let cache = cache_dir();
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

fn build(program: &'static str, path: &Path) -> Result<(), String> {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster");
    let (module, package) = if program == ETCD {
        (modules.join("etcd"), "go.etcd.io/etcd/server/v3".to_owned())
    } else {
        (modules, format!("k8s.io/kubernetes/cmd/{program}"))
    };
    let version = kubernetes_version();
    let (major, minor) = minor(version).unwrap_or(("", ""));
    let variable = "-X k8s.io/component-base/version";
    let partial = path.with_extension("partial");
    say(&format!(
        "building {program} for the tests' control plane from its Go module; once, all four take \
         about 10 minutes on two cores"
    ));
    let started = Instant::now();
    let output = Command::new("go")
        .current_dir(module)
        .args(["build", "-mod=readonly", "-ldflags"])
        .arg(format!(
            "-s -w {variable}.gitVersion={version} {variable}.gitMajor={major} \
             {variable}.gitMinor={minor}"
        ))
        .arg("-o")
        .arg(&partial)
        .arg(package)
        .output();
    let remedy = "install Go 1.26 or newer (https://go.dev/dl), or set KUBEBUILDER_ASSETS to a \
                  directory with etcd, kube-apiserver, kube-controller-manager and kube-scheduler";
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

fn cache_dir() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target directory");
    target.join("control-plane").join(format!("kubernetes-{}-etcd-{}", kubernetes_version(), etcd_version()))
}

fn kubernetes_version() -> &'static str {
    pinned(include_str!("../cluster/go.mod"), "k8s.io/kubernetes")
}

fn etcd_version() -> &'static str {
    pinned(include_str!("../cluster/etcd/go.mod"), "go.etcd.io/etcd/server/v3")
}

/// The version that a `go.mod` requires of a module.
fn pinned(go_mod: &'static str, module: &str) -> &'static str {
    go_mod
        .lines()
        .filter_map(|line| line.trim().strip_prefix(module)?.trim().split(' ').next())
        .find(|version| version.starts_with('v'))
        .expect("go.mod requires the module")
}

/// What a Kubernetes program says of itself, as `v1.36.3`.
fn version_of(program: &Path) -> Result<String, String> {
    let failed = || format!("{} --version fails", program.display());
    let output = Command::new(program).arg("--version").output().map_err(|e| format!("{}: {e}", failed()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.trim().strip_prefix("Kubernetes ");
    version.map(str::to_owned).ok_or_else(failed)
}

fn minor(version: &str) -> Option<(&str, &str)> {
    let mut parts = version.strip_prefix('v')?.split('.');
    Some((parts.next()?, parts.next()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Puts programs into a directory that say they are of a version.
    fn bundle(dir: &Path, version: &str, programs: &[&str]) -> PathBuf {
        fs::create_dir_all(dir).unwrap();
        for program in programs {
            let path = dir.join(program);
            fs::write(&path, format!("#!/bin/sh\necho Kubernetes {version}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        dir.to_owned()
    }

    #[expect(clippy::unnecessary_wraps, reason = "it stands for a look-up that can fail")]
    fn ours(program: &'static str) -> Result<PathBuf, String> {
        Ok(Path::new("cache").join(program))
    }

    const ALL: &[&str] = &[ETCD, APISERVER, CONTROLLER_MANAGER, SCHEDULER];
    const ENVTEST: &[&str] = &[ETCD, APISERVER];

    #[test]
    fn a_complete_bundle_is_taken_whatever_its_version() {
        let dir = tempfile::tempdir().unwrap();
        let chosen = bundle(dir.path(), "v1.30.0", ALL);
        let assets = Assets::from(Some(chosen.clone()), None, ours).unwrap();
        assert_eq!(assets.scheduler, chosen.join(SCHEDULER));
    }

    #[test]
    fn an_envtest_bundle_is_completed_only_if_the_versions_fit() {
        let dir = tempfile::tempdir().unwrap();
        let fitting = bundle(&dir.path().join("fitting"), kubernetes_version(), ENVTEST);
        let assets = Assets::from(Some(fitting.clone()), None, ours).unwrap();
        assert_eq!(assets.apiserver, fitting.join(APISERVER));
        assert_eq!(assets.scheduler, Path::new("cache").join(SCHEDULER));

        let old = bundle(&dir.path().join("old"), "v1.30.0", ENVTEST);
        let why = Assets::from(Some(old), None, ours).unwrap_err();
        assert!(why.contains("KUBEBUILDER_ASSETS=") && why.contains("v1.30.0"), "{why}");
    }

    #[test]
    fn a_chosen_directory_without_the_programs_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let why = Assets::from(Some(dir.path().to_owned()), None, ours).unwrap_err();
        assert!(why.contains("no etcd there"), "{why}");
    }

    #[test]
    fn the_newest_usable_bundle_of_the_store_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let store = if cfg!(target_os = "macos") { "io.kubebuilder.envtest" } else { "kubebuilder-envtest" };
        let at = |name: &str| dir.path().join(store).join("k8s").join(name);
        bundle(&at("1.9.0-linux-amd64"), "v1.9.0", ALL);
        let newest_complete = bundle(&at("1.31.0-linux-amd64"), "v1.31.0", ALL);
        bundle(&at("1.33.0-linux-amd64"), "v1.33.0", ENVTEST);
        bundle(&at("no-version"), "v1.40.0", ALL);
        let assets = Assets::from(None, Some(dir.path().to_owned()), ours).unwrap();
        assert_eq!(assets.etcd, newest_complete.join(ETCD));
    }

    #[test]
    fn without_a_bundle_the_cache_is_asked_and_its_error_passed_on() {
        let assets = Assets::from(None, None, ours).unwrap();
        assert_eq!(assets.etcd, Path::new("cache").join(ETCD));
        let failure = Assets::from(None, None, |_| Err("install Go".into())).unwrap_err();
        assert_eq!(failure, "install Go");
    }
}
