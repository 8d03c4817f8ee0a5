//! `orphans` over few objects and many.

use futures::{StreamExt as _, stream};
use http::Request;
use serde_json::{Value, json};

use super::figures::{Figures, in_mebibytes, mebibytes, median, row};
use super::instructions::{self, thousands};
use super::launcher::{Used, launch};
use super::support::{cli::Invocation, scene::Scene};

/// What stands on the cluster while it is listed.
const OBJECTS: [usize; 4] = [0, 100, 1_000, 10_000];

/// Listings of each, of which the median counts.
const RUNS: usize = 7;

/// Objects that each run has left.
const RUN: usize = 6;

/// Objects that are created at a time.
const AT_ONCE: usize = 32;

pub(crate) async fn measure(figures: &mut Figures) {
    let scene = Scene::new("many").await;
    let mut rows =
        vec![row(["objects", "time", "of the time over none", "peak memory", "above that over none", "instructions"])];
    let mut none = None;
    let mut standing = 0;
    for objects in OBJECTS {
        create(&scene, standing..objects).await;
        standing = objects;
        let used = list(&scene, objects).await;
        let none = *none.get_or_insert(used);
        let more = in_mebibytes(used.peak) - in_mebibytes(none.peak);
        rows.push(vec![
            objects.to_string(),
            format!("{:.0} ms", used.seconds * 1e3),
            format!("{:.1}", used.seconds / none.seconds),
            mebibytes(used.peak),
            format!("{more:+.1} MiB"),
            thousands(instructions::of(listing(&scene)).await),
        ]);
        if objects == 10_000 {
            let seconds = format!("{:.2} s, {:.0} times that over none", used.seconds, used.seconds / none.seconds);
            figures.goal("`orphans` over 10,000 objects", seconds, "1 s", used.seconds <= 1.0, "");
            let memory = format!("{more:+.1} MiB ({})", mebibytes(used.peak));
            figures.goal(
                "`orphans` over 10,000 objects, memory beside that over none",
                memory,
                "4 MiB",
                more <= 4.0,
                "",
            );
        }
    }
    figures.table(
        "`orphans`",
        "Objects of six kinds, all left by runs without a ledger, listed as a table. Medians of seven listings each, the \
         API server's own time included.",
        rows,
    );
}

fn listing(scene: &Scene) -> Invocation {
    scene.home.aicr(["orphans", "-A", "--no-headers"])
}

/// Lists them, and expects each.
async fn list(scene: &Scene, objects: usize) -> Used {
    let mut used = Vec::new();
    for _ in 0..RUNS {
        let (ran, this) = launch(listing(scene)).await;
        assert_eq!(ran.code(0).stdout().lines().count(), objects, "{ran}");
        used.push(this);
    }
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "memory")]
    let peak = median(used.iter().map(|used| used.peak as f64).collect()) as u64;
    Used { seconds: median(used.iter().map(|used| used.seconds).collect()), peak }
}

/// Creates objects as runs would have left them, six a run.
async fn create(scene: &Scene, numbers: std::ops::Range<usize>) {
    stream::iter(numbers).for_each_concurrent(AT_ONCE, |number| one(scene, number)).await;
}

async fn one(scene: &Scene, number: usize) {
    let namespace = &scene.namespace.name;
    let run = format!("20200101-000000-{:016x}", number / RUN);
    let here = |group: &str, resource: &str| format!("/{group}/namespaces/{namespace}/{resource}");
    let rbac = "apis/rbac.authorization.k8s.io/v1";
    let role = |kind: &str, name: &str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name });
    let account = json!([{ "kind": "ServiceAccount", "name": format!("aicr-{run}"), "namespace": namespace }]);
    let (own, wide) = (format!("aicr-{run}"), format!("aicr-node-reader-{run}"));
    let (path, name, rest) = match number % RUN {
        0 => (here("api/v1", "serviceaccounts"), own, json!({})),
        1 => (here(rbac, "roles"), own, json!({})),
        2 => (here(rbac, "rolebindings"), own.clone(), json!({ "roleRef": role("Role", &own), "subjects": account })),
        3 => (format!("/{rbac}/clusterroles"), wide, json!({})),
        4 => {
            let binding = json!({ "roleRef": role("ClusterRole", &wide), "subjects": account });
            (format!("/{rbac}/clusterrolebindings"), wide.clone(), binding)
        }
        _ => (here("api/v1", "configmaps"), format!("aicr-agent-snapshot-{run}"), json!({})),
    };
    let mut object = rest;
    object["metadata"] = json!({ "name": name, "labels": {
        "app.kubernetes.io/name": "aicr",
        "app.kubernetes.io/managed-by": "aicr",
        "app.kubernetes.io/component": "snapshot-agent",
        "aicr.run/run-id": run,
        "aicr.run/invocation-id": run,
    } });
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(serde_json::to_vec(&object).unwrap()).unwrap();
    scene.client.request::<Value>(request).await.unwrap();
}
