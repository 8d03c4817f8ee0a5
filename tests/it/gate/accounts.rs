//! Existing accounts, and what a caller may grant (R11, R17, R18).

use std::collections::BTreeMap;

use k8s_openapi::api::{
    core::v1::{Pod, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{Case, Permission, cluster, here, missing};
use crate::roles::apply;
use crate::support::{
    cli::{Home, Outcome},
    proxy::Proxy,
    wait::until,
};

const RBAC: &str = "rbac.authorization.k8s.io";

/// Makes the account `irsa-sa`, as cloud credentials have it.
async fn make_account(case: &Case) {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": { "name": "irsa-sa", "namespace": case.name(), "annotations": {
            "eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/snapshot",
        }},
    });
    apply(&case.bed.admin_client().await, &account.to_string()).await;
}

/// Makes the account and applies what `roles` renders for it.
pub(super) async fn prepare(case: &Case) {
    make_account(case).await;
    apply_roles(case).await;
}

async fn apply_roles(case: &Case) {
    let home = Home::new();
    let roles = home.aicr(["roles", "--service-account", "irsa-sa", "-n", case.name(), "--yes", "-o", "yaml"]);
    apply(&case.bed.admin_client().await, &roles.run().await.code(0).stdout()).await;
}

/// Name and resource version of every object that grants something to the account, and of itself.
async fn grants(case: &Case) -> BTreeMap<String, Option<String>> {
    async fn versions<K>(api: Api<K>, found: &mut BTreeMap<String, Option<String>>)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        for object in api.list(&ListParams::default()).await.unwrap() {
            found.insert(format!("{} {}", K::kind(&()), object.name_any()), object.resource_version());
        }
    }
    let client = case.bed.admin_client().await;
    let mut found = BTreeMap::new();
    versions(Api::<ServiceAccount>::namespaced(client.clone(), case.name()), &mut found).await;
    versions(Api::<Role>::namespaced(client.clone(), case.name()), &mut found).await;
    versions(Api::<RoleBinding>::namespaced(client.clone(), case.name()), &mut found).await;
    let mut in_cluster = BTreeMap::new();
    versions(Api::<ClusterRole>::all(client.clone()), &mut in_cluster).await;
    versions(Api::<ClusterRoleBinding>::all(client), &mut in_cluster).await;
    // Other tests make cluster roles at the same time.
    in_cluster.retain(|name, _| name.contains(case.name()));
    found.extend(in_cluster);
    found
}

#[tokio::test]
async fn r11_an_account_prepared_by_roles_is_used_and_left_as_it_was() {
    let case = Case::new("prepared").await;
    prepare(&case).await;
    let before = grants(&case).await;
    assert_eq!(before.keys().filter(|name| name.contains("irsa-sa-rbac")).count(), 4, "{before:?}");
    let proxy = Proxy::before(case.bed).start().await;
    let snapshot = case.snapshot_through(&proxy, &case.admin()).args(["--service-account-name", "irsa-sa"]);
    let out = snapshot.args(["--keep-job", "--run-id", "prepared"]).run().await;
    out.code(0).stdout_has("kind: Snapshot").stderr_lacks("warning: ");
    out.stderr_has(&format!("runs as {}/irsa-sa, role-arn arn:aws:iam::123456789012:role/snapshot", case.name()));
    assert_eq!(grants(&case).await, before);
    let touched = |resource: &str| {
        proxy.requests().iter().any(|entry| {
            let target = entry.target();
            target.resource == resource && target.verb != "get"
        })
    };
    for resource in ["serviceaccounts", "roles", "rolebindings", "clusterroles", "clusterrolebindings"] {
        assert!(!touched(resource), "{resource}\n{}", proxy.transcript());
    }
    let pods = Api::<Pod>::namespaced(case.bed.admin_client().await, case.name());
    let pods = pods.list(&ListParams::default().labels("aicr.run/run-id=prepared")).await.unwrap();
    assert_eq!(pods.items[0].spec.as_ref().unwrap().service_account_name.as_deref(), Some("irsa-sa"));
}

#[tokio::test]
async fn r11_an_absent_account_is_a_prefix() {
    let case = Case::new("prefix").await;
    let out = case.snapshot(&case.admin()).args(["--service-account-name", "irsa-sa"]).run().await;
    out.code(0).stderr_has(&format!("created ServiceAccount {}/irsa-sa-", case.name()));
    out.stderr_has(&format!("there is no ServiceAccount {}/irsa-sa: the run makes irsa-sa-", case.name()));
}

#[tokio::test]
async fn r11_without_the_flag_no_account_captures_a_run() {
    let case = Case::new("capture").await;
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": { "name": "aicr", "namespace": case.name() } });
    apply(&case.bed.admin_client().await, &account.to_string()).await;
    let proxy = Proxy::before(case.bed).start().await;
    let out = case.snapshot_through(&proxy, &case.admin()).run().await;
    out.code(0).stderr_has(&format!("created ServiceAccount {}/aicr-", case.name()));
    let looked =
        |name: &str| proxy.requests().iter().any(|entry| entry.path.ends_with(&format!("/serviceaccounts/{name}")));
    assert!(!looked("aicr"), "{}", proxy.transcript());
}

