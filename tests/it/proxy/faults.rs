//! What goes wrong before and after the server sees a request.

use std::time::{Duration, Instant};

use futures::future::join;
use http::Request;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::rig::{Http, QUIET, Rig, over_both};
use crate::support::proxy::{
    Entry, Fate, Fault, Outage, Proxy, Status, after, answer, any, before, commit_late, delete, get, patch, post,
    request,
};

/// Drops a request that has come as far as `reached` and is not answered.
async fn unanswered<T>(request: impl Future<Output = T>, reached: impl Future<Output = ()>) {
    let mut request = std::pin::pin!(request);
    tokio::select! {
        _ = &mut request => panic!("it was answered"),
        () = reached => {}
    }
    assert!(timeout(QUIET, request).await.is_err(), "it was answered");
}

#[tokio::test]
async fn an_answer_in_the_servers_place_is_a_status_and_the_server_sees_nothing() {
    let cases = [
        (Status::unauthorized(), 401, "Unauthorized"),
        (Status::forbidden(), 403, "Forbidden"),
        (Status::not_found(), 404, "NotFound"),
        (Status::already_exists(), 409, "AlreadyExists"),
        (Status::conflict(), 409, "Conflict"),
        (Status::expired(), 410, "Expired"),
        (Status::too_many_requests(7), 429, "TooManyRequests"),
        (Status::internal_error(), 500, "InternalError"),
        (Status::unavailable(), 503, "ServiceUnavailable"),
        (Status::timeout(), 504, "Timeout"),
        (Status::new(422, "Invalid"), 422, "Invalid"),
    ];
    over_both(async |rig| {
        for (status, code, reason) in cases.clone() {
            let rule = rig.proxy.on(any(), answer(status));
            let got = rig.post("/apis/batch/v1/namespaces/ns/jobs/j").await.unwrap();
            rule.lift();
            assert_eq!(got.status(), code);
            assert_eq!(got.header("content-type"), "application/json");
            if code == 429 {
                assert_eq!(got.header("retry-after"), "7");
            }
            let (text, end) = got.text().await;
            assert!(end.is_ok());
            let body: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(body["kind"], "Status");
            assert_eq!(body["status"], "Failure");
            assert_eq!(body["reason"], reason);
            assert_eq!(body["code"], code);
            assert_eq!(body["details"]["kind"], "jobs");
            assert_eq!(body["details"]["group"], "batch");
            assert_eq!(body["details"]["name"], "j");
            assert!(body["message"].as_str().is_some_and(|m| !m.is_empty()));
        }
        assert!(rig.server.seen().is_empty());
        assert!(rig.proxy.requests().iter().all(|e| e.fate == Fate::Done));
        rig.passes("/after-all").await;
    })
    .await;
}

