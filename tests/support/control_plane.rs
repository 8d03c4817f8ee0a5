//! etcd, kube-apiserver, kube-controller-manager and kube-scheduler on loopback.

use std::{
    ffi::OsString,
    net::TcpListener,
    path::Path,
    sync::{Mutex, PoisonError},
};

use k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

use super::{
    assets::Assets,
    kubeconfig::{Credential, User, client, kubeconfig},
    pki::{Authority, Identity},
    process::{Daemon, Scratch},
    wait::until,
};

/// What the tests use; the others would only take time. `node-lifecycle` is
/// among the missing ones because it would taint nodes whose double is slow.
const CONTROLLERS: &str = "clusterrole-aggregation-controller,garbage-collector-controller,\
    job-controller,namespace-controller,pod-garbage-collector-controller,\
    resourcequota-controller,root-ca-certificate-publisher-controller,\
    serviceaccount-controller,serviceaccount-token-controller,ttl-after-finished-controller,\
    validatingadmissionpolicy-status-controller";

/// A running control plane, which ends with this value or with the test process.
pub(crate) struct ControlPlane {
    // Dropped in this order: what writes into the directory before the directory.
    _scheduler: Daemon,
    _controller_manager: Daemon,
    apiserver: Mutex<Option<Daemon>>,
    _etcd: Daemon,
    apiserver_command: Program,
    pub(crate) server: String,
    pub(crate) admin: User,
    scratch: Scratch,
}

/// A program with its flags.
#[derive(Clone)]
struct Program {
    name: &'static str,
    path: std::path::PathBuf,
    flags: Vec<OsString>,
}

impl ControlPlane {
    /// Starts everything and waits until it works. Bearer tokens that are not
    /// `ServiceAccount`s' are reviewed by `token_webhook` (a kubeconfig file).
    pub(crate) async fn start(authority: &Authority, token_webhook: &str) -> Self {
        let assets = Assets::locate().unwrap_or_else(|why| panic!("no control plane: {why}"));
        let scratch = Scratch::new();
        let dir = scratch.path();
        let admin = User {
            name: "admin".into(),
            credential: Credential::Certificate(authority.client("admin", Some("system:masters"))),
        };

        let (etcd, etcd_url, _) = start(
            dir,
            || etcd(&assets, dir),
            async |url| {
                let address = url.trim_start_matches("http://");
                tokio::net::TcpStream::connect(address).await.is_ok()
            },
        )
        .await;

        write_files(dir, authority, token_webhook);
        let (apiserver, server, apiserver_command) = start(
            dir,
            || kube_apiserver(&assets, dir, &etcd_url),
            async |url| is_ready(&admin_client(url, authority, &admin).await).await,
        )
        .await;

        let file = dir.join("admin.kubeconfig");
        let text = kubeconfig(&server, authority.pem(), &admin, None);
        std::fs::write(&file, text).expect("kubeconfig written");
        let mut controller_manager = kube_controller_manager(&assets, dir, &file).spawn(dir);
        let mut scheduler = kube_scheduler(&assets, &file).spawn(dir);
        let client = admin_client(&server, authority, &admin).await;
        controllers_work(&client, &mut controller_manager).await;
        scheduling_works(&client, &mut scheduler).await;

        Self {
            _scheduler: scheduler,
            _controller_manager: controller_manager,
            apiserver: Mutex::new(Some(apiserver)),
            _etcd: etcd,
            apiserver_command,
            server,
            admin,
            scratch,
        }
    }

    /// The directory of all state, logs included.
    pub(crate) fn dir(&self) -> &Path {
        self.scratch.path()
    }

    /// Kills the API server. Everything else goes on without it.
    pub(crate) fn stop_apiserver(&self) {
        drop(self.apiserver().take());
    }

    /// Starts the API server again, on the same port, and waits until it is ready.
    pub(crate) async fn start_apiserver(&self, client: &Client) {
        *self.apiserver() = Some(self.apiserver_command.spawn(self.dir()));
        until("the API server to come back", async || {
            if let Some(apiserver) = self.apiserver().as_mut() {
                apiserver.assert_running();
            }
            is_ready(client).await.then_some(())
        })
        .await;
    }