#[tokio::test]
async fn r17_an_account_without_rights_has_each_rule_named_and_the_command_that_gives_them() {
    let case = Case::new("no-rights").await;
    make_account(&case).await;
    let snapshot = || case.snapshot(&case.admin()).args(["--service-account-name", "irsa-sa"]);
    let out = snapshot().run().await;
    assert_eq!(missing(out.code(4)).len(), 22, "{out}");
    out.stderr_has(&format!("ServiceAccount {}/irsa-sa", case.name()));
    out.stderr_has(&format!("kubectl aicr roles --service-account irsa-sa -n {}", case.name()));
    // With one rule taken away, that one.
    apply_roles(&case).await;
    let roles = Api::<ClusterRole>::all(case.bed.admin_client().await);
    let name = format!("aicr-agent-{}.irsa-sa-rbac", case.name());
    let mut role = roles.get(&name).await.unwrap();
    role.rules.as_mut().unwrap().retain(|rule| rule.resources != Some(vec!["mariadbs".to_owned()]));
    roles.replace(&name, &PostParams::default(), &role).await.unwrap();
    until("the rule to be gone, and no other", async || {
        let out = snapshot().run().await;
        (missing(&out) == ["list mariadbs.k8s.mariadb.com"]).then_some(())
    })
    .await;
}

/// Applies the manifest at the end of a refusal and runs again until the gate is passed.
async fn remedied(case: &Case, out: &Outcome, again: impl AsyncFn() -> Outcome) -> Outcome {
    let text = out.stderr();
    let (_, manifest) = text.split_once("kubectl apply -f -`:\n\n").unwrap_or_else(|| panic!("{out}"));
    apply(&case.bed.admin_client().await, manifest).await;
    until("the remedy to help", async || {
        let out = again().await;
        (!out.stderr().contains("the run was not started")).then_some(out)
    })
    .await
}

#[tokio::test]
async fn r15_five_unrelated_gaps_are_one_report_and_what_it_says_to_apply_helps() {
    let case = Case::new("five").await;
    let held: Vec<Permission> = [
        here(&["create", "get", "list", "watch"], "batch", "jobs"),
        here(&["get", "list"], "", "pods"),
        here(&["get", "list", "create", "update", "patch"], "", "configmaps"),
        here(&["create", "delete"], "", "serviceaccounts"),
        here(&["create", "delete"], RBAC, "roles"),
        here(&["create", "delete", "get"], RBAC, "rolebindings"),
        cluster(&["create", "delete", "escalate", "bind"], RBAC, "clusterroles"),
        cluster(&["create"], RBAC, "clusterrolebindings"),
    ]
    .concat();
    case.grant(&held).await;
    let proxy = Proxy::before(case.bed).start().await;
    let out = case.snapshot_through(&proxy, &case.user).arg("--discover-network").run().await;
    let expected = [
        "delete jobs.batch",
        "watch pods",
        "get pods/log",
        "delete configmaps",
        "delete clusterrolebindings.rbac.authorization.k8s.io",
    ];
    assert_eq!(missing(out.code(4)), expected, "{out}");
    out.stdout_is("").stderr_has("5 permissions are missing");
    assert!(proxy.writes().is_empty(), "{}", proxy.transcript());
    let again = async || case.snapshot(&case.user).arg("--discover-network").run().await;
    remedied(&case, &out, again).await.code(0).stdout_has("kind: Snapshot");
}

#[tokio::test]
async fn r18_passing_by_escalate_without_bind_is_found_before_anything_is_written() {
    let case = Case::new("escalate").await;
    let held: Vec<Permission> = [
        here(&["*"], "batch", "jobs"),
        here(&["*"], "", "pods"),
        here(&["*"], "", "pods/log"),
        here(&["*"], "", "configmaps"),
        here(&["*"], "", "serviceaccounts"),
        here(&["create", "delete", "get", "escalate"], RBAC, "roles"),
        here(&["create", "delete", "get"], RBAC, "rolebindings"),
        cluster(&["create", "delete", "get", "escalate"], RBAC, "clusterroles"),
        cluster(&["create", "delete", "get"], RBAC, "clusterrolebindings"),
    ]
    .concat();
    case.grant(&held).await;
    let proxy = Proxy::before(case.bed).start().await;
    let out = case.snapshot_through(&proxy, &case.user).run().await;
    // In the namespace the rules are held; in the cluster they are not.
    assert_eq!(missing(out.code(4)), ["bind clusterroles.rbac.authorization.k8s.io"], "{out}");
    out.stderr_has("kubectl aicr roles --service-account aicr-agent");
    assert!(proxy.writes().is_empty(), "{}", proxy.transcript());
    let again = async || case.snapshot(&case.user).run().await;
    remedied(&case, &out, again).await.code(0);
}

#[tokio::test]
async fn r16_an_output_elsewhere_needs_and_gets_its_own_grant() {
    let case = Case::new("elsewhere").await;
    let there = case.bed.namespace("output").await;
    let destination = format!("cm://{}/mine", there.name);
    // With an account of its own the run makes the grant.
    let out = case.snapshot(&case.admin()).args(["-o", &destination]).run().await;
    out.code(0).stderr_has(&format!("created Role {}/aicr-", there.name));
    // An existing account has to hold it.
    prepare(&case).await;
    let snapshot = async || {
        case.snapshot(&case.admin()).args(["-o", &destination, "--service-account-name", "irsa-sa"]).run().await
    };
    let out = snapshot().await;
    let expected = ["create configmaps", "get configmaps", "update configmaps", "patch configmaps"];
    assert_eq!(missing(out.code(4)), expected, "{out}");
    out.stderr_has(&format!("namespace {}", there.name));
    remedied(&case, &out, snapshot).await.code(0);
    let maps = Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(case.bed.admin_client().await, &there.name);
    maps.delete("mine", &DeleteParams::default()).await.unwrap();
}
