//! What the proxy writes down, and what it passes on.

use std::time::{Duration, Instant};

use futures::future::join_all;
use http::{Request, Version};

use super::rig::{Http, Server, over_both, over_both_with};
use crate::support::{
    pki::Authority,
    proxy::{Clients, Fate, Proxy, get, post, waves},
};

#[tokio::test]
async fn a_request_passes_unchanged_and_is_written_down() {
    over_both(async |rig| {
        let request = Request::post("/apis/batch/v1/namespaces/ns/jobs?fieldManager=me")
            .header("authorization", "Bearer secret")
            .header("user-agent", "kubectl-aicr/1")
            .header("content-type", "application/json")
            .header("impersonate-user", "eve")
            .header("impersonate-group", "g1")
            .header("impersonate-group", "g2")
            .body(r#"{"metadata":{"name":"j1"}}"#.to_owned())
            .unwrap();
        let answer = rig.send(request).await.unwrap();
        assert_eq!(answer.status(), 201);
        answer.text().await.1.unwrap();

        let seen = rig.server.seen().remove(0);
        assert_eq!(seen.request.method, "POST");
        assert_eq!(seen.request.uri.path_and_query().unwrap(), "/apis/batch/v1/namespaces/ns/jobs?fieldManager=me");
        assert_eq!(seen.request.headers["authorization"], "Bearer secret");
        assert_eq!(seen.request.headers["impersonate-user"], "eve");
        let groups: Vec<_> = seen.request.headers.get_all("impersonate-group").iter().collect();
        assert_eq!(groups, ["g1", "g2"]);
        assert_eq!(seen.body, r#"{"metadata":{"name":"j1"}}"#);

        let entry = rig.proxy.requests().remove(0);
        let version = match rig.http {
            Http::One => Version::HTTP_11,
            Http::Two => Version::HTTP_2,
        };
        assert_eq!((entry.seq, entry.connection), (1, 1));
        assert_eq!(entry.version, version);
        assert_eq!(entry.query, "fieldManager=me");
        assert_eq!(entry.header("user-agent"), Some("kubectl-aicr/1"));
        assert_eq!(entry.header("authorization"), Some("Bearer"));
        assert_eq!(entry.body, seen.body);
        assert_eq!((entry.status, entry.fate), (Some(201), Fate::Done));
        assert!(entry.rule.is_none());
        assert!(entry.arrived <= entry.committed.unwrap());
        assert!(entry.committed <= entry.ended);

        let target = entry.target();
        assert_eq!(target.verb, "create");
        assert_eq!(target.group, "batch");
        assert_eq!(target.namespace, "ns");
        assert_eq!(target.resource, "jobs");
        assert_eq!(target.name, "j1");
    })
    .await;
}

#[tokio::test]
async fn requests_are_told_apart_by_what_they_are_about() {
    over_both(async |rig| {
        for (method, path, wanted) in [
            ("GET", "/api/v1/namespaces/ns", ["get", "", "", "namespaces", "ns", ""]),
            ("GET", "/api/v1/namespaces", ["list", "", "", "namespaces", "", ""]),
            ("GET", "/api/v1/namespaces/ns/pods/p/log", ["get", "", "ns", "pods", "p", "log"]),
            ("GET", "/api/v1/namespaces/ns/pods?watch=1", ["watch", "", "ns", "pods", "", ""]),
            ("PATCH", "/api/v1/namespaces/ns", ["patch", "", "", "namespaces", "ns", ""]),
            ("DELETE", "/apis/batch/v1/namespaces/ns/jobs/j", ["delete", "batch", "ns", "jobs", "j", ""]),
            ("GET", "/version", ["", "", "", "", "", ""]),
        ] {
            rig.proxy.reset_log();
            let request = Request::builder().method(method).uri(path);
            rig.send(request.body(String::new()).unwrap()).await.unwrap();
            let t = rig.proxy.requests().remove(0).target();
            let got = [t.verb, &t.group, &t.namespace, &t.resource, &t.name, &t.subresource];
            assert_eq!(got, wanted, "{method} {path}");
        }
    })
    .await;
}

#[tokio::test]
async fn writes_are_what_may_change_the_cluster() {
    over_both(async |rig| {
        rig.get("/api/v1/pods").await.unwrap();
        rig.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").await.unwrap();
        rig.post("/api/v1/namespaces?dryRun=All").await.unwrap();
        rig.post("/api/v1/namespaces").await.unwrap();
        let writes = rig.proxy.writes();
        assert_eq!(writes.len(), 1, "{}", rig.proxy.transcript());
        assert_eq!(writes[0].seq, 4);
        assert_eq!(rig.proxy.count(&post("/api/**")), 2);
        assert_eq!(rig.proxy.count(&get("**")), 1);
    })
    .await;
}

#[tokio::test]
async fn connections_and_handshakes_are_counted() {
    over_both(async |rig| {
        for _ in 0..3 {
            rig.passes("/x").await;
        }
        assert_eq!((rig.proxy.connections(), rig.proxy.handshakes()), (1, 1));
        join_all((0..5).map(|_| rig.passes("/x"))).await;
        match rig.http {
            Http::One => assert!(rig.proxy.connections() > 1),
            Http::Two => assert_eq!(rig.proxy.connections(), 1),
        }
        rig.proxy.reset_log();
        assert_eq!((rig.proxy.connections(), rig.proxy.handshakes()), (0, 0));
        assert!(rig.proxy.requests().is_empty());
        rig.passes("/x").await;
        assert_eq!(rig.proxy.requests()[0].seq, 9, "numbers go on");
    })
    .await;
}

#[tokio::test]
async fn waves_are_the_round_trips_that_followed_one_another() {
    // Long enough for all of a wave to set out before the first answer.
    const RTT: Duration = Duration::from_millis(500);
    over_both_with(
        |builder| builder.rtt(RTT),
        async |rig| {
            let start = Instant::now();
            join_all((0..20).map(|_| rig.passes("/first"))).await;
            rig.passes("/second").await;
            join_all(["/third", "/third"].map(|path| rig.passes(path))).await;
            let took = start.elapsed();
            assert!(took >= 3 * RTT, "{took:?}");
            let waves: Vec<Vec<String>> =
                rig.proxy.waves().into_iter().map(|wave| wave.into_iter().map(|entry| entry.path).collect()).collect();
            assert_eq!(waves.len(), 3);
            assert_eq!(waves[0], ["/first"; 20]);
            assert_eq!(waves[1], ["/second"]);
            assert_eq!(waves[2], ["/third"; 2]);
        },
    )
    .await;
}

#[tokio::test]
async fn a_request_without_an_end_puts_none_in_a_later_wave() {
    over_both(async |rig| {
        for path in ["/a", "/b", "/c"] {
            rig.passes(path).await;
        }
        let mut entries = rig.proxy.requests();
        assert_eq!(waves(&entries).len(), 3);
        entries[1].ended = None;
        let sizes: Vec<usize> = waves(&entries).iter().map(Vec::len).collect();
        assert_eq!(sizes, [1, 2]);
    })
    .await;
}

#[tokio::test]
async fn the_proxy_can_be_a_user_with_a_client_certificate() {
    let authority = Authority::new();
    let user = authority.client("admin", None);
    over_both(async |rig| {
        let server = Server::for_clients(Clients::Of(authority.pem())).await;
        let to = || Proxy::to(&server.url, &server.ca_pem);
        let rig = rig.through(to().start().await);
        rig.get("/x").await.err().unwrap();
        let rig = rig.through(to().identity(user.clone()).start().await);
        rig.passes("/x").await;
    })
    .await;
}
