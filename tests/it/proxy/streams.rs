//! Answers that go on, and how they are cut.

use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::timeout;

use super::rig::{QUIET, TICK, over_both};
use crate::support::proxy::{End, Fate, Limit, Status, any, cut, get};

const WATCH: &str = "/api/v1/pods?watch=true";

#[tokio::test]
async fn a_stream_passes_piece_by_piece_and_ends_at_the_server_when_the_client_goes() {
    over_both(async |rig| {
        let rule = rig.proxy.observe(any());
        let mut watch = rig.get(WATCH).await.unwrap();
        rule.answered().await;
        assert_eq!(watch.piece().await.unwrap().unwrap(), "event 0\n");
        assert_eq!(watch.piece().await.unwrap().unwrap(), "event 1\n");
        assert_eq!(rig.server.streams(), 1);
        assert_eq!(rig.proxy.requests()[0].fate, Fate::Open);
        drop(watch);
        rig.server_is_left().await;
        rig.fates_become(&[Fate::Abandoned]).await;
    })
    .await;
}

#[tokio::test]
async fn cut_after_lines_and_closed() {
    over_both(async |rig| {
        rig.proxy.on(any(), cut(Limit::Lines(3), End::Close));
        let (text, end) = rig.get(WATCH).await.unwrap().text().await;
        assert_eq!(text, "event 0\nevent 1\nevent 2\n");
        assert!(end.is_ok());
        assert_eq!(rig.proxy.requests()[0].fate, Fate::Done);
        rig.server_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn cut_after_bytes_and_dropped() {
    over_both(async |rig| {
        rig.proxy.on(any(), cut(Limit::Bytes(12), End::Drop));
        let (text, end) = rig.get(WATCH).await.unwrap().text().await;
        assert_eq!(text, "event 0\neven");
        assert!(end.is_err());
        assert_eq!(rig.proxy.requests()[0].fate, Fate::Broken);
        rig.server_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn cut_after_a_time_and_reset() {
    const TIME: Duration = Duration::from_millis(150);
    over_both(async |rig| {
        rig.proxy.on(any(), cut(Limit::Time(TIME), End::Reset));
        let start = Instant::now();
        let (text, end) = rig.get(WATCH).await.unwrap().text().await;
        assert!(start.elapsed() >= TIME && !text.is_empty());
        let failure = end.unwrap_err();
        assert!(failure.is_tcp_reset(), "{failure}");
        rig.server_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn stalled_stays_open_and_leaves_other_requests_alone() {
    over_both(async |rig| {
        rig.proxy.on(get("/api/v1/pods"), cut(Limit::Lines(1), End::Stall));
        let mut watch = rig.get(WATCH).await.unwrap();
        assert_eq!(watch.piece().await.unwrap().unwrap(), "event 0\n");
        assert!(timeout(QUIET.max(5 * TICK), watch.piece()).await.is_err());
        assert_eq!(rig.proxy.requests()[0].fate, Fate::Open);
        rig.passes("/x").await;
    })
    .await;
}

#[tokio::test]
async fn a_watch_ends_with_an_error_event() {
    over_both(async |rig| {
        for (status, code, reason) in
            [(Status::expired(), 410, "Expired"), (Status::too_large_resource_version(), 504, "Timeout")]
        {
            let rule = rig.proxy.on(any(), cut(Limit::Lines(1), End::Error(status)));
            let answer = rig.get(WATCH).await.unwrap();
            assert_eq!(answer.status(), 200);
            let (text, end) = answer.text().await;
            rule.lift();
            assert!(end.is_ok());
            let (first, event) = text.split_once('\n').unwrap();
            assert_eq!(first, "event 0");
            let event: Value = serde_json::from_str(event).unwrap();
            assert_eq!(event["type"], "ERROR");
            assert_eq!(event["object"]["kind"], "Status");
            assert_eq!(event["object"]["code"], code);
            assert_eq!(event["object"]["reason"], reason);
            let too_large = &event["object"]["details"]["causes"][0]["reason"];
            assert_eq!(too_large == "ResourceVersionTooLarge", code == 504);
        }
    })
    .await;
}

#[tokio::test]
async fn cut_at_once_only_the_head_passes() {
    over_both(async |rig| {
        rig.proxy.on(any(), cut(Limit::Bytes(0), End::Close));
        let answer = rig.get(WATCH).await.unwrap();
        assert_eq!(answer.status(), 200);
        let (text, end) = answer.text().await;
        assert_eq!((text.as_str(), end.is_ok()), ("", true));
    })
    .await;
}