#[tokio::test]
async fn the_default_messages_name_the_object_as_the_api_server_does() {
    over_both(async |rig| {
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/x";
        for (status, message) in [
            (Status::already_exists(), r#"clusterroles.rbac.authorization.k8s.io "x" already exists"#),
            (
                Status::forbidden(),
                "clusterroles.rbac.authorization.k8s.io \"x\" is forbidden: User \"someone\" \
                 cannot get resource \"clusterroles\" in API group \
                 \"rbac.authorization.k8s.io\" at the cluster scope",
            ),
            (Status::conflict().message("no"), "no"),
        ] {
            let rule = rig.proxy.on(get(path), answer(status));
            let (text, _) = rig.get(path).await.unwrap().text().await;
            rule.lift();
            let body: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(body["message"], message);
        }
    })
    .await;
}

#[tokio::test]
async fn an_answer_may_be_plain_text() {
    over_both(async |rig| {
        let status = Status::plain(429, "Too many requests").retry_after(1);
        rig.proxy.on(any(), answer(status));
        let got = rig.get("/x").await.unwrap();
        assert_eq!(got.status(), 429);
        assert_eq!(got.header("retry-after"), "1");
        assert!(got.header("content-type").starts_with("text/plain"));
        assert_eq!(got.text().await.0, "Too many requests");
    })
    .await;
}

#[tokio::test]
async fn dropped_before_the_server_sees_nothing_and_after_it_has_committed() {
    over_both(async |rig| {
        rig.proxy.on(post("/before"), before(Fault::Drop));
        rig.post("/before").await.err().unwrap();
        assert_eq!(rig.server.seen().len(), 0);

        let rule = rig.proxy.on(post("/after"), after(Fault::Drop));
        rig.post("/after").await.err().unwrap();
        rule.committed().await;
        assert_eq!(rig.server.seen().len(), 1);

        let log = rig.proxy.requests();
        assert_eq!([log[0].fate, log[1].fate], [Fate::Broken; 2]);
        assert_eq!([log[0].status, log[1].status], [None; 2]);
        assert!(log[0].committed.is_none() && log[1].committed.is_some());
        rig.passes("/x").await;
    })
    .await;
}

#[tokio::test]
async fn a_dropped_stream_leaves_its_neighbours_a_reset_connection_does_not() {
    over_both(async |rig| {
        // A first request, so that HTTP/2 has its one connection.
        rig.passes("/warm").await;
        let slow = rig.proxy.on(get("/slow"), before(Fault::Hold));
        rig.proxy.on(get("/drop"), before(Fault::Drop));
        rig.proxy.on(get("/reset"), after(Fault::Reset));

        let dropped = async {
            slow.arrived().await;
            let failure = rig.get("/drop").await.err().unwrap();
            assert!(!failure.is_tcp_reset(), "{failure}");
            slow.release();
        };
        let (neighbour, ()) = join(rig.get("/slow"), dropped).await;
        assert_eq!(neighbour.unwrap().status(), 200);

        let slow = rig.proxy.on(get("/slower"), before(Fault::Hold));
        let reset = async {
            slow.arrived().await;
            let failure = rig.get("/reset").await.err().unwrap();
            assert!(failure.is_tcp_reset(), "{failure}");
            slow.release();
        };
        let (neighbour, ()) = join(rig.get("/slower"), reset).await;
        assert_eq!(neighbour.is_ok(), rig.http == Http::One);
        rig.passes("/x").await;
    })
    .await;
}

#[tokio::test]
async fn a_hang_is_never_answered_and_noted_as_abandoned() {
    over_both(async |rig| {
        let early = rig.proxy.on(get("/before"), before(Fault::Hang));
        let late = rig.proxy.on(get("/after"), after(Fault::Hang));
        unanswered(rig.get("/before"), early.arrived()).await;
        assert_eq!(rig.server.seen().len(), 0);
        unanswered(rig.get("/after"), late.committed()).await;
        assert_eq!(rig.server.seen().len(), 1);
        rig.fates_become(&[Fate::Abandoned; 2]).await;
    })
    .await;
}

#[tokio::test]
async fn a_silent_connection_stays_open_and_says_nothing() {
    over_both(async |rig| {
        let mute = rig.proxy.on(get("/mute").first(1), before(Fault::Silence));
        unanswered(rig.get("/mute"), mute.arrived()).await;
        match rig.http {
            Http::One => rig.passes("/next").await,
            // It goes over the same connection.
            Http::Two => unanswered(rig.get("/next"), async {}).await,
        }
    })
    .await;
}

#[tokio::test]
async fn delays_hold_up_the_request_or_the_answer() {
    const DELAY: Duration = Duration::from_millis(200);
    over_both(async |rig| {
        rig.proxy.on(get("/before"), before(Fault::Delay(DELAY)));
        rig.proxy.on(get("/after"), after(Fault::Delay(DELAY)));
        for path in ["/before", "/after"] {
            let start = Instant::now();
            rig.passes(path).await;
            assert!(start.elapsed() >= DELAY);
        }
        let log = rig.proxy.requests();
        assert!(log[0].committed.unwrap() - log[0].arrived >= DELAY);
        assert!(log[1].ended.unwrap() - log[1].committed.unwrap() >= DELAY);
    })
    .await;
}

#[tokio::test]
async fn a_gate_holds_a_request_at_an_exact_point() {
    over_both(async |rig| {
        let gate = rig.proxy.on(post("/before"), before(Fault::Hold));
        let hold = async {
            gate.arrived().await;
            tokio::time::sleep(QUIET).await;
            assert_eq!(rig.server.seen().len(), 0);
            gate.release();
        };
        let (answer, ()) = join(rig.post("/before"), hold).await;
        assert_eq!(answer.unwrap().status(), 201);

        let gate = rig.proxy.on(post("/after"), after(Fault::Hold));
        let hold = async {
            gate.committed().await;
            assert_eq!(rig.server.seen().len(), 2);
            assert_eq!(rig.proxy.requests()[1].status, None);
            gate.release();
        };
        let (answer, ()) = join(rig.post("/after"), hold).await;
        assert_eq!(answer.unwrap().text().await.0, "POST /after");
        gate.answered().await;
    })
    .await;
}

#[tokio::test]
async fn an_answer_is_held_even_if_its_client_is_gone_and_the_commit_stands() {
    over_both(async |rig| {
        let early = rig.proxy.on(post("/x"), before(Fault::Hold));
        let late = rig.proxy.on(post("/y"), after(Fault::Hold));
        unanswered(rig.post("/x"), early.arrived()).await;
        unanswered(rig.post("/y"), late.arrived()).await;
        late.committed().await;
        let seen = rig.server.seen();
        assert_eq!(seen.len(), 1, "the first one died before it was sent on");
        assert_eq!(seen[0].request.uri.path(), "/y");
    })
    .await;
}

#[tokio::test]
async fn a_lost_request_commits_late_on_release() {
    over_both(async |rig| {
        let rule = rig.proxy.on(post("/x"), commit_late());
        rig.post("/x").await.err().unwrap();
        assert_eq!(rig.server.seen().len(), 0);
        assert_eq!(rig.proxy.requests()[0].fate, Fate::Broken);
        rule.release();
        rule.committed().await;
        assert_eq!(rig.server.seen().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn rules_count_their_matches() {
    over_both(async |rig| {
        let codes = async |rig: &Rig, path| {
            let mut codes = Vec::new();
            for _ in 0..4 {
                codes.push(rig.get(path).await.unwrap().status());
            }
            codes
        };
        let fail = || answer(Status::unavailable());
        rig.proxy.on(get("/every"), fail());
        rig.proxy.on(get("/nth").nth(2), fail());
        rig.proxy.on(get("/first").first(2), fail());
        rig.proxy.on(get("/from").from(3), fail());
        assert_eq!(codes(&rig, "/every").await, [503, 503, 503, 503]);
        assert_eq!(codes(&rig, "/nth").await, [200, 503, 200, 200]);
        assert_eq!(codes(&rig, "/first").await, [503, 503, 200, 200]);
        assert_eq!(codes(&rig, "/from").await, [200, 200, 503, 503]);
    })
    .await;
}

#[tokio::test]
async fn rules_match_by_method_path_query_and_test() {
    over_both(async |rig| {
        let fail = |code| answer(Status::new(code, "X"));
        let status = async |path| rig.get(path).await.unwrap().status();
        for when in [delete("/a"), patch("/a"), request("PUT", "/a")] {
            rig.proxy.on(when, fail(551));
        }
        rig.proxy.on(get("/a/*/c"), fail(552));
        rig.proxy.on(get("/deep/**/end"), fail(553));
        rig.proxy.on(get("/q").query("limit=1"), fail(554));
        let long = |entry: &Entry| entry.path.len() > 30;
        rig.proxy.on(any().matching(long), fail(555));
        assert_eq!(status("/a").await, 200);
        for method in ["DELETE", "PATCH", "PUT"] {
            let request = Request::builder().method(method).uri("/a");
            let answer = rig.send(request.body(String::new()).unwrap()).await;
            assert_eq!(answer.unwrap().status(), 551, "{method}");
        }
        assert_eq!(status("/a/b/c").await, 552);
        assert_eq!(status("/a/b/b/c").await, 200);
        assert_eq!(status("/a/b/c/d").await, 200);
        assert_eq!(status("/deep/1/2/end").await, 553);
        assert_eq!(status("/q").await, 200);
        assert_eq!(status("/q?limit=1&x=y").await, 554);
        assert_eq!(status("/a-path-that-is-longer-than-30-bytes").await, 555);
    })
    .await;
}

#[tokio::test]
async fn the_first_acting_rule_wins_and_lifted_rules_do_nothing() {
    over_both(async |rig| {
        let seen = rig.proxy.observe(any());
        let first = rig.proxy.on(any(), answer(Status::conflict()));
        let second = rig.proxy.on(any(), answer(Status::timeout()));
        assert_eq!(rig.get("/x").await.unwrap().status(), 409);
        first.lift();
        assert_eq!(rig.get("/x").await.unwrap().status(), 504);
        rig.proxy.lift_all();
        rig.passes("/x").await;
        assert_eq!((seen.hits(), first.hits(), second.hits()), (2, 1, 2));
        let rules: Vec<bool> = rig.proxy.requests().iter().map(|entry| entry.rule.is_some()).collect();
        assert_eq!(rules, [true, true, false]);
    })
    .await;
}

#[tokio::test]
async fn the_server_can_be_away_for_a_while() {
    over_both(async |rig| {
        rig.passes("/x").await;
        rig.proxy.down(Outage::Reset);
        // The pooled connection first, a new one then.
        rig.get("/x").await.err().unwrap();
        rig.get("/x").await.err().unwrap();
        rig.proxy.up();
        rig.passes("/x").await;

        rig.proxy.down(Outage::Silence);
        assert!(timeout(QUIET, rig.get("/x")).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn an_unreachable_server_breaks_the_request_and_says_why() {
    over_both(async |rig| {
        let closed = Proxy::to("https://127.0.0.1:1", rig.proxy.ca_pem()).start().await;
        let rig = rig.through(closed);
        rig.get("/x").await.err().unwrap();
        let entry = &rig.proxy.requests()[0];
        assert_eq!((entry.fate, entry.status), (Fate::Broken, None));
        let why = entry.rule.as_deref().unwrap();
        assert!(why.contains("no answer from the API server"), "{why}");
    })
    .await;
}

#[tokio::test]
async fn details_can_be_added() {
    over_both(async |rig| {
        let status = Status::forbidden().details(json!({"causes": [{"reason": "r"}]}));
        rig.proxy.on(any(), answer(status));
        let (text, _) = rig.get("/api/v1/nodes").await.unwrap().text().await;
        let body: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(body["details"]["causes"][0]["reason"], "r");
        assert_eq!(body["details"]["kind"], "nodes");
    })
    .await;
}
