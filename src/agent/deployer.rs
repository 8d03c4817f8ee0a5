//! One run of the agent: [`Deployer`] and what it does, in the order in which it happens.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use kube::Client;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::TaskTracker;

use crate::agent::cleanup::{self, Remains, Removal};
use crate::agent::cluster::Cluster;
use crate::agent::config::{Config, Output};
use crate::agent::created_set::{CreatedSet, Uid};
use crate::agent::event::{Event, Events, Phase};
use crate::agent::manifests::{self, Account, Identity, Manifest, Names, Plan};
use crate::agent::object::{Kind, ObjectRef};
use crate::agent::preflight::{self, Cleared, Label};
use crate::agent::run_id::{self, InvocationId, RunId};
use crate::agent::wait::Wait;
use crate::agent::watches::Watches;
use crate::agent::{fetch, namespace, rehearsal};
use crate::diagnose::evidence::Evidence;
use crate::error::{ApiError, Error};
use crate::ledger::{ClusterId, Header};
use crate::snapshot::gpu;

/// How long the pre-flight repeats calls that fail: nothing is at stake yet, and someone waits for an answer.
const PREFLIGHT_PATIENCE: Duration = Duration::from_secs(3);

/// How long cleanup waits for creates that are on their way. An answer beats having to prove a lost one.
const SETTLE: Duration = Duration::from_secs(5);

/// R25: what a document without GPU data from a cluster with GPU nodes means.
const NO_GPU_DATA: &str = "the snapshot has no GPU data although nodes carry nvidia.com/gpu labels: \
    the agent ran on a node without a usable GPU; choose one with --node-selector nvidia.com/gpu.present=true";

/// What a run that passed the gate goes on with.
struct Checked {
    plan: Plan,
    namespace: namespace::State,
}

/// Deploys the agent, waits for it, reads its document and removes what it created.
///
/// Every method takes `&self` and may be dropped half-way: what was created, or may have been, stays recorded, and
/// [`Deployer::cleanup`] then still removes it.
#[derive(Debug)]
pub struct Deployer {
    cluster: Cluster,
    config: Config,
    identity: Identity,
    names: Names,
    events: Events,
    created: Arc<CreatedSet>,
    /// Creates that are on their way, whether or not anyone still waits for their answer.
    creates: TaskTracker,
    /// Set when the pre-flight has passed: the one deadline of the run.
    deadline: OnceLock<Instant>,
    watches: Mutex<Option<Watches>>,
    evidence: Mutex<Option<Evidence>>,
    phases: Mutex<Vec<(Phase, Instant)>>,
    account: OnceLock<Account>,
    chosen_selector: OnceLock<Label>,
    /// When the Job was created, by the server's clock.
    job_created: OnceLock<Timestamp>,
    cluster_uid: OnceLock<Uid>,
}

impl Deployer {
    /// Makes a deployer with an invocation ID of its own.
    ///
    /// The client must never repeat a POST: [`kube::Client::try_from`] builds one that does. Build it with
    /// [`crate::kubeconfig::connect`], or without kube's retry layer.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a configuration that no cluster is needed to refuse. No request is sent.
    pub fn new(client: Client, config: Config) -> Result<Self, Error> {
        Self::with_events(client, config, Events::nowhere())
    }

    /// As [`Deployer::new`], with everything that happens reported to the receiver.
    ///
    /// # Errors
    /// As [`Deployer::new`].
    pub fn observed(client: Client, config: Config) -> Result<(Self, UnboundedReceiver<Event>), Error> {
        let (events, receiver) = Events::channel();
        Ok((Self::with_events(client, config, events)?, receiver))
    }

    fn with_events(client: Client, config: Config, events: Events) -> Result<Self, Error> {
        config.validate()?;
        let run_id = config.run_id.clone().unwrap_or_else(run_id::generate);
        let names = Names::new(&config, &run_id)?;
        let identity = Identity { run_id, invocation_id: InvocationId::generate() };
        Ok(Self {
            cluster: Cluster::new(client, config.request_timeout),
            config,
            identity,
            names,
            events,
            created: Arc::default(),
            creates: TaskTracker::new(),
            deadline: OnceLock::new(),
            watches: Mutex::new(None),
            evidence: Mutex::new(None),
            phases: Mutex::new(Vec::new()),
            account: OnceLock::new(),
            chosen_selector: OnceLock::new(),
            job_created: OnceLock::new(),
            cluster_uid: OnceLock::new(),
        })
    }

