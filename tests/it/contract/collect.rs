//! Owners and what becomes of what they own.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams};
use serde_json::{Value, json};

use super::case::{Case, Watch, object};
use crate::support::wait::until;

super::contract![
    what_is_owned_goes_after_its_owner_in_the_background,
    what_is_owned_goes_before_its_owner_in_the_foreground,
    an_owner_in_the_foreground_waits_for_what_finalizers_hold,
    what_does_not_block_goes_after_its_owner,
    orphans_stay_and_forget_their_owner,
    what_has_another_owner_stays,
    what_is_owned_by_something_that_never_was_goes,
    an_owner_of_another_uid_is_none,
    the_last_policy_that_was_asked_for_counts,
];

/// An owner's reference, as the Job controller writes it for pods.
fn owned_by(owner: &ConfigMap, blocks: bool) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner.name_any(), "uid": owner.uid().unwrap(),
        "controller": true, "blockOwnerDeletion": blocks,
    })
}

async fn create(case: &Case, name: &str, owners: &[Value], finalizers: &[&str]) -> ConfigMap {
    let labels = json!({ "case": "collect" });
    let map = json!({ "metadata": {
        "name": name, "labels": labels, "ownerReferences": owners, "finalizers": finalizers,
    } });
    case.config_maps().create(&PostParams::default(), &object(map)).await.unwrap()
}

/// An owner that goes for good once its dependent was seen by the garbage collector.
async fn owner_and_owned(case: &Case, blocks: bool, finalizers: &[&str]) -> ConfigMap {
    let owner = create(case, "owner", &[], &[]).await;
    create(case, "owned", &[owned_by(&owner, blocks)], finalizers).await;
    case.collector_has_caught_up().await;
    owner
}

async fn what_is_owned_goes_after_its_owner_in_the_background(case: Case) {
    owner_and_owned(&case, true, &[]).await;
    let answer = case.config_maps().delete("owner", &DeleteParams::background()).await.unwrap();
    assert!(answer.right().is_some(), "the owner is gone at once");
    assert!(case.config_maps().get_opt("owner").await.unwrap().is_none());
    case.config_map_goes("owned").await;
}

async fn what_is_owned_goes_before_its_owner_in_the_foreground(case: Case) {
    owner_and_owned(&case, true, &[]).await;
    let of_case = WatchParams::default().labels("case=collect");
    let version = case.config_maps().list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut watch = Watch::of(&case.config_maps(), &of_case, &version).await;
    let answer = case.config_maps().delete("owner", &DeleteParams::foreground()).await.unwrap();
    let shown = answer.left().expect("the owner still stands");
    assert_eq!(shown.finalizers(), ["foregroundDeletion"]);
    let mut deleted = Vec::new();
    assert_eq!(watch.next().await.as_deref(), Some("MODIFIED owner"));
    while deleted.len() < 2 {
        let event = watch.next().await.unwrap();
        if let Some(name) = event.strip_prefix("DELETED ") {
            deleted.push(name.to_owned());
        }
    }
    assert_eq!(deleted, ["owned", "owner"]);
}

async fn an_owner_in_the_foreground_waits_for_what_finalizers_hold(case: Case) {
    owner_and_owned(&case, true, &["example.com/hold"]).await;
    case.config_maps().delete("owner", &DeleteParams::foreground()).await.unwrap();
    until("the owned to terminate", async || {
        case.config_maps().get("owned").await.unwrap().metadata.deletion_timestamp
    })
    .await;
    assert!(case.config_maps().get("owner").await.unwrap().metadata.deletion_timestamp.is_some());
    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    case.config_maps().patch("owned", &PatchParams::default(), &release).await.unwrap();
    case.config_map_goes("owner").await;
}

async fn what_does_not_block_goes_after_its_owner(case: Case) {
    owner_and_owned(&case, false, &["example.com/hold"]).await;
    case.config_maps().delete("owner", &DeleteParams::foreground()).await.unwrap();
    case.config_map_goes("owner").await;
    until("the owned to terminate", async || {
        case.config_maps().get("owned").await.unwrap().metadata.deletion_timestamp
    })
    .await;
    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    case.config_maps().patch("owned", &PatchParams::default(), &release).await.unwrap();
}

async fn orphans_stay_and_forget_their_owner(case: Case) {
    owner_and_owned(&case, true, &[]).await;
    let answer = case.config_maps().delete("owner", &DeleteParams::orphan()).await.unwrap();
    assert_eq!(answer.left().expect("the owner still stands").finalizers(), ["orphan"]);
    case.config_map_goes("owner").await;
    let left = case.config_maps().get("owned").await.unwrap();
    assert!(left.owner_references().is_empty() && left.metadata.deletion_timestamp.is_none());
}

async fn what_has_another_owner_stays(case: Case) {
    let one = create(&case, "one", &[], &[]).await;
    let two = create(&case, "two", &[], &[]).await;
    let mut second = owned_by(&two, true);
    second["controller"] = false.into();
    create(&case, "owned", &[owned_by(&one, true), second], &[]).await;
    case.collector_has_caught_up().await;
    case.config_maps().delete("one", &DeleteParams::background()).await.unwrap();
    until("the dead owner to be forgotten", async || {
        let owned = case.config_maps().get("owned").await.unwrap();
        (owned.owner_references().len() == 1).then_some(())
    })
    .await;
    case.config_maps().delete("two", &DeleteParams::background()).await.unwrap();
    case.config_map_goes("owned").await;
}

async fn what_is_owned_by_something_that_never_was_goes(case: Case) {
    let never = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "never", "uid": "never" });
    create(&case, "owned", &[never], &[]).await;
    case.config_map_goes("owned").await;
}

async fn an_owner_of_another_uid_is_none(case: Case) {
    let owner = create(&case, "owner", &[], &[]).await;
    let mut other = owned_by(&owner, true);
    other["uid"] = "another".into();
    create(&case, "owned", &[other], &[]).await;
    case.config_map_goes("owned").await;
    assert!(case.config_maps().get_opt("owner").await.unwrap().is_some());
}

async fn the_last_policy_that_was_asked_for_counts(case: Case) {
    owner_and_owned(&case, true, &["example.com/hold"]).await;
    case.config_maps().delete("owner", &DeleteParams::foreground()).await.unwrap();
    assert!(case.config_maps().get_opt("owner").await.unwrap().is_some());
    case.config_maps().delete("owner", &DeleteParams::background()).await.unwrap();
    case.config_map_goes("owner").await;
    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    case.config_maps().patch("owned", &PatchParams::default(), &release).await.unwrap();
    case.config_map_goes("owned").await;
}
