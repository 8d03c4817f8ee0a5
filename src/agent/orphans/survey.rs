//! Looking at a cluster for what runs left. Reads only.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use futures::future::{join, join_all};
use futures::stream::{self, StreamExt as _};
use kube::api::ListParams;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::agent::cluster::Cluster;
use crate::agent::labels;
use crate::agent::object::{Kind, ObjectRef};
use crate::agent::orphans::judge::{Filter, recorded};
use crate::agent::orphans::live::{JobsSeen, Live, Metadata, Sight};
use crate::agent::run_id::InvocationId;
use crate::error::ApiError;
use crate::ledger::{Past, Reading};

/// Objects in one page of a list.
const PAGE: u32 = 500;

/// Single reads at once.
const READS: usize = 16;

/// How often a list is begun anew because the server forgot where it was.
const RESTARTS: usize = 3;

/// Looks for everything that is left of runs.
///
/// Jobs come first: an object that stands after its run had no active Job is left, whereas an active Job that is seen
/// after its run's objects may have been created since.
///
/// RBAC: `list` on jobs, serviceaccounts, roles, rolebindings, configmaps, clusterroles and clusterrolebindings; `get` on
/// what the ledgers name. What is forbidden is returned as unseen. What fails otherwise, but may pass, is repeated
/// until the deadline.
pub(crate) async fn everything(
    cluster: &Cluster,
    reading: &Reading,
    filter: &Filter,
    deadline: Instant,
) -> Result<(Sight, Vec<ApiError>), ApiError> {
    let invocations = reading.pasts.iter().map(|past| &past.header.invocation_id).chain(&reading.live);
    let invocations = invocations.map(InvocationId::as_str).collect();
    let mut survey = Survey::new(Reader { cluster, deadline, invocations: &invocations });
    survey.jobs(filter.namespace.as_deref()).await?;
    survey.others(filter.namespace.as_deref()).await?;
    survey.jobs_of_cluster_wide_grants().await?;
    survey.entries(reading.pasts.iter().filter(|past| !past.live), filter).await?;
    Ok((survey.sight, survey.unseen))
}

/// Looks at what ledgers name and at nothing else. RBAC: `get` on it; what is forbidden stays unseen.
pub(crate) async fn recorded_objects(cluster: &Cluster, pasts: &[Past], deadline: Instant) -> Result<Sight, ApiError> {
    let invocations = BTreeSet::new();
    let mut survey = Survey::new(Reader { cluster, deadline, invocations: &invocations });
    survey.entries(pasts.iter(), &Filter::default()).await?;
    Ok(survey.sight)
}

struct Survey<'a> {
    reader: Reader<'a>,
    sight: Sight,
    unseen: Vec<ApiError>,
}

impl<'a> Survey<'a> {
    fn new(reader: Reader<'a>) -> Self {
        Self { reader, sight: Sight::default(), unseen: Vec::new() }
    }

    /// Jobs of all namespaces, since a cluster-scoped object may belong to a run of any, or else of the one asked for.
    async fn jobs(&mut self, namespace: Option<&str>) -> Result<(), ApiError> {
        let forbidden = match self.reader.jobs(None).await {
            Ok(jobs) => {
                self.sight.jobs = JobsSeen::Everywhere;
                self.see(jobs);
                return Ok(());
            }
            Err(error) if error.is_forbidden() => error,
            Err(error) => return Err(error),
        };
        let Some(namespace) = namespace else {
            self.unseen.push(forbidden);
            return Ok(());
        };
        self.jobs_in([namespace.to_owned()].into()).await
    }

    async fn jobs_in(&mut self, namespaces: BTreeSet<String>) -> Result<(), ApiError> {
        let lists = join_all(namespaces.iter().map(|namespace| self.reader.jobs(Some(namespace)))).await;
        for (namespace, list) in namespaces.into_iter().zip(lists) {
            if let Some(jobs) = self.seen(list)? {
                self.see(jobs);
                if let JobsSeen::In(seen) = &mut self.sight.jobs {
                    seen.insert(namespace);
                }
            }
        }
        Ok(())
    }

    async fn others(&mut self, namespace: Option<&str>) -> Result<(), ApiError> {
        let reader = self.reader;
        let of_agent =
            format!("{}={},{}={}", labels::COMPONENT, labels::SNAPSHOT_AGENT, labels::MANAGED_BY, labels::AICR);
        let of_aicr = format!("{}={}", labels::NAME, labels::AICR);
        let kinds = [
            (Kind::ServiceAccount, namespace, &of_agent),
            (Kind::Role, namespace, &of_agent),
            (Kind::RoleBinding, namespace, &of_agent),
            (Kind::ConfigMap, namespace, &of_aicr),
            (Kind::ClusterRole, None, &of_agent),
        ];
        // Nobody asks where runs are if all Jobs were seen.
        let homes = (self.sight.jobs != JobsSeen::Everywhere).then(RefCell::default);
        let lists = kinds.map(|(kind, namespace, selector)| reader.metadata(kind, namespace, selector));
        let (lists, bindings) = join(join_all(lists), reader.bindings(&of_agent, homes.as_ref())).await;
        for list in lists.into_iter().chain([bindings]) {
            if let Some(list) = self.seen(list)? {
                self.see(list);
            }
        }
        self.sight.homes = homes.map(RefCell::into_inner).unwrap_or_default();
        Ok(())
    }

    /// Where Jobs cannot be listed everywhere: the namespaces that bindings point to.
    async fn jobs_of_cluster_wide_grants(&mut self) -> Result<(), ApiError> {
        let JobsSeen::In(seen) = &self.sight.jobs else { return Ok(()) };
        let due: BTreeSet<String> =
            self.sight.homes.values().flatten().filter(|home| !seen.contains(*home)).cloned().collect();
        self.jobs_in(due).await
    }

