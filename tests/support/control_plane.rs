//! A control plane on loopback: etcd, kube-apiserver, kube-controller-manager, kube-scheduler.

use std::{
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use tokio::net::TcpStream;

use super::{
    assets::Assets,
    kubeconfig::{Credential, User, client, kubeconfig},
    pki::Authority,
    process::{Daemon, Scratch},
    programs::{Program, etcd, kube_apiserver, kube_controller_manager, kube_scheduler, write_files},
    wait::until,
};

/// A running control plane, which ends with this value or with the test process.
pub(crate) struct ControlPlane {
    // Dropped in this order: what writes into the directory before the directory.
    running: Mutex<Running>,
    _etcd: Daemon,
    etcd: String,
    programs: Programs,
    pub(crate) server: String,
    pub(crate) admin: User,
    scratch: Scratch,
}

struct Programs {
    apiserver: Program,
    controller_manager: Program,
    scheduler: Program,
}

struct Running {
    controller_manager: Daemon,
    scheduler: Daemon,
    apiserver: Option<Daemon>,
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

        let listens = async |url: &str| TcpStream::connect(url.trim_start_matches("http://")).await.is_ok();
        let (etcd, etcd_url, _) = start(dir, || etcd(&assets, dir), listens).await;

        write_files(dir, authority, token_webhook);
        let program = || kube_apiserver(&assets, dir, &etcd_url);
        let answers = async |url: &str| is_ready(&admin_client(url, authority, &admin).await).await;
        let (apiserver, server, program) = start(dir, program, answers).await;

        let file = dir.join("admin.kubeconfig");
        let text = kubeconfig(&server, authority.pem(), &admin, None);
        std::fs::write(&file, text).expect("kubeconfig written");
        let programs = Programs {
            apiserver: program,
            controller_manager: kube_controller_manager(&assets, dir, &file),
            scheduler: kube_scheduler(&assets, &file),
        };
        let mut controller_manager = programs.controller_manager.spawn(dir);
        let mut scheduler = programs.scheduler.spawn(dir);
        let client = admin_client(&server, authority, &admin).await;
        controllers_work(&client, &mut controller_manager).await;
        scheduling_works(&client, &mut scheduler).await;

        let running = Running { controller_manager, scheduler, apiserver: Some(apiserver) };
        Self { running: Mutex::new(running), _etcd: etcd, etcd: etcd_url, programs, server, admin, scratch }
    }

    /// The directory of all state, logs included.
    pub(crate) fn dir(&self) -> &Path {
        self.scratch.path()
    }

    /// Forgets what was before a revision, as the API server has etcd do every five minutes.
    pub(crate) async fn compact(&self, revision: u64) {
        let etcd = Client::try_from(kube::Config::new(self.etcd.parse().expect("a URL"))).expect("a client");
        let body = serde_json::json!({ "revision": revision.to_string() }).to_string().into_bytes();
        let request = http::Request::post("/v3/kv/compaction").body(body).expect("a request");
        // A second time it is refused: the revision is gone already.
        let _ = etcd.request_text(request).await;
    }

    /// Kills the API server. Everything else goes on without it.
    pub(crate) fn stop_apiserver(&self) {
        drop(self.running().apiserver.take());
    }

    /// Starts the API server again, on the same port, and waits until it is
    /// ready. Its clients start again with it: after an outage they would stay
    /// away for up to half a minute more.
    pub(crate) async fn start_apiserver(&self, client: &Client) {
        self.running().apiserver = Some(self.programs.apiserver.spawn(self.dir()));
        until("the API server to come back", async || {
            if let Some(apiserver) = &mut self.running().apiserver {
                apiserver.assert_running();
            }
            is_ready(client).await.then_some(())
        })
        .await;
        let mut running = self.running();
        running.controller_manager = self.programs.controller_manager.spawn(self.dir());
        running.scheduler = self.programs.scheduler.spawn(self.dir());
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
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
