//! Where the control plane's programs come from: `KUBEBUILDER_ASSETS`, an
//! installed setup-envtest, or a build of the Go modules in `tests/cluster`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::built::{self, ETCD, kubernetes_version, minor};
use super::cli::output_of;

/// The programs of a control plane.
#[derive(Clone, Debug)]
pub(crate) struct Assets {
    pub(crate) etcd: PathBuf,
    pub(crate) apiserver: PathBuf,
    pub(crate) controller_manager: PathBuf,
    pub(crate) scheduler: PathBuf,
}

const APISERVER: &str = "kube-apiserver";
const CONTROLLER_MANAGER: &str = "kube-controller-manager";
const SCHEDULER: &str = "kube-scheduler";

impl Assets {
    /// Finds the programs, or builds them. Errors say what to install.
    pub(crate) fn locate() -> Result<Self, String> {
        Self::from(std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from), dirs::data_dir(), built::program)
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

/// What a Kubernetes program says of itself, as `v1.36.3`.
fn version_of(program: &Path) -> Result<String, String> {
    let failed = || format!("{} --version fails", program.display());
    let output = output_of(Command::new(program).arg("--version")).map_err(|e| format!("{}: {e}", failed()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.trim().strip_prefix("Kubernetes ");
    version.map(str::to_owned).ok_or_else(failed)
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
