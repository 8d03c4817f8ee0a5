//! A run whose future is dropped, at each point where it waits.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use kubectl_aicr::Deployer;
use kubectl_aicr::fake::{Cluster, Fault, Verb};

use crate::support::wait::PATIENCE;

use super::cluster::{assert_clean, assert_nothing_left, cluster, deployer, workers};

/// Polls a future at most so often; whether it came to its end.
async fn poll_times<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = pin!(future);
    let mut polls = 0;
    poll_fn(|context| {
        if polls == times {
            return Poll::Ready(None);
        }
        polls += 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

/// Every request and every answer takes a moment, so that a future waits at each of them.
fn slow(cluster: &Cluster) {
    cluster.before(|_| true, Fault::Delay(Duration::from_millis(1)));
    cluster.after(|request| request.verb == Some(Verb::Create), Fault::Delay(Duration::from_millis(2)));
}

/// Runs a part of a run once for each number of polls until it gets to its end, and cleans up after each.
async fn dropped_at_each_poll<F>(part: impl Fn(&'static Deployer) -> F, with_workers: bool, step: usize) -> usize
where
    F: Future<Output = ()>,
{
    for times in (0..).step_by(step) {
        let cluster = cluster().await;
        let workers = if with_workers { Some(workers(&cluster).await) } else { None };
        slow(&cluster);
        // It outlives the future that is dropped, as a caller's would.
        let deployer: &'static Deployer = Box::leak(Box::new(deployer(&cluster, "logs-2")));
        let ended = poll_times(Box::pin(part(deployer)), times).await.is_some();
        let what = format!("dropped after {times} polls");
        assert_nothing_left(&deployer.cleanup().await, &what);
        assert_clean(&cluster, &what).await;
        drop(workers);
        if ended {
            return times;
        }
    }
    unreachable!("the range has no end")
}

#[tokio::test]
async fn r45_deploy_dropped_at_any_await_leaves_nothing_after_cleanup() {
    let polls = dropped_at_each_poll(async |deployer| deployer.deploy().await.unwrap(), false, 1).await;
    // On a loaded machine all answers of a wave are there at once, and the waves remain.
    assert!(polls > 3, "only {polls} polls: the requests were not slow");
}

#[tokio::test]
async fn r45_a_whole_run_dropped_anywhere_leaves_nothing_after_cleanup() {
    let run = async |deployer: &'static Deployer| {
        deployer.deploy().await.unwrap();
        deployer.wait_for_completion(PATIENCE).await.unwrap();
        assert!(!deployer.get_snapshot().await.unwrap().is_empty());
    };
    let polls = dropped_at_each_poll(run, true, 4).await;
    assert!(polls > 4, "only {polls} polls: the requests were not slow");
}
