//! The transport against real servers on loopback ports.

use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::{join_all, try_join_all};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use kube::client::Body;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tower::{Service as _, ServiceExt as _};

use super::route::{Ping, Route};
use super::target::Trust;
use super::test_server::{Handler, Server, Tls, get, json, serve};
use super::transport::{Epoch, Transport};
use super::{Connection, ConnectionFlags, Environment, connect, stream, tls};

const BOTH: &[&str] = &["h2", "http/1.1"];
const TOKEN: &str = "{token: abc}";

#[tokio::test]
async fn r39_the_first_wave_of_requests_shares_one_connection() {
    let server = Server::start(BOTH, json("{}")).await;
    let connection = server.connect(TOKEN).await;
    try_join_all((0..20).map(|_| get(&connection, "/version"))).await.unwrap();
    get(&connection, "/version").await.unwrap();
    assert_eq!(server.handshakes(), 1);
    assert!(server.header("authorization").iter().all(|it| it.as_deref() == Some("Bearer abc")));
    let agent = concat!("kubectl-aicr/", env!("CARGO_PKG_VERSION"));
    assert!(server.header("user-agent").iter().all(|it| it.as_deref() == Some(agent)));
}

#[tokio::test]
async fn r39_a_server_without_http2_is_spoken_to_in_http11_over_pooled_connections() {
    let server = Server::start(&["http/1.1"], json("{}")).await;
    let connection = server.connect(TOKEN).await;
    for _ in 0..5 {
        get(&connection, "/version").await.unwrap();
    }
    assert_eq!(server.handshakes(), 1, "one after another they share a connection");
    let wave = join_all((0..4).map(|_| get(&connection, "/version"))).await;
    assert!(wave.into_iter().all(|answer| answer.is_ok()));
    assert!(server.handshakes() <= 4);
    let host = server.address.to_string();
    assert!(server.header("host").iter().all(|it| it.as_ref() == Some(&host)));
}

