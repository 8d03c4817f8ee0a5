//! Programs that run in a pod. A pod's files have a fixed place, which both programs look at here in another.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    Programs, compare_all,
    rig::ca_pem,
    situations::{Situation, env},
};
use crate::support::{
    built,
    cli::{output_of, spawning},
};

const PLACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// One in which the plugin means to do otherwise.
const fn unlike(env: &'static str, flags: &'static str, kubectl: &'static str, plugin: &'static str) -> Situation {
    Situation { flags, env, kubectl, plugin: Some(plugin) }
}

const IN_POD: &[Situation] = &[
    env("{POD} HOME={HOME}/elsewhere", "", "pod-token@a in pod-space"),
    env("{POD} HOME={HOME}/elsewhere", "-n flagged", "pod-token@a in flagged"),
    env("{POD} HOME={HOME}/elsewhere POD_NAMESPACE=named", "", "pod-token@a in named"),
    env("{POD} HOME={HOME}/elsewhere KUBECONFIG=elsewhere/absent", "", "pod-token@a in pod-space"),
    env("{POD} HOME={HOME}/elsewhere KUBECONFIG=elsewhere/empty", "", "pod-token@a in pod-space"),
    env("{POD} HOME={HOME}/elsewhere", "--kubeconfig elsewhere/absent", "fails"),
    env("{POD} HOME={HOME}/elsewhere", "--context main", "fails"),
    env("{POD} HOME={HOME}/elsewhere KUBERNETES_SERVICE_PORT=", "", "fails"),
    env("{POD}", "", "alice@a in team"),
    env("{POD}", "--context bare", "alice@a in pod-space"),
    env("{POD} POD_NAMESPACE=named", "--context bare", "alice@a in named"),
    env("{POD}", "--context second", "bob@b in second"),
    env("{POD} HOME={HOME}/elsewhere HTTPS_PROXY=http://127.0.0.1:1", "", "pod-token@a in pod-space"),
    env("{POD} HOME={HOME}/elsewhere", "--as jane", "fails"),
    // By R39 a flag that chooses an identity asks for a server as well.
    unlike("{POD} HOME={HOME}/elsewhere", "--token eve", "eve@a in pod-space", "fails"),
    // These choose nobody, and yet have kubectl look for a server on port 8080.
    unlike("{POD} HOME={HOME}/elsewhere", "--request-timeout 10s", "fails", "pod-token@a in pod-space"),
    unlike("{POD} HOME={HOME}/elsewhere", "--disable-compression", "fails", "pod-token@a uncompressed in pod-space"),
];

/// A copy of a program that looks for a pod's files in this folder, whose path is no longer than the true one.
fn moved(program: &Path, folder: &Path, name: &str) -> PathBuf {
    let place = folder.to_str().unwrap();
    let padded = format!("{place}{}", "/".repeat(PLACE.len() - place.len()));
    let edit = format!("s|{PLACE}|{padded}|g");
    let edited = output_of(Command::new("sed").env("LC_ALL", "C").arg(edit).arg(program)).unwrap().stdout;
    let copy = folder.join(name);
    let _alone = spawning();
    fs::copy(program, &copy).unwrap();
    fs::write(&copy, edited).unwrap();
    copy
}

#[tokio::test]
async fn r39_in_a_pod_its_account_is_used_when_kubectl_uses_it_and_no_flag_chooses_another() {
    let folder = tempfile::Builder::new().prefix("pod").tempdir_in("/tmp").unwrap();
    for (name, text) in [("token", "pod-token"), ("namespace", "pod-space\n"), ("ca.crt", ca_pem())] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let programs = Programs {
        kubectl: moved(&built::kubectl(), folder.path(), "kubectl"),
        plugin: moved(Path::new(env!("CARGO_BIN_EXE_kubectl-aicr")), folder.path(), "kubectl-aicr"),
    };
    compare_all(IN_POD, &programs).await;
}