    /// The run ID.
    #[must_use]
    pub fn run_id(&self) -> &RunId {
        &self.identity.run_id
    }

    /// The invocation ID.
    #[must_use]
    pub fn invocation_id(&self) -> &InvocationId {
        &self.identity.invocation_id
    }

    /// The Job's name.
    #[must_use]
    pub fn job_name(&self) -> &str {
        &self.names.job
    }

    /// The Job's UID, once the server has answered its create.
    #[must_use]
    pub fn job_uid(&self) -> Option<Uid> {
        self.created.uid_of(&self.job())
    }

    /// The account that the agent runs as and whether the run made it, once the pre-flight has passed.
    #[must_use]
    pub fn service_account(&self) -> Option<(&str, bool)> {
        self.account.get().map(|account| (account.name(), matches!(account, Account::Owned { .. })))
    }

    /// The UID of the cluster's `kube-system` Namespace, once the pre-flight has read it, where it may be read.
    #[must_use]
    pub fn cluster_uid(&self) -> Option<&Uid> {
        self.cluster_uid.get()
    }

    /// The steps so far and how long each took; the last one until now.
    #[must_use]
    pub fn phases(&self) -> Vec<(Phase, Duration)> {
        let phases = self.phases.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = phases.iter().skip(1).map(|(_, at)| *at).chain([Instant::now()]);
        phases.iter().zip(ends).map(|((phase, at), end)| (*phase, end.duration_since(*at))).collect()
    }