/// What a client sent that a server has read: the requests among it.
async fn read_requests(tls: &mut Tls, http2: bool, count: &AtomicUsize) {
    let mut bytes = Vec::new();
    let mut frames = 24;
    loop {
        let mut buffer = [0; 4096];
        let read = tls.read(&mut buffer).await.unwrap_or(0);
        bytes.extend_from_slice(&buffer[..read]);
        if http2 {
            // Past the preface: frames of a nine byte header with length, type and flags. END_STREAM ends a request.
            while bytes.len() >= frames + 9 {
                let header = &bytes[frames..frames + 9];
                let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
                if matches!(header[3], 0 | 1) && header[4] & 1 == 1 {
                    count.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                frames += 9 + length;
            }
        } else if bytes.ends_with(b"{}") {
            count.fetch_add(1, Ordering::SeqCst);
            return;
        }
        if read == 0 {
            return;
        }
    }
}

fn create() -> Request<Vec<u8>> {
    Request::post("/api/v1/namespaces").body(b"{}".to_vec()).unwrap()
}

/// Frames of HTTP/2.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
const GOAWAY_BEFORE_ALL: &[u8] = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const GOAWAY_WITH_ERROR: &[u8] = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
const GOAWAY_AFTER_FIRST: &[u8] = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
const REFUSE_FIRST: &[u8] = &[0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 7];

/// A server whose first connection reads a request, answers it with these bytes and ends; all others work. Returns how
/// often the request was read on first connections.
async fn ends_with(answer: &'static [u8], alpn: &'static [&'static str]) -> (Server, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let reads = count.clone();
    let http2 = alpn.contains(&"h2");
    let server = Server::raw(alpn, &["127.0.0.1"], move |number, mut tls| {
        let reads = reads.clone();
        async move {
            if number > 0 {
                let count = move |_: Request<_>| {
                    reads.fetch_add(1, Ordering::SeqCst);
                    async { Response::new(Full::from("{}")) }.boxed()
                };
                return serve(TokioIo::new(tls), Arc::new(count), Arc::default()).await;
            }
            if http2 {
                tls.write_all(SETTINGS).await.unwrap();
            }
            read_requests(&mut tls, http2, &reads).await;
            tls.write_all(answer).await.unwrap();
            let _ = tls.shutdown().await;
        }
        .boxed()
    });
    (server.await, count)
}

#[tokio::test]
async fn r6_a_create_that_the_server_may_have_seen_is_never_sent_again() {
    for (answer, alpn) in [
        (&b""[..], BOTH),
        (GOAWAY_WITH_ERROR, BOTH),
        (GOAWAY_AFTER_FIRST, BOTH),
        (b"", &["http/1.1"]),
        (b"HTTP/1.1 2", &["http/1.1"]),
    ] {
        let (server, count) = ends_with(answer, alpn).await;
        let connection = server.connect(TOKEN).await;
        let outcome = connection.client.request::<serde_json::Value>(create()).await;
        assert!(outcome.is_err(), "{answer:?}");
        assert_eq!((count.load(Ordering::SeqCst), server.handshakes()), (1, 1), "{answer:?}");
        get(&connection, "/version").await.unwrap();
        assert_eq!(server.handshakes(), 2, "the next request opens a new connection");
    }
}

#[tokio::test]
async fn r6_a_create_on_a_pooled_connection_that_closes_is_never_sent_again() {
    let count = Arc::new(AtomicUsize::new(0));
    let reads = count.clone();
    let server = Server::raw(&["http/1.1"], &["127.0.0.1"], move |_, mut tls| {
        let reads = reads.clone();
        async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(tls.read_u8().await.unwrap());
            }
            if head.starts_with(b"POST") {
                reads.fetch_add(1, Ordering::SeqCst);
            }
            tls.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await.unwrap();
            read_requests(&mut tls, false, &reads).await;
        }
        .boxed()
    });
    let server = server.await;
    let connection = server.connect(TOKEN).await;
    get(&connection, "/version").await.unwrap();
    assert!(connection.client.request::<serde_json::Value>(create()).await.is_err());
    assert_eq!((count.load(Ordering::SeqCst), server.handshakes()), (1, 1));
}

#[tokio::test]
async fn r6_a_create_that_the_server_refused_to_look_at_is_sent_again() {
    for answer in [GOAWAY_BEFORE_ALL, REFUSE_FIRST] {
        let (server, count) = ends_with(answer, BOTH).await;
        let connection = server.connect(TOKEN).await;
        connection.client.request::<serde_json::Value>(create()).await.unwrap();
        assert_eq!((count.load(Ordering::SeqCst), server.handshakes()), (2, 2), "{answer:?}");
    }
}

#[tokio::test]
async fn r6_a_create_that_is_refused_again_and_again_is_given_up() {
    let count = Arc::new(AtomicUsize::new(0));
    let reads = count.clone();
    let server = Server::raw(BOTH, &["127.0.0.1"], move |_, mut tls| {
        let reads = reads.clone();
        async move {
            tls.write_all(SETTINGS).await.unwrap();
            read_requests(&mut tls, true, &reads).await;
            tls.write_all(GOAWAY_BEFORE_ALL).await.unwrap();
            let _ = tls.shutdown().await;
        }
        .boxed()
    });
    let server = server.await;
    let connection = server.connect(TOKEN).await;
    assert!(connection.client.request::<serde_json::Value>(create()).await.is_err());
    assert_eq!(count.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn r39_a_failed_connection_fails_all_that_waited_for_it_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("https://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let accepted = count.clone();
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            accepted.fetch_add(1, Ordering::SeqCst);
            drop(tcp);
        }
    });
    let flags = ConnectionFlags { server: Some(server), ..ConnectionFlags::default() };
    let connection = connect(&flags, &Environment::of(&[])).await.unwrap();
    let wave = join_all((0..20).map(|_| get(&connection, "/version"))).await;
    assert!(wave.into_iter().all(|answer| answer.is_err()));
    assert_eq!(count.load(Ordering::SeqCst), 1);
    assert!(get(&connection, "/version").await.is_err());
    assert_eq!(count.load(Ordering::SeqCst), 2, "a later request tries anew");
}

