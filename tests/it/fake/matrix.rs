//! Each request of a run, with each fault: the whole of what `matrix` samples on a real server.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::DeleteParams;
use kubectl_aicr::fake::{Cluster, Fault, Request, Verb};
use kubectl_aicr::{Config, Deployer, Reason, Removal};

use crate::support::wait::PATIENCE;

use super::cluster::{NAMESPACE, assert_clean, assert_nothing_left, cluster, config, standing, workers};

/// Where a fault strikes, and which.
type Strike = (&'static str, fn(&Cluster, Arc<AtomicUsize>, usize));

const STRIKES: [Strike; 5] = [
    ("not sent", |cluster, seen, nth| drop(cluster.before(nth_of_the_run(seen, nth), Fault::Drop))),
    ("answer lost", |cluster, seen, nth| drop(cluster.after(nth_of_the_run(seen, nth), Fault::Drop))),
    ("500", |cluster, seen, nth| drop(cluster.before(nth_of_the_run(seen, nth), internal_error()))),
    ("500 after the commit", |cluster, seen, nth| drop(cluster.after(nth_of_the_run(seen, nth), internal_error()))),
    ("403", |cluster, seen, nth| {
        let refused = Fault::fail(403, "Forbidden", "a policy forbids it");
        drop(cluster.before(nth_of_the_run(seen, nth), refused));
    }),
];

fn internal_error() -> Fault {
    Fault::fail(500, "InternalError", "etcdserver: request timed out")
}

/// Requests of the run itself that are worth a strike: one review is like another.
fn is_of_the_run(request: &Request) -> bool {
    request.user.name == "admin" && !request.resource.ends_with("reviews") && request.verb.is_some()
}

fn nth_of_the_run(seen: Arc<AtomicUsize>, nth: usize) -> impl Fn(&Request) -> bool + Send + Sync + 'static {
    move |request| is_of_the_run(request) && seen.fetch_add(1, Ordering::SeqCst) == nth
}

fn patient() -> Config {
    config("success").timeout(Duration::from_secs(20)).request_timeout(Duration::from_secs(5))
}

/// A run as a caller makes it, whatever comes of it.
async fn run(deployer: &Deployer) -> (bool, Vec<Removal>) {
    let captured = async {
        deployer.deploy().await?;
        deployer.wait_for_completion(PATIENCE).await?;
        deployer.get_snapshot().await
    };
    (captured.await.is_ok(), deployer.cleanup().await)
}

/// Cleans up once more, undisturbed. All that may then be left is what an agent wrote after its Job was deleted: nothing
/// proves whose it is (R32).
async fn finish(cluster: &Cluster, deployer: &Deployer, what: &str) {
    let mut removals = deployer.cleanup().await;
    let late = |removal: &Removal| removal.fate.reason() == Some(Reason::StagingJobGone);
    for removal in removals.extract_if(.., |removal| late(removal)) {
        let maps = Api::<ConfigMap>::namespaced(cluster.client(), NAMESPACE);
        maps.delete(&removal.object.name, &DeleteParams::default()).await.unwrap();
    }
    assert_nothing_left(&removals, what);
    assert_clean(cluster, what).await;
}

#[tokio::test]
async fn r29_each_request_with_each_fault_leaves_nothing_that_is_not_said_and_can_be_finished() {
    let clean = cluster().await;
    let _workers = workers(&clean).await;
    clean.forget_requests();
    assert!(run(&Deployer::new(clean.client(), patient()).unwrap()).await.0);
    let requests = clean.requests().iter().filter(|request| is_of_the_run(request)).count();
    assert!(requests > 20, "{requests} requests");

    for nth in 0..requests {
        for (name, strike) in STRIKES {
            let cluster = cluster().await;
            let _workers = workers(&cluster).await;
            let seen = Arc::new(AtomicUsize::new(0));
            strike(&cluster, Arc::clone(&seen), nth);
            let deployer = Deployer::new(cluster.client(), patient()).unwrap();
            let (_, removals) = run(&deployer).await;
            let struck = cluster.requests().into_iter().filter(is_of_the_run).nth(nth);
            let struck = struck.map_or_else(|| "nothing".to_owned(), |r| format!("{} {}", r.method, r.path));
            let what = format!("{name} at request {nth}, {struck}");

            let said: BTreeSet<String> = removals
                .iter()
                .filter(|removal| removal.fate.is_left())
                .map(|removal| format!("{} {}", removal.object.kind, removal.object.name))
                .collect();
            let stands: BTreeSet<String> = standing(&cluster.client()).await.into_iter().collect();
            assert!(stands.is_subset(&said), "{what}: stands {stands:?}, but only {said:?} was said to");
            finish(&cluster, &deployer, &what).await;
            let creates = cluster.requests().into_iter().filter(|request| {
                request.verb == Some(Verb::Create) && is_of_the_run(request) && !request.query.contains("dryRun")
            });
            let mut names = BTreeSet::new();
            for request in creates {
                let name = (request.resource, request.name);
                assert!(names.insert(name.clone()), "{what}: {name:?} was sent twice");
            }
        }
    }
}
