//! How many round trips of a run follow one another, and how many connections they take (R19). Counts are exact; times
//! are never asserted.

use std::time::Duration;

use crate::support::{
    bed::Bed,
    proxy::{Entry, Proxy, waves},
    scene::Scene,
};

/// A round trip that outlasts the client's own work even on a loaded machine.
const ROUND_TRIP: Duration = Duration::from_millis(300);

fn resources(wave: &[Entry]) -> Vec<String> {
    let mut names: Vec<String> =
        wave.iter().map(|entry| format!("{} {}", entry.method, entry.target().resource)).collect();
    names.sort();
    names.dedup();
    names
}

#[tokio::test]
async fn r19_a_plain_run_takes_four_round_trips_to_its_job_and_seven_in_all_over_one_connection() {
    let proxy = Proxy::before(Bed::shared().await).rtt(ROUND_TRIP).start().await;
    let scene = Scene::behind("waves", &proxy).await;
    scene.adopt_namespace().await;
    scene.snapshot("slow-3s").args(["-o", "out.yaml"]).run().await.code(0);
    let run: Vec<Entry> = proxy.requests().into_iter().filter(Entry::holds_up_the_run).collect();
    let waves: Vec<Vec<String>> = waves(&run).iter().map(|wave| resources(wave)).collect();
    eprintln!("requests of a plain run: {} before its first write, {} in all", run.len() - 14, proxy.requests().len());
    assert_eq!(
        waves[1..],
        [
            vec!["POST clusterroles", "POST roles", "POST serviceaccounts"],
            vec!["POST clusterrolebindings", "POST rolebindings"],
            vec!["POST jobs"],
            vec!["GET configmaps"],
            vec![
                "DELETE clusterrolebindings",
                "DELETE clusterroles",
                "DELETE configmaps",
                "DELETE jobs",
                "DELETE rolebindings",
                "DELETE roles",
            ],
            vec!["DELETE serviceaccounts"],
        ],
        "{}",
        proxy.transcript()
    );
    // Six creates and seven deletes: none of them in the first wave.
    assert_eq!(proxy.writes().len(), 13, "{}", proxy.transcript());
    assert_eq!((proxy.connections(), proxy.handshakes()), (1, 1));
    scene.assert_clean().await;
}
