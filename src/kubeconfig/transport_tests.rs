//! The transport against a real server on a loopback port.

use futures::future::{join_all, try_join_all};

use super::test_server::{Server, get, json};

#[tokio::test]
async fn r39_the_first_wave_of_requests_shares_one_connection() {
    let server = Server::start(&["h2", "http/1.1"], json("{}")).await;
    let connection = server.connect("{token: abc}").await;
    let wave = (0..20).map(|_| get(&connection, "/version"));
    try_join_all(wave).await.unwrap();
    get(&connection, "/version").await.unwrap();
    assert_eq!(server.handshakes(), 1);
    assert!(server.header("authorization").iter().all(|it| it.as_deref() == Some("Bearer abc")));
    let agent = concat!("kubectl-aicr/", env!("CARGO_PKG_VERSION"));
    assert!(server.header("user-agent").iter().all(|it| it.as_deref() == Some(agent)));
}

#[tokio::test]
async fn r39_a_server_without_http2_is_spoken_to_in_http11_over_pooled_connections() {
    let server = Server::start(&["http/1.1"], json("{}")).await;
    let connection = server.connect("{token: abc}").await;
    for _ in 0..5 {
        get(&connection, "/version").await.unwrap();
    }
    assert_eq!(server.handshakes(), 1, "one after another they share a connection");
    let wave = join_all((0..4).map(|_| get(&connection, "/version"))).await;
    assert!(wave.into_iter().all(|answer| answer.is_ok()));
    assert!(server.handshakes() <= 4);
}
