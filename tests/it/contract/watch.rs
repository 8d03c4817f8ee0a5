//! Watches.

use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;

use super::case::{Case, Watch};

super::contract![
    changes_since_a_version_come_in_order,
    from_zero_what_is_there_comes_first,
    what_leaves_a_selection_is_deleted_from_it,
    a_name_can_be_watched,
    a_deletion_shows_the_last_state_under_a_new_version,
    a_version_too_old_is_an_error_in_the_stream,
    a_watch_ends_after_its_time_with_bookmarks_at_most,
    without_bookmarks_there_are_none,
    a_resumed_watch_repeats_and_loses_nothing,
    other_namespaces_are_not_seen,
    metadata_alone_can_be_watched,
    initial_events_end_with_a_bookmark,
];

fn labelled() -> WatchParams {
    WatchParams::default().labels("n")
}

async fn version(case: &Case) -> String {
    case.config_maps().list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap()
}

async fn relabel(case: &Case, name: &str, labels: serde_json::Value) -> ConfigMap {
    let patch = Patch::Merge(json!({ "metadata": { "labels": labels } }));
    case.config_maps().patch(name, &PatchParams::default(), &patch).await.unwrap()
}

async fn changes_since_a_version_come_in_order(case: Case) {
    let from = version(&case).await;
    case.config_map("a", "1").await;
    let mut watch = Watch::of(&case.config_maps(), &labelled(), &from).await;
    assert_eq!(watch.next().await.as_deref(), Some("ADDED a"));
    relabel(&case, "a", json!({ "n": "2" })).await;
    case.config_map("b", "1").await;
    case.config_maps().delete("a", &DeleteParams::default()).await.unwrap();
    for event in ["MODIFIED a", "ADDED b", "DELETED a"] {
        assert_eq!(watch.next().await.as_deref(), Some(event));
    }
}

async fn from_zero_what_is_there_comes_first(case: Case) {
    case.config_map("a", "1").await;
    case.config_map("b", "1").await;
    let mut watch = Watch::of(&case.config_maps(), &labelled(), "0").await;
    let mut first = [watch.next().await.unwrap(), watch.next().await.unwrap()];
    first.sort();
    assert_eq!(first, ["ADDED a", "ADDED b"]);
    case.config_map("c", "1").await;
    assert_eq!(watch.next().await.as_deref(), Some("ADDED c"));
}

async fn what_leaves_a_selection_is_deleted_from_it(case: Case) {
    let mut watch = Watch::of(&case.config_maps(), &WatchParams::default().labels("n=1"), &version(&case).await).await;
    case.config_map("other", "2").await;
    case.config_map("a", "1").await;
    assert_eq!(watch.next().await.as_deref(), Some("ADDED a"));
    let left = relabel(&case, "a", json!({ "n": "2" })).await;
    let WatchEvent::Deleted(last) = watch.event().await else { panic!("not a deletion") };
    assert_eq!(last.labels()["n"], "1");
    assert_eq!(last.resource_version(), left.resource_version());
    relabel(&case, "a", json!({ "n": "3" })).await;
    relabel(&case, "a", json!({ "n": "1" })).await;
    assert_eq!(watch.next().await.as_deref(), Some("ADDED a"));
}

async fn a_name_can_be_watched(case: Case) {
    let named = WatchParams::default().fields("metadata.name=b");
    let mut watch = Watch::of(&case.config_maps(), &named, &version(&case).await).await;
    case.config_map("a", "1").await;
    case.config_map("b", "1").await;
    assert_eq!(watch.next().await.as_deref(), Some("ADDED b"));
    assert!(watch.is_quiet().await);
}

async fn a_deletion_shows_the_last_state_under_a_new_version(case: Case) {
    let map = case.config_map("a", "1").await;
    let from = map.resource_version().unwrap();
    case.config_maps().delete("a", &DeleteParams::default()).await.unwrap();
    let mut watch = Watch::of(&case.config_maps(), &labelled(), &from).await;
    let WatchEvent::Deleted(last) = watch.event().await else { panic!("not a deletion") };
    assert_eq!((last.uid(), &last.data), (map.uid(), &map.data));
    assert!(last.resource_version().unwrap().parse::<u64>().unwrap() > from.parse().unwrap());
}