    /// Says that a step begins.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phases.lock().unwrap_or_else(PoisonError::into_inner).push((phase, Instant::now()));
        self.events.emit(Event::Phase(phase));
    }

    /// What was created so far, or may have been.
    #[must_use]
    pub fn created(&self) -> &CreatedSet {
        &self.created
    }

    /// Checks what can be checked, then creates the run's objects, the Job last (R6–R10).
    ///
    /// RBAC: `get` on the Namespace where it can be had (`create` or `patch` where it is absent or unlabelled);
    /// `create` on serviceaccounts, roles, rolebindings, clusterroles, clusterrolebindings and jobs. What else a run
    /// needs is asked for before anything is created.
    ///
    /// # Errors
    /// [`Error::Preflight`] with everything that has to change, before anything is written; [`Error::RunIdInUse`] if an
    /// object of that name exists; [`Error::Api`] if the server refuses;
    /// [`Error::TimedOut`] past the deadline. What was created stays recorded for [`Deployer::cleanup`].
    pub async fn deploy(&self) -> Result<(), Error> {
        let Checked { plan, namespace } = self.check().await?;
        self.keep_on_disk();

        let deadline = *self.deadline.get_or_init(|| in_time(self.config.timeout));
        self.enter(Phase::Deploy);
        let create = async {
            namespace::ensure(&self.cluster, &self.config.namespace, &namespace, deadline, &self.events).await?;
            self.create_together(plan.grants).await?;
            self.create_together(plan.bindings).await?;
            // The watches open beside the Job's create: what happens from its first moment is seen.
            let watches = Watches::open(&self.cluster, &self.config.namespace, &self.names.job);
            *self.watches.lock().unwrap_or_else(PoisonError::into_inner) = Some(watches);
            if let [Some(created)] = self.create_together(vec![plan.job]).await?[..] {
                self.job_created.get_or_init(|| created);
            }
            Ok(())
        };
        timeout_at(deadline, create)
            .await
            .unwrap_or_else(|_| Err(self.timed_out("the run's objects are being created")))
    }

    /// Runs the gate, and then sends every create as a dry run: nothing is written. Gives what a run would create.
    ///
    /// RBAC: as [`Deployer::deploy`].
    ///
    /// # Errors
    /// As [`Deployer::deploy`].
    pub async fn rehearse(&self) -> Result<Vec<serde_json::Value>, Error> {
        let Checked { plan, namespace } = self.check().await?;
        let deadline = Instant::now() + PREFLIGHT_PATIENCE;
        rehearsal::run(&self.cluster, &self.config, self.run_id(), plan, &namespace, deadline, &self.events).await
    }

    /// The gate, and what it lets the run create.
    async fn check(&self) -> Result<Checked, Error> {
        self.events.emit(Event::Started {
            run_id: self.identity.run_id.clone(),
            invocation_id: self.identity.invocation_id.clone(),
            namespace: self.config.namespace.clone(),
        });
        self.enter(Phase::Preflight);
        let deadline = Instant::now() + PREFLIGHT_PATIENCE;
        let (cleared, cluster_uid) = tokio::join!(
            preflight::run(&self.cluster, &self.config, &self.names, &self.identity, deadline, &self.events),
            namespace::cluster_uid(&self.cluster, deadline),
        );
        if let Some(uid) = cluster_uid {
            self.cluster_uid.get_or_init(|| uid);
        }
        let Cleared { account, namespace, chosen_selector } = cleared?;
        let account = self.account.get_or_init(|| account);
        let mut config = self.config.clone();
        if let Some((key, value)) = chosen_selector.map(|label| *self.chosen_selector.get_or_init(|| label)) {
            config.node_selector = Some([(key.to_owned(), value.to_owned())].into());
        }
        Ok(Checked { plan: Plan::new(&config, &self.identity, &self.names, account), namespace })
    }

    /// From here on whatever is created is known even if this process is killed (R35).
    fn keep_on_disk(&self) {
        let Some(place) = &self.config.ledger else { return };
        let header = Header {
            run_id: self.identity.run_id.clone(),
            invocation_id: self.identity.invocation_id.clone(),
            cluster: ClusterId::new(&place.server, self.cluster_uid().cloned()),
            namespace: self.config.namespace.clone(),
            job: self.job(),
            staging: (self.config.output == Output::Staging).then(|| self.document()),
            started_at: Timestamp::now(),
            pid: std::process::id(),
        };
        self.created.keep_on_disk(&place.directory, &header, self.events.clone());
    }

    /// Creates objects that have no order among themselves, all at once, and waits for every answer. Gives the times
    /// that the server says they were created at.
    async fn create_together(&self, manifests: Vec<Manifest>) -> Result<Vec<Option<Timestamp>>, Error> {
        self.created.intend(manifests.iter().map(|manifest| &manifest.object));
        let answers = join_all(manifests.into_iter().map(|manifest| self.create(manifest))).await;
        answers.into_iter().collect()
    }

    /// Sends one create. The request goes on when this future is dropped, and cleanup waits for its answer.
    async fn create(&self, manifest: Manifest) -> Result<Option<Timestamp>, Error> {
        let (cluster, created, events) = (self.cluster.clone(), Arc::clone(&self.created), self.events.clone());
        let run_id = self.identity.run_id.clone();
        let task = self.creates.spawn(async move { create(&cluster, &created, &events, &manifest, run_id).await });
        task.await.unwrap_or_else(|error| Err(Error::Internal(format!("a create did not run to its end: {error}"))))
    }

    /// Waits until the agent's Job has ended well (R20–R22), but no longer than `timeout`, nor past the deadline of the
    /// run: the configuration's `timeout` after the pre-flight.
    ///
    /// RBAC: `list` and `watch` on jobs, pods and, where they can be had, events; `get` on `pods/log`.
    ///
    /// # Errors
    /// [`Error::JobFailed`], [`Error::JobLost`] or [`Error::TimedOut`].
    pub async fn wait_for_completion(&self, timeout: Duration) -> Result<(), Error> {
        self.enter(Phase::Wait);
        let job = self.job();
        let Some(uid) = self.created.uid_of(&job) else {
            return Err(Error::Internal("there is no Job to wait for: deploy comes first".to_owned()));
        };
        // A wait that was dropped took the watches with it.
        let watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner).take();
        let watches = watches.unwrap_or_else(|| Watches::open(&self.cluster, &self.config.namespace, &self.names.job));
        let (own, of_run) = (in_time(timeout), self.run_deadline());
        let (deadline, after) = if own < of_run { (own, timeout) } else { (of_run, self.config.timeout) };
        let mut wait = Wait::new(watches, job, uid, self.events.clone());
        let outcome = wait.run(deadline, after).await;
        let evidence = wait.evidence().await;
        if outcome.is_err() {
            self.events.emit(Event::Evidence(evidence.clone()));
        }
        *self.evidence.lock().unwrap_or_else(PoisonError::into_inner) = Some(evidence);
        outcome.map_err(|error| self.with_chosen_selector(error))
    }

    /// A run that failed where it chose the node itself says so (R25).
    fn with_chosen_selector(&self, mut error: Error) -> Error {
        if let (Some((key, value)), Error::TimedOut { waiting_for: why, .. } | Error::JobFailed { reason: why, .. }) =
            (self.chosen_selector.get(), &mut error)
        {
            // Writing to a String cannot fail.
            let _ = write!(why, " (the run itself chose the node selector {key}={value})");
        }
        error
    }

    /// What the cluster showed of the Job, its pods and their log when the wait for it ended.
    #[must_use]
    pub fn evidence(&self) -> Option<Evidence> {
        self.evidence.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the document that the agent left: its bytes, unchanged (R26).
    ///
    /// RBAC: `get` on configmaps in the output's namespace.
    ///
    /// # Errors
    /// [`Error::NoDocument`] if it is missing, empty or of an earlier run; [`Error::Api`] if it cannot be read.
    pub async fn get_snapshot(&self) -> Result<Vec<u8>, Error> {
        self.enter(Phase::Fetch);
        let config_map = self.document();
        let not_before = self.job_created.get().copied();
        let fetched = fetch::fetch(&self.cluster, &config_map, not_before, self.run_deadline()).await?;
        if self.config.output == Output::Staging
            && let Some(uid) = fetched.uid
        {
            self.created.confirm(&config_map, uid);
        }
        if fetched.document.as_deref().is_ok_and(gpu::is_missing) {
            self.events.warn(NO_GPU_DATA);
        }
        if fetched.document.is_err()
            && let Some(evidence) = self.evidence()
        {
            self.events.emit(Event::Evidence(evidence));
        }
        fetched.document
    }

    /// Deletes what this invocation created, as far as it is proven, and says what became of each object (R29–R34).
    /// Bounded by the configuration's `cleanup_timeout`, however the run ended.
    ///
    /// RBAC: `delete` on what was created; `get` where a create's answer was lost.
    pub async fn cleanup(&self) -> Vec<Removal> {
        let deadline = in_time(self.config.cleanup_timeout);
        drop(self.watches.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.creates.close();
        let _ = timeout(SETTLE.min(self.config.cleanup_timeout), self.creates.wait()).await;
        let entries = self.created.entries();
        if entries.is_empty() {
            self.created.close_if_empty();
            return Vec::new();
        }
        self.enter(Phase::Cleanup);
        let staging = (self.config.output == Output::Staging).then(|| self.document());
        let remains = Remains::new(self.identity.clone(), entries, self.job(), staging, self.config.keep);
        cleanup::run(&self.cluster, &remains, &self.created, deadline).await
    }

    fn job(&self) -> ObjectRef {
        ObjectRef::namespaced(Kind::Job, &self.config.namespace, &self.names.job)
    }

    fn document(&self) -> ObjectRef {
        manifests::document(&self.config, &self.names)
    }

    fn run_deadline(&self) -> Instant {
        self.deadline.get().copied().unwrap_or_else(|| in_time(self.config.timeout))
    }

    fn timed_out(&self, waiting_for: &str) -> Error {
        Error::TimedOut { after: self.config.timeout, waiting_for: waiting_for.to_owned(), next_step: None }
    }
}

/// When so much time will have passed. Whatever is further away than a lifetime is as good as never.
fn in_time(time: Duration) -> Instant {
    const LIFETIME: Duration = Duration::from_hours(100 * 365 * 24);
    Instant::now() + time.min(LIFETIME)
}

/// Sends a recorded create and resolves it (R6, R29).
async fn create(
    cluster: &Cluster,
    created: &CreatedSet,
    events: &Events,
    manifest: &Manifest,
    run_id: RunId,
) -> Result<Option<Timestamp>, Error> {
    let object = &manifest.object;
    match cluster.create(manifest).await {
        Ok(live) => {
            let at = live.metadata.creation_timestamp.map(|time| time.0);
            // Without a UID the entry stays unproven, and cleanup has to look.
            if let Some(uid) = Uid::new(live.metadata.uid.unwrap_or_default()) {
                created.confirm(object, uid.clone());
                events.emit(Event::Created { object: object.clone(), uid });
            }
            Ok(at)
        }
        Err(error) if error.is_already_exists() => {
            created.withdraw(object);
            Err(Error::RunIdInUse { run_id, object: object.clone() })
        }
        Err(error) => {
            if was_refused(&error) {
                created.withdraw(object);
            }
            Err(error.into())
        }
    }
}

/// Whether the server's answer says that nothing was created. Server errors do not: a write may be committed although
/// its answer is one.
fn was_refused(error: &ApiError) -> bool {
    error.status().is_some_and(|status| (400..500).contains(&status.code) && status.code != 408)
}
