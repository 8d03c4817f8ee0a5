//! The programs of a control plane with their flags.

use std::{
    ffi::{OsStr, OsString},
    net::TcpListener,
    path::{Path, PathBuf},
};

use super::{
    assets::Assets,
    pki::{Authority, Identity},
    process::Daemon,
};

/// What the tests use; the others would only take time. `node-lifecycle` is
/// among the missing ones because it would taint nodes whose double is slow.
const CONTROLLERS: &str = "clusterrole-aggregation-controller,garbage-collector-controller,\
    job-controller,namespace-controller,pod-garbage-collector-controller,\
    resourcequota-controller,root-ca-certificate-publisher-controller,\
    serviceaccount-controller,serviceaccount-token-controller,ttl-after-finished-controller,\
    validatingadmissionpolicy-status-controller";

/// A program with its flags.
pub(super) struct Program {
    pub(super) name: &'static str,
    path: PathBuf,
    flags: Vec<OsString>,
}

impl Program {
    fn new(name: &'static str, path: &Path) -> Self {
        Self { name, path: path.to_owned(), flags: Vec::new() }
    }

    fn flag(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        let mut flag = OsString::from(format!("--{name}="));
        flag.push(value);
        self.flags.push(flag);
        self
    }

    pub(super) fn spawn(&self, dir: &Path) -> Daemon {
        Daemon::spawn(self.name, &self.path, &self.flags, dir)
    }
}

pub(super) fn etcd(assets: &Assets, dir: &Path) -> (Program, String) {
    let url = format!("http://127.0.0.1:{}", free_port());
    let peer = format!("http://127.0.0.1:{}", free_port());
    let program = Program::new("etcd", &assets.etcd)
        .flag("data-dir", dir.join("etcd"))
        .flag("listen-client-urls", &url)
        .flag("advertise-client-urls", &url)
        .flag("listen-peer-urls", &peer)
        .flag("initial-advertise-peer-urls", &peer)
        .flag("initial-cluster", format!("default={peer}"))
        .flag("unsafe-no-fsync", "true")
        .flag("log-level", "warn");
    (program, url)
}

/// The files that the flags below name.
pub(super) fn write_files(dir: &Path, authority: &Authority, token_webhook: &str) {
    let write = |name, text: &str| std::fs::write(dir.join(name), text).expect("file written");
    write("ca.crt", authority.pem());
    write("tokens.kubeconfig", token_webhook);
    authority.server("kube-apiserver").write(dir, "apiserver");
    Identity::key_pair().write(dir, "service-account");
    authority.client("kube-apiserver", Some("system:masters")).write(dir, "kubelet-client");
}

pub(super) fn kube_apiserver(assets: &Assets, dir: &Path, etcd: &str) -> (Program, String) {
    let port = free_port().to_string();
    let program = Program::new("kube-apiserver", &assets.apiserver)
        .flag("etcd-servers", etcd)
        .flag("bind-address", "127.0.0.1")
        .flag("advertise-address", "127.0.0.1")
        .flag("secure-port", &port)
        .flag("tls-cert-file", dir.join("apiserver.crt"))
        .flag("tls-private-key-file", dir.join("apiserver.key"))
        .flag("client-ca-file", dir.join("ca.crt"))
        .flag("authorization-mode", "Node,RBAC")
        .flag("authentication-token-webhook-version", "v1")
        .flag("authentication-token-webhook-config-file", dir.join("tokens.kubeconfig"))
        // Tests take users' tokens away and expect to see it.
        .flag("authentication-token-webhook-cache-ttl", "0s")
        .flag("service-account-issuer", "https://kubernetes.default.svc.cluster.local")
        .flag("service-account-key-file", dir.join("service-account.crt"))
        .flag("service-account-signing-key-file", dir.join("service-account.key"))
        .flag("service-cluster-ip-range", "10.96.0.0/16")
        // Its only endpoint would be on loopback, which it refuses to publish.
        .flag("endpoint-reconciler-type", "none")
        .flag("kubelet-certificate-authority", dir.join("ca.crt"))
        .flag("kubelet-client-certificate", dir.join("kubelet-client.crt"))
        .flag("kubelet-client-key", dir.join("kubelet-client.key"))
        .flag("kubelet-preferred-address-types", "InternalIP")
        .flag("allow-privileged", "true")
        .flag("max-requests-inflight", "4000")
        .flag("max-mutating-requests-inflight", "2000")
        .flag("profiling", "false");
    (program, format!("https://127.0.0.1:{port}"))
}

pub(super) fn kube_controller_manager(assets: &Assets, dir: &Path, kubeconfig: &Path) -> Program {
    client_program("kube-controller-manager", &assets.controller_manager, kubeconfig)
        .flag("controllers", CONTROLLERS)
        .flag("service-account-private-key-file", dir.join("service-account.key"))
        .flag("root-ca-file", dir.join("ca.crt"))
        .flag("concurrent-job-syncs", "20")
        .flag("concurrent-gc-syncs", "20")
        .flag("concurrent-namespace-syncs", "20")
        .flag("resource-quota-sync-period", "5s")
}

pub(super) fn kube_scheduler(assets: &Assets, kubeconfig: &Path) -> Program {
    client_program("kube-scheduler", &assets.scheduler, kubeconfig)
}

/// The controller manager and the scheduler serve nothing: what they do shows
/// that they work.
fn client_program(name: &'static str, path: &Path, kubeconfig: &Path) -> Program {
    Program::new(name, path)
        .flag("kubeconfig", kubeconfig)
        .flag("leader-elect", "false")
        .flag("secure-port", "0")
        .flag("kube-api-qps", "1000")
        .flag("kube-api-burst", "2000")
        .flag("profiling", "false")
}

/// A port that nothing listens on, from below the range of outgoing connections:
/// nothing else takes it while the API server is stopped.
fn free_port() -> u16 {
    loop {
        let random = getrandom::u32().expect("random numbers") % 12_000;
        let port = 20_000 + u16::try_from(random).expect("fits");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