async fn a_version_too_old_is_an_error_in_the_stream(case: Case) {
    case.forget_history().await;
    let events = case.api::<Event>();
    let mut watch = Watch::of(&events, &WatchParams::default(), "1").await;
    let WatchEvent::Error(status) = watch.event().await else { panic!("not an error") };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    assert_eq!(status.message, "The resourceVersion for the provided watch is too old.");
    assert_eq!(watch.next().await, None);
}

async fn a_watch_ends_after_its_time_with_bookmarks_at_most(case: Case) {
    let from = version(&case).await;
    case.config_map("a", "1").await;
    let mut watch = Watch::of(&case.config_maps(), &labelled().timeout(5), &from).await;
    assert_eq!(watch.next().await.as_deref(), Some("ADDED a"));
    // A real server tries to send one two seconds before the end, and often is too late.
    while let Some(event) = watch.event_or_end().await {
        let WatchEvent::Bookmark(bookmark) = event else { panic!("not a bookmark: {event:?}") };
        assert_eq!(bookmark.types.kind, "ConfigMap");
        let at = bookmark.metadata.resource_version;
        assert!(at.parse::<u64>().unwrap() > from.parse().unwrap());
        let mut again = Watch::of(&case.config_maps(), &labelled(), &at).await;
        case.config_map("b", "1").await;
        assert_eq!(again.next().await.as_deref(), Some("ADDED b"));
        case.config_maps().delete("b", &DeleteParams::default()).await.unwrap();
        assert_eq!(watch.next().await.as_deref(), Some("ADDED b"));
        assert_eq!(watch.next().await.as_deref(), Some("DELETED b"));
    }
}

async fn without_bookmarks_there_are_none(case: Case) {
    let params = labelled().timeout(3).disable_bookmarks();
    let mut watch = Watch::of(&case.config_maps(), &params, &version(&case).await).await;
    assert!(watch.ends_without_event().await);
}

async fn a_resumed_watch_repeats_and_loses_nothing(case: Case) {
    let mut from = version(&case).await;
    let mut seen = Vec::new();
    for round in 0..3 {
        case.config_map(&format!("m{round}"), "1").await;
        let mut watch = Watch::of(&case.config_maps(), &labelled(), &from).await;
        let WatchEvent::Added(map) = watch.event().await else { panic!("not an addition") };
        from = map.resource_version().unwrap();
        seen.push(map.name_any());
    }
    assert_eq!(seen, ["m0", "m1", "m2"]);
}

async fn other_namespaces_are_not_seen(case: Case) {
    let other = case.another_namespace().await;
    let maps = kube::Api::<ConfigMap>::namespaced(case.client.clone(), &other);
    let mut watch = Watch::of(&case.config_maps(), &labelled(), &version(&case).await).await;
    let map = super::case::object(json!({ "metadata": { "name": "far", "labels": { "n": "1" } } }));
    maps.create(&PostParams::default(), &map).await.unwrap();
    case.config_map("near", "1").await;
    assert_eq!(watch.next().await.as_deref(), Some("ADDED near"));
}

async fn metadata_alone_can_be_watched(case: Case) {
    use futures::TryStreamExt as _;
    let from = version(&case).await;
    case.config_map("a", "1").await;
    let stream = case.config_maps().watch_metadata(&labelled(), &from).await.unwrap();
    let event = std::pin::pin!(stream).try_next().await.unwrap().unwrap();
    let WatchEvent::Added(object) = event else { panic!("not an addition") };
    assert_eq!(object.types.as_ref().unwrap().kind, "PartialObjectMetadata");
    assert_eq!(object.labels()["n"], "1");
}

async fn initial_events_end_with_a_bookmark(case: Case) {
    case.config_map("a", "1").await;
    let params = labelled().initial_events();
    let mut watch = Watch::of(&case.config_maps(), &params, "0").await;
    assert_eq!(watch.next().await.as_deref(), Some("ADDED a"));
    // An ordinary bookmark may come first.
    while let WatchEvent::Bookmark(bookmark) = watch.event().await {
        if bookmark.metadata.annotations.get("k8s.io/initial-events-end").is_some_and(|end| end == "true") {
            return;
        }
    }
    panic!("not a bookmark");
}