#[tokio::test]
async fn r39_connecting_has_a_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let flags = ConnectionFlags {
        server: Some(format!("https://{}", listener.local_addr().unwrap())),
        request_timeout: Some("200ms".into()),
        ..ConnectionFlags::default()
    };
    let connection = connect(&flags, &Environment::of(&[])).await.unwrap();
    let start = Instant::now();
    let error = get(&connection, "/version").await.unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(5));
    assert!(super::classify(&error).cause.contains("no answer within 200ms"), "{:?}", super::classify(&error));
}

#[tokio::test]
async fn r39_an_attempt_that_nobody_waits_for_any_more_leaves_nothing_behind() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("https://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let accepted = count.clone();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((tcp, _)) = listener.accept().await {
            accepted.fetch_add(1, Ordering::SeqCst);
            held.push(tcp);
        }
    });
    let request_timeout = Some("200ms".into());
    let flags = ConnectionFlags { server: Some(server), request_timeout, ..ConnectionFlags::default() };
    let connection = connect(&flags, &Environment::of(&[])).await.unwrap();
    let given_up = tokio::time::timeout(Duration::from_millis(50), get(&connection, "/version")).await;
    assert!(given_up.is_err());
    tokio::time::sleep(Duration::from_millis(400)).await;
    let start = Instant::now();
    assert!(get(&connection, "/version").await.is_err());
    assert!(start.elapsed() >= Duration::from_millis(150), "it is a new attempt");
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

