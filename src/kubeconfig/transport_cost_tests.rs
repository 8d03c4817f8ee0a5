//! What a connection saves: round trips for a document, handshakes, bytes.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{join, try_join_all};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;

use super::test_server::{Handler, Server, get, json};
use super::{ConnectionFlags, Environment, connect};

const BOTH: &[&str] = &["h2", "http/1.1"];
const TOKEN: &str = "{token: abc}";

/// Passes bytes on, from the client to the server only until it is muted.
async fn mutable_relay(to: SocketAddr, muted: Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (near, _) = listener.accept().await.unwrap();
        let far = TcpStream::connect(to).await.unwrap();
        let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
            (near.into_split(), far.into_split());
        let up = async {
            let mut piece = [0; 4096];
            while let Ok(n @ 1..) = from_client.read(&mut piece).await {
                if muted.load(Ordering::SeqCst) {
                    pending::<()>().await;
                }
                to_server.write_all(&piece[..n]).await.unwrap();
            }
        };
        let _ = join(up, copy(&mut from_server, &mut to_client)).await;
    });
    address
}

#[tokio::test]
async fn r19_a_document_of_a_mebibyte_arrives_without_a_word_to_the_server_after_its_request() {
    let muted = Arc::new(AtomicBool::new(false));
    let mute = muted.clone();
    let handler: Handler = Arc::new(move |request| {
        let answer = match request.uri().path() {
            "/document" => {
                mute.store(true, Ordering::SeqCst);
                "x".repeat(1 << 20)
            }
            _ => "{}".to_owned(),
        };
        async move { Response::new(Full::from(answer)) }.boxed()
    });
    let server = Server::start(BOTH, handler).await;
    let address = mutable_relay(server.address, muted.clone()).await;
    let flags = ConnectionFlags {
        kubeconfig: server.kubeconfig(TOKEN).to_str().map(str::to_owned),
        server: Some(format!("https://{address}")),
        ..ConnectionFlags::default()
    };
    let connection = connect(&flags, &Environment::of(&[])).await.unwrap();
    get(&connection, "/version").await.unwrap();
    let document = async {
        let response = connection.client.send(Request::get("/document").body(Body::empty()).unwrap()).await.unwrap();
        response.into_body().collect().await.unwrap().to_bytes()
    };
    let document = tokio::time::timeout(Duration::from_secs(20), document).await.unwrap();
    assert_eq!(document.len(), 1 << 20);
    assert!(muted.load(Ordering::SeqCst));
}

#[tokio::test]
async fn r39_later_connections_take_up_the_session_of_the_first() {
    // Neither of two is answered before both have come.
    let both = Arc::new(Barrier::new(2));
    let handler: Handler = Arc::new(move |request| {
        let both = both.clone();
        async move {
            if request.uri().path() == "/both" {
                both.wait().await;
            }
            Response::new(Full::from("{}"))
        }
        .boxed()
    });
    let server = Server::start(&["http/1.1"], handler).await;
    let connection = server.connect(TOKEN).await;
    get(&connection, "/version").await.unwrap();
    try_join_all((0..2).map(|_| get(&connection, "/both"))).await.unwrap();
    assert_eq!(*server.resumed.lock().unwrap(), [false, true]);
}

#[tokio::test]
async fn r39_compressed_answers_are_asked_for_unless_disabled() {
    let server = Server::start(BOTH, json("{}")).await;
    let kubeconfig = server.kubeconfig(TOKEN).to_str().map(str::to_owned);
    for disable_compression in [false, true] {
        let flags = ConnectionFlags { kubeconfig: kubeconfig.clone(), disable_compression, ..Default::default() };
        let connection = connect(&flags, &Environment::of(&[])).await.unwrap();
        get(&connection, "/version").await.unwrap();
    }
    assert_eq!(server.header("accept-encoding"), [Some("gzip".to_owned()), None]);
}