    /// What ledgers name: labels may have been kept off it, and other namespaces may hold it.
    async fn entries<'p>(&mut self, pasts: impl Iterator<Item = &'p Past>, filter: &Filter) -> Result<(), ApiError> {
        let mut due = BTreeSet::new();
        for past in pasts {
            due.extend(recorded(past).into_iter().map(|entry| entry.object));
        }
        due.retain(|object| filter.takes_namespace_of(object) && self.sight.live.get(object).is_none());
        let (reader, mut found) = (self.reader, Vec::new());
        let mut reads = stream::iter(due)
            .map(|object| async move {
                let live = reader.object(&object).await;
                (object, live)
            })
            .buffer_unordered(READS);
        while let Some((object, live)) = reads.next().await {
            match self.seen(live)? {
                Some(Some(live)) => found.push(live),
                Some(None) => {
                    self.sight.absent.insert(object);
                }
                None => {}
            }
        }
        self.sight.live.add(found);
        Ok(())
    }

    fn see(&mut self, pages: Pages) {
        for page in pages {
            self.sight.live.add(page);
        }
    }

    /// What a read gave, or `None` if it is forbidden.
    fn seen<T>(&mut self, read: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(error) if error.is_forbidden() => {
                self.unseen.push(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// The reads of a survey, each repeated until its deadline.
#[derive(Clone, Copy)]
struct Reader<'a> {
    cluster: &'a Cluster,
    deadline: Instant,
    /// Those that ledgers know.
    invocations: &'a BTreeSet<&'a str>,
}

/// A list, page by page.
type Pages = Vec<Vec<Live>>;

impl Reader<'_> {
    async fn object(self, object: &ObjectRef) -> Result<Option<Live>, ApiError> {
        if object.kind == Kind::Job {
            return Ok(self.cluster.get(object, self.deadline).await?.map(Live::job));
        }
        let live = self.cluster.metadata(object, self.deadline).await?;
        Ok(live.map(|live| Live::new(object.kind, live.metadata.into())))
    }

    /// Whole, since their state says whether they are active.
    async fn jobs(self, namespace: Option<&str>) -> Result<Pages, ApiError> {
        let selector = format!("{}={}", labels::COMPONENT, labels::SNAPSHOT_AGENT);
        self.pages(Kind::Job, namespace, &selector, true, Live::job).await
    }

    /// Whole if it is asked, since the accounts that they grant to say where a run is.
    async fn bindings(self, selector: &str, homes: Option<&RefCell<Homes>>) -> Result<Pages, ApiError> {
        let Some(homes) = homes else { return self.metadata(Kind::ClusterRoleBinding, None, selector).await };
        let take = |binding: Binding| {
            let live = Live::new(Kind::ClusterRoleBinding, binding.metadata);
            let of_binding = binding.subjects.into_iter().flatten().filter_map(|subject| subject.namespace);
            let of_binding: BTreeSet<String> = of_binding.collect();
            for run in live.runs() {
                homes.borrow_mut().entry(run).or_default().extend(of_binding.iter().cloned());
            }
            live
        };
        self.pages(Kind::ClusterRoleBinding, None, selector, true, take).await
    }

    async fn metadata(self, kind: Kind, namespace: Option<&str>, selector: &str) -> Result<Pages, ApiError> {
        self.pages(kind, namespace, selector, false, |item: Item| Live::new(kind, item.metadata)).await
    }

    /// Nobody asks for the invocation of another machine, and without it an object takes less room.
    fn with_known_invocation(self, mut object: Live) -> Live {
        if object.labels.invocation_id().is_some_and(|id| !self.invocations.contains(id)) {
            object.labels.forget_invocation_id();
        }
        object
    }

    /// Lists page by page and keeps of each object only what is taken.
    async fn pages<K>(
        self,
        kind: Kind,
        namespace: Option<&str>,
        selector: &str,
        whole: bool,
        take: impl Fn(K) -> Live,
    ) -> Result<Pages, ApiError>
    where
        K: DeserializeOwned,
    {
        let action = list_action(kind, namespace);
        let first = ListParams::default().labels(selector).limit(PAGE);
        let (mut parameters, mut kept, mut restarts) = (first.clone(), Vec::new(), 0);
        loop {
            let ask = async || {
                let mut objects = Vec::new();
                let keep = |json: &[u8]| {
                    objects.push(self.with_known_invocation(take(serde_json::from_slice(json)?)));
                    Ok(())
                };
                let page = self.cluster.page(kind, namespace, &parameters, whole, keep).await?;
                Ok((objects, page))
            };
            let (objects, page) = match self.cluster.repeated(&action, self.deadline, ask).await {
                // The server keeps the state of a list for some minutes only.
                Err(error) if error.has_code(410) && restarts < RESTARTS => {
                    (parameters, restarts) = (first.clone(), restarts + 1);
                    kept.clear();
                    continue;
                }
                page => page?,
            };
            kept.push(objects);
            match page.continue_.filter(|token| !token.is_empty()) {
                Some(token) => parameters.continue_token = Some(token),
                None => return Ok(kept),
            }
        }
    }
}

/// Namespaces of a run's Job, by the run.
type Homes = BTreeMap<String, BTreeSet<String>>;

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Binding {
    metadata: Metadata,
    subjects: Option<Vec<Subject>>,
}

#[derive(Deserialize)]
struct Subject {
    namespace: Option<String>,
}

fn list_action(kind: Kind, namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) => format!("list {} in namespace {namespace}", kind.plural()),
        None => format!("list {}", kind.plural()),
    }
}