    fn apiserver(&self) -> std::sync::MutexGuard<'_, Option<Daemon>> {
        self.apiserver.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Program {
    fn new(name: &'static str, path: &Path) -> Self {
        Self { name, path: path.to_owned(), flags: Vec::new() }
    }

    fn flag(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        let mut flag = OsString::from(format!("--{name}="));
        flag.push(value);
        self.flags.push(flag);
        self
    }

    fn spawn(&self, dir: &Path) -> Daemon {
        Daemon::spawn(self.name, &self.path, &self.flags, dir)
    }
}

/// Starts a server and waits until it answers. A port that was free a moment
/// ago may be taken by now; then others are tried.
async fn start(
    dir: &Path,
    program: impl Fn() -> (Program, String),
    ready: impl AsyncFn(&str) -> bool,
) -> (Daemon, String, Program) {
    for _ in 0..5 {
        let (program, url) = program();
        let mut daemon = program.spawn(dir);
        let up = until(program.name, async || {
            if daemon.lost_its_port() {
                return Some(false);
            }
            daemon.assert_running();
            ready(&url).await.then_some(true)
        })
        .await;
        if up {
            return (daemon, url, program);
        }
    }
    panic!("no free port found for a server of the control plane");
}

fn etcd(assets: &Assets, dir: &Path) -> (Program, String) {
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
fn write_files(dir: &Path, authority: &Authority, token_webhook: &str) {
    let write = |name, text: &str| std::fs::write(dir.join(name), text).expect("file written");
    write("ca.crt", authority.pem());
    write("tokens.kubeconfig", token_webhook);
    authority.server("kube-apiserver").write(dir, "apiserver");
    Identity::key_pair().write(dir, "service-account");
    authority.client("kube-apiserver", Some("system:masters")).write(dir, "kubelet-client");
}

fn kube_apiserver(assets: &Assets, dir: &Path, etcd: &str) -> (Program, String) {
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

fn kube_controller_manager(assets: &Assets, dir: &Path, kubeconfig: &Path) -> Program {
    client_program("kube-controller-manager", &assets.controller_manager, kubeconfig)
        .flag("controllers", CONTROLLERS)
        .flag("service-account-private-key-file", dir.join("service-account.key"))
        .flag("root-ca-file", dir.join("ca.crt"))
        .flag("concurrent-job-syncs", "20")
        .flag("concurrent-gc-syncs", "20")
        .flag("concurrent-namespace-syncs", "20")
        .flag("resource-quota-sync-period", "5s")
}

fn kube_scheduler(assets: &Assets, kubeconfig: &Path) -> Program {
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

async fn admin_client(server: &str, authority: &Authority, admin: &User) -> Client {
    client(&kubeconfig(server, authority.pem(), admin, None)).await
}

async fn is_ready(client: &Client) -> bool {
    let request = http::Request::get("/readyz").body(Vec::new());
    client.request_text(request.expect("a valid request")).await.is_ok()
}

async fn controllers_work(client: &Client, controller_manager: &mut Daemon) {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "default");
    let config_maps = Api::<ConfigMap>::namespaced(client.clone(), "default");
    until("the controllers", async || {
        controller_manager.assert_running();
        accounts.get("default").await.ok()?;
        config_maps.get("kube-root-ca.crt").await.ok()
    })
    .await;
}

/// There are no nodes yet, so the scheduler shows itself by refusing a pod.
async fn scheduling_works(client: &Client, scheduler: &mut Daemon) {
    let pods = Api::<Pod>::namespaced(client.clone(), "default");
    let name = "waits-for-the-scheduler";
    let pod = serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": { "containers": [{ "name": "none", "image": "registry.test/none" }] },
    }));
    let pod: Pod = pod.expect("a valid pod");
    pods.create(&PostParams::default(), &pod).await.expect("a pod is created");
    until("the scheduler", async || {
        scheduler.assert_running();
        let conditions = pods.get(name).await.ok()?.status?.conditions?;
        conditions.into_iter().find(|c| c.type_ == "PodScheduled")
    })
    .await;
    pods.delete(name, &DeleteParams::default().grace_period(0)).await.expect("the pod is deleted");
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
