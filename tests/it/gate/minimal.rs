//! Who holds exactly what R16 lists passes; whoever lacks one of it is told that one, and nothing is written.

use futures::{StreamExt as _, stream};

use super::{Case, Permission, accounts, cluster, here, missing};
use crate::support::{cli::Outcome, proxy::Proxy};

const RBAC: &str = "rbac.authorization.k8s.io";

/// What happens without a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    /// The run is refused.
    Refused,
    /// The run warns and goes on.
    Warned,
    /// Another permission covers it.
    Covered,
}

/// What every run needs, whatever the agent runs as.
fn common() -> Vec<(Permission, Without)> {
    let refused = [
        here(&["create", "get", "list", "watch", "delete"], "batch", "jobs"),
        here(&["watch"], "", "pods"),
        here(&["get"], "", "pods/log"),
        here(&["get", "list", "delete"], "", "configmaps"),
    ];
    let warned = [here(&["list", "watch"], "", "events"), cluster(&["get"], "", "namespaces")];
    with(&refused, Without::Refused).chain(with(&warned, Without::Warned)).collect()
}

fn with(lists: &[Vec<Permission>], without: Without) -> impl Iterator<Item = (Permission, Without)> {
    lists.concat().into_iter().map(move |permission| (permission, without))
}

/// What a run needs that makes an account of its own, the agent's own rights included: nobody may grant what they do
/// not hold.
fn with_own_account() -> Vec<(Permission, Without)> {
    let mut all = common();
    let (change, look) = (["create", "delete"], ["get"]);
    let refused = [
        here(&change, "", "serviceaccounts"),
        here(&change, RBAC, "roles"),
        here(&change, RBAC, "rolebindings"),
        cluster(&change, RBAC, "clusterroles"),
        cluster(&change, RBAC, "clusterrolebindings"),
        here(&["create", "update", "patch"], "", "configmaps"),
        cluster(&["get", "list"], "", "nodes"),
        cluster(&["get", "list"], "", "pods"),
        cluster(&["get", "list"], "nvidia.com", "clusterpolicies"),
        cluster(&["list"], "slinky.slurm.net", "controllers"),
        cluster(&["list"], "slinky.slurm.net", "nodesets"),
        cluster(&["list"], "slinky.slurm.net", "loginsets"),
        cluster(&["list"], "slinky.slurm.net", "restapis"),
        cluster(&["list"], "slinky.slurm.net", "accountings"),
        cluster(&["list"], "k8s.mariadb.com", "mariadbs"),
        cluster(&["list"], "storage.k8s.io", "storageclasses"),
        cluster(&["list"], "psmdb.percona.com", "perconaservermongodbs"),
        cluster(&["get", "list"], "apps", "daemonsets"),
    ];
    let warned = [
        here(&look, "", "serviceaccounts"),
        here(&look, RBAC, "roles"),
        here(&look, RBAC, "rolebindings"),
        cluster(&look, RBAC, "clusterroles"),
        cluster(&look, RBAC, "clusterrolebindings"),
    ];
    all.extend(with(&refused, Without::Refused));
    all.extend(with(&warned, Without::Warned));
    all.extend(with(&[here(&["get", "list"], "", "pods")], Without::Covered));
    all
}

/// What a run needs that uses an account which exists.
fn with_existing_account() -> Vec<(Permission, Without)> {
    let mut all = common();
    let refused = [here(&["get", "list"], "", "pods"), here(&["get"], "", "serviceaccounts")];
    all.extend(with(&refused, Without::Refused));
    all
}

/// One in so many cases has connections without HTTP/2.
const OVER_HTTP1: usize = 5;

/// One namespace in which a user holds all but one of the permissions.
struct Lacking {
    case: Case,
    lacks: Option<(Permission, Without)>,
    proxy: Proxy,
}

impl Lacking {
    async fn new(all: &[(Permission, Without)], index: Option<usize>) -> Self {
        let case = Case::new("minimal").await;
        let held: Vec<Permission> = all
            .iter()
            .enumerate()
            .filter(|(at, _)| Some(*at) != index)
            .map(|(_, (permission, _))| *permission)
            .collect();
        case.grant(&held).await;
        let proxy = Proxy::before(case.bed);
        let over_http1 = index.is_some_and(|index| index % OVER_HTTP1 == 0);
        let proxy = if over_http1 { proxy.http1_only() } else { proxy }.start().await;
        Self { case, lacks: index.map(|index| all[index]), proxy }
    }

    /// Holds the outcome against what is lacking.
    fn judge(&self, out: &Outcome) {
        match self.lacks {
            None | Some((_, Without::Covered)) => {
                out.code(0).stdout_has("kind: Snapshot");
            }
            Some((permission, Without::Warned)) => {
                let said =
                    if permission.resource == "namespaces" { "may not be read".to_owned() } else { permission.named() };
                out.code(0).stdout_has("kind: Snapshot").stderr_has("warning: ").stderr_has(&said);
            }
            Some((permission, Without::Refused)) => {
                out.code(4).stdout_is("");
                let named = permission.named();
                // The account that may not be looked for is named.
                let found: Vec<String> = missing(out).iter().map(|row| row.replace("/irsa-sa", "")).collect();
                assert_eq!(found, [named], "{out}");
                assert!(self.proxy.writes().is_empty(), "{}", self.proxy.transcript());
            }
        }
    }
}

async fn each_and_all(all: Vec<(Permission, Without)>, run: impl AsyncFn(&Lacking)) {
    let cases = std::iter::once(None).chain((0..all.len()).map(Some));
    let (all, run) = (&all, &run);
    stream::iter(cases)
        .for_each_concurrent(4, async |index| {
            let lacking = Lacking::new(all, index).await;
            run(&lacking).await;
        })
        .await;
}

#[tokio::test]
async fn r16_with_an_own_account_exactly_the_list_passes_and_each_gap_is_named() {
    each_and_all(with_own_account(), async |lacking| {
        let case = &lacking.case;
        let out = case.snapshot_through(&lacking.proxy, &case.user).run().await;
        lacking.judge(&out);
        if lacking.lacks.is_none() {
            out.stderr_lacks("warning: ");
        }
    })
    .await;
}

#[tokio::test]
async fn r16_with_an_existing_account_exactly_the_list_passes_and_each_gap_is_named() {
    each_and_all(with_existing_account(), async |lacking| {
        let case = &lacking.case;
        accounts::prepare(case).await;
        let out =
            case.snapshot_through(&lacking.proxy, &case.user).args(["--service-account-name", "irsa-sa"]).run().await;
        lacking.judge(&out);
        if lacking.lacks.is_none() {
            out.stderr_has("22 permissions of ServiceAccount").stderr_has("unverified, not passed");
        }
    })
    .await;
}
