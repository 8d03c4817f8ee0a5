//! What is taken from the process.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
#[cfg(test)]
use std::path::Path;
use std::path::PathBuf;

/// Where a pod finds its service account's credentials.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Facts of the process that decide about a connection. Tests make their own.
#[derive(Clone)]
pub struct Environment {
    variables: HashMap<OsString, OsString>,
    service_account: PathBuf,
    terminal: bool,
}

impl Environment {
    /// The variables of this process, and whether its stdin is a terminal.
    #[must_use]
    pub fn from_process() -> Self {
        Self {
            variables: std::env::vars_os().map(|(name, value)| (canonical(&name), value)).collect(),
            service_account: PathBuf::from(SERVICE_ACCOUNT),
            terminal: std::io::stdin().is_terminal(),
        }
    }

    /// The variables of this process, with nobody to be asked.
    #[cfg(feature = "cli")]
    pub(crate) fn unattended() -> Self {
        Self { terminal: false, ..Self::from_process() }
    }

    /// A variable, unless it is unset or empty.
    pub(super) fn os(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(&canonical(OsStr::new(name))).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// A variable as text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.os(name).and_then(OsStr::to_str)
    }

    /// A person can be asked: stdin is a terminal.
    pub(super) fn terminal(&self) -> bool {
        self.terminal
    }

    /// A file of the pod's service account: `token`, `ca.crt`, `namespace`.
    pub(super) fn service_account(&self, file: &str) -> PathBuf {
        self.service_account.join(file)
    }

    /// Whether this process runs in a pod that can reach its API server.
    pub(super) fn in_cluster(&self) -> bool {
        self.os("KUBERNETES_SERVICE_HOST").is_some()
            && self.os("KUBERNETES_SERVICE_PORT").is_some()
            && self.service_account("token").is_file()
    }

    /// The namespace of the pod that this process runs in.
    pub(super) fn pod_namespace(&self) -> Option<String> {
        if !self.in_cluster() {
            return None;
        }
        let file = || std::fs::read_to_string(self.service_account("namespace")).ok();
        let namespace = self.text("POD_NAMESPACE").map(str::to_owned).or_else(file)?;
        Some(namespace.trim().to_owned()).filter(|namespace| !namespace.is_empty())
    }

    /// The files to read when `--kubeconfig` is not given: those of `KUBECONFIG`, else `~/.kube/config`.
    pub(super) fn kubeconfig_files(&self) -> Vec<PathBuf> {
        if let Some(list) = self.os("KUBECONFIG") {
            return std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty()).collect();
        }
        let homes = self.homes();
        let files = homes.iter().map(|home| home.join(".kube").join("config"));
        let existing = files.clone().find(|file| file.exists());
        existing.or_else(|| files.into_iter().next()).into_iter().collect()
    }

    /// The home directory, or, as for kubectl, the working directory where there is none; on Windows the three places
    /// where one may be, in kubectl's order.
    fn homes(&self) -> Vec<PathBuf> {
        let home = self.os("HOME").map(PathBuf::from);
        if !cfg!(windows) {
            return vec![home.unwrap_or_default()];
        }
        let drive = self.os("HOMEDRIVE").zip(self.os("HOMEPATH")).map(|(drive, path)| {
            let mut whole = drive.to_owned();
            whole.push(path);
            PathBuf::from(whole)
        });
        let profile = self.os("USERPROFILE").map(PathBuf::from);
        home.into_iter().chain(drive).chain(profile).collect()
    }
}

/// Names of variables are the same in any case on Windows.
fn canonical(name: &OsStr) -> OsString {
    if cfg!(windows) { name.to_ascii_uppercase() } else { name.to_owned() }
}

#[cfg(test)]
impl Environment {
    /// An environment with these variables alone, no pod and no terminal.
    pub(crate) fn of(variables: &[(&str, &str)]) -> Self {
        Self {
            variables: variables.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            service_account: PathBuf::from("/nonexistent"),
            terminal: false,
        }
    }

    /// The same in a pod whose service account's files are in `directory`.
    pub(crate) fn in_pod(mut self, directory: &Path) -> Self {
        self.service_account = directory.to_owned();
        self.variables.insert("KUBERNETES_SERVICE_HOST".into(), "10.0.0.1".into());
        self.variables.insert("KUBERNETES_SERVICE_PORT".into(), "443".into());
        self
    }
}