/// A relay that can stop forwarding, as a dead network does.
async fn relay(to: std::net::SocketAddr, frozen: Arc<AtomicBool>) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let frozen = frozen.clone();
            tokio::spawn(async move {
                let mut far = TcpStream::connect(to).await.unwrap();
                let freeze = async {
                    while !frozen.load(Ordering::SeqCst) {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                };
                tokio::select! {
                    _ = copy_bidirectional(&mut near, &mut far) => {}
                    () = freeze => pending().await,
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn r39_pings_find_a_dead_connection_and_the_next_request_opens_another() {
    let handler: Handler = Arc::new(|request| match request.uri().path() {
        "/watch" => pending().boxed(),
        _ => async { Response::new(Full::from("{}")) }.boxed(),
    });
    let server = Server::start(BOTH, handler).await;
    let frozen = Arc::new(AtomicBool::new(false));
    let address = relay(server.address, frozen.clone()).await;
    let ca = server.pki.ca_der();
    let config = tls::client_config(&mut Trust { roots: Some(vec![ca]), ..Trust::default() }, None).unwrap();
    let route = Route {
        server: format!("https://{address}").parse().unwrap(),
        to: "the server".into(),
        through_proxy: false,
        connector: stream::connector(&config, None, None, true),
        limit: Duration::from_secs(5),
        ping: Ping { after: Duration::from_millis(50), timeout: Duration::from_millis(100) },
    };
    let transport = Transport::new(route, Epoch::default());
    let send = |path: &str| {
        let uri = format!("https://{address}{path}");
        let request = Request::get(uri).body(Body::empty()).unwrap();
        let mut transport = transport.clone();
        async move { transport.ready().await.unwrap().call(request).await }
    };
    send("/version").await.unwrap();
    let watch = tokio::spawn(send("/watch"));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!watch.is_finished(), "a silent connection that answers pings lives");

    frozen.store(true, Ordering::SeqCst);
    let broken = tokio::time::timeout(Duration::from_secs(5), watch).await.unwrap().unwrap();
    assert!(super::failure::text_of(&*broken.unwrap_err()).contains("keep-alive"));
    frozen.store(false, Ordering::SeqCst);
    send("/version").await.unwrap();
    assert_eq!(server.handshakes(), 2);
}

#[tokio::test]
async fn r39_impersonation_and_client_certificate_reach_the_server() {
    let server = Server::start(BOTH, json("{}")).await;
    let (certificate, key) = server.pki.issue(&["client.test"]);
    std::fs::write(server.directory.path().join("c.crt"), certificate).unwrap();
    std::fs::write(server.directory.path().join("c.key"), key).unwrap();
    let user = "{client-certificate: c.crt, client-key: c.key}";
    let flags = ConnectionFlags {
        kubeconfig: server.kubeconfig(user).to_str().map(str::to_owned),
        impersonate: Some("jane".into()),
        impersonate_uid: Some("7".into()),
        impersonate_groups: vec!["a,b".into(), "c".into()],
        impersonate_user_extra: vec!["example.com/x=1".into()],
        ..ConnectionFlags::default()
    };
    let connection = connect(&flags, &Environment::of(&[])).await.unwrap();
    get(&connection, "/version").await.unwrap();
    assert!(server.clients.lock().unwrap()[0].is_some());
    let seen = server.seen.lock().unwrap();
    let headers = seen[0].headers();
    assert_eq!(headers["impersonate-user"], "jane");
    assert_eq!(headers["impersonate-uid"], "7");
    assert_eq!(headers.get_all("impersonate-group").iter().collect::<Vec<_>>(), ["a,b", "c"]);
    assert_eq!(headers["impersonate-extra-example.com%2fx"], "1");
}

#[tokio::test]
async fn r39_plain_http_servers_work_below_a_path() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("{}/base/", listener.local_addr().unwrap());
    let seen: Arc<Mutex<Vec<Request<()>>>> = Arc::default();
    let log = seen.clone();
    tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        serve(TokioIo::new(tcp), json("{}"), log).await;
    });
    let flags = ConnectionFlags { server: Some(format!("http://{server}")), ..ConnectionFlags::default() };
    let connection: Connection = connect(&flags, &Environment::of(&[])).await.unwrap();
    assert_eq!(connection.server, format!("http://{}", server.trim_end_matches('/')));
    get(&connection, "/version?x=1").await.unwrap();
    assert_eq!(seen.lock().unwrap()[0].uri(), "/base/version?x=1");
}

#[tokio::test]
async fn r39_a_token_file_is_read_and_the_flag_is_its_fallback() {
    let server = Server::start(BOTH, json("{}")).await;
    let path = server.directory.path().join("token");
    std::fs::write(&path, " from-file \n").unwrap();
    let kubeconfig = server.kubeconfig("{tokenFile: token}").to_str().map(str::to_owned);
    let flags = ConnectionFlags { kubeconfig, token: Some("from-flag".into()), ..ConnectionFlags::default() };
    get(&connect(&flags, &Environment::of(&[])).await.unwrap(), "/version").await.unwrap();
    std::fs::remove_file(&path).unwrap();
    get(&connect(&flags, &Environment::of(&[])).await.unwrap(), "/version").await.unwrap();
    let sent: Vec<_> = server.header("authorization").into_iter().flatten().collect();
    assert_eq!(sent, ["Bearer from-file", "Bearer from-flag"]);
}

#[tokio::test]
async fn r26_a_document_of_a_mebibyte_arrives_whole() {
    let document = "x".repeat(1 << 20);
    let answer = document.clone();
    let handler: Handler = Arc::new(move |_| {
        let answer = answer.clone();
        async move { Response::new(Full::from(answer)) }.boxed()
    });
    for alpn in [BOTH, &["http/1.1"]] {
        let server = Server::start(alpn, handler.clone()).await;
        let connection = server.connect(TOKEN).await;
        let response = connection.client.send(Request::get("/x").body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), document.as_bytes());
    }
}
