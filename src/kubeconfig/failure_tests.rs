//! Failures as people see them.

use std::sync::Arc;

use futures::FutureExt as _;
use http::{Request, Response};
use http_body_util::Full;
use kube::core::Status;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::failure::{Diagnosis, Kind, classify, refusal};
use super::test_server::{Handler, Server, get, json};
use super::{ConnectionFlags, Environment, connect};

const BOTH: &[&str] = &["h2", "http/1.1"];

fn unavailable(diagnosis: &Diagnosis, cause: &str, next: &str) {
    assert_eq!(diagnosis.kind, Kind::Unreachable, "{diagnosis:?}");
    assert!(diagnosis.cause.contains(cause), "{diagnosis:?} lacks {cause}");
    assert!(diagnosis.next.as_ref().is_some_and(|it| it.contains(next)), "{diagnosis:?} lacks {next}");
}

async fn failing(flags: ConnectionFlags) -> Diagnosis {
    let connection = connect(&flags, &Environment::of(&[])).await.unwrap();
    classify(&get(&connection, "/version").await.unwrap_err())
}

async fn of_server(server: &str) -> Diagnosis {
    failing(ConnectionFlags { server: Some(server.to_owned()), ..ConnectionFlags::default() }).await
}

async fn of_kubeconfig(server: &Server) -> Diagnosis {
    let kubeconfig = server.kubeconfig("{token: planted}").to_str().map(str::to_owned);
    failing(ConnectionFlags { kubeconfig, ..ConnectionFlags::default() }).await
}

#[tokio::test]
async fn r42_a_server_that_is_not_there_is_unreachable() {
    let refused = of_server("https://127.0.0.1:1").await;
    unavailable(&refused, "cannot connect to https://127.0.0.1:1: the connection was refused", "kubectl config view");
    let name = "a".repeat(64);
    let unknown = of_server(&format!("http://{name}.test")).await;
    unavailable(&unknown, "cannot be resolved", "DNS");
}

#[tokio::test]
async fn r42_a_certificate_that_is_not_trusted_says_why() {
    let server = Server::start(BOTH, json("{}")).await;
    let address = format!("https://{}", server.address);
    unavailable(
        &of_server(&address).await,
        &format!("{address} is signed by an unknown authority"),
        "--certificate-authority",
    );

    let other = Server::raw(BOTH, &["other.test"], |_, _| async {}.boxed()).await;
    unavailable(&of_kubeconfig(&other).await, "is for another host", "--tls-server-name");
    let kubeconfig = other.kubeconfig("{}").to_str().map(str::to_owned);
    let named =
        ConnectionFlags { kubeconfig, tls_server_name: Some("other.test".into()), ..ConnectionFlags::default() };
    let past_the_handshake = failing(named).await;
    assert!(past_the_handshake.cause.contains("broke"), "{past_the_handshake:?}");

    let expired = Server::raw(BOTH, &["127.0.0.1", "expired"], |_, _| async {}.boxed()).await;
    unavailable(&of_kubeconfig(&expired).await, "has expired", "renewed");
}

#[tokio::test]
async fn r42_a_server_that_demands_a_client_certificate_is_named_with_its_alert() {
    let server = Server::raw(BOTH, &["127.0.0.1", "mutual"], |_, _| async {}.boxed()).await;
    unavailable(&of_kubeconfig(&server).await, "CertificateRequired", "client certificate");
}

#[tokio::test]
async fn r42_http_and_https_that_are_mixed_up_are_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            let _ = tcp.read_u8().await;
            let _ = tcp.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n").await;
        }
    });
    unavailable(&of_server(&format!("https://{address}")).await, "does not speak TLS", "http://");
    let status =
        Status { code: 400, message: "Client sent an HTTP request to an HTTPS server.\n".into(), ..Status::default() };
    unavailable(&refusal(&status), "sent plain http", "https://");
}

#[tokio::test]
async fn r42_an_answer_that_is_not_of_kubernetes_is_said_to_be_so() {
    let server = Server::start(BOTH, json("<html>hello</html>")).await;
    let diagnosis = of_kubeconfig(&server).await;
    unavailable(&diagnosis, "not one of a Kubernetes API server", "address");
    assert!(!diagnosis.cause.contains("hello"));
}

#[tokio::test]
async fn r42_a_connection_that_breaks_is_told_from_one_that_never_was() {
    let server = Server::raw(&["http/1.1"], &["127.0.0.1"], |_, mut tls| {
        async move {
            let _ = tls.read_u8().await;
        }
        .boxed()
    });
    let server = server.await;
    let connection = server.connect("{}").await;
    let request = Request::post("/x").body(b"{}".to_vec()).unwrap();
    let diagnosis = classify(&connection.client.request::<serde_json::Value>(request).await.unwrap_err());
    assert_eq!(diagnosis.kind, Kind::Unreachable);
    assert!(diagnosis.cause.contains(&format!("the connection to https://{} broke", server.address)), "{diagnosis:?}");
}

#[tokio::test]
async fn r42_what_a_gateway_refuses_in_words_of_its_own_counts_by_its_http_status() {
    for (code, kind) in [(401, Kind::Unauthenticated), (403, Kind::Forbidden), (502, Kind::Refused)] {
        let handler: Handler = Arc::new(move |_| {
            let answer = Response::builder().status(code).body(Full::from("{}")).unwrap();
            async { answer }.boxed()
        });
        let server = Server::start(BOTH, handler).await;
        let diagnosis = of_kubeconfig(&server).await;
        assert_eq!(diagnosis.kind, kind, "{diagnosis:?}");
        assert!(diagnosis.cause.contains(&format!("answered {code}")), "{diagnosis:?}");
    }
}

#[test]
fn r42_refusals_are_told_apart() {
    let status =
        |code, message: &str| Status { code, message: message.into(), reason: "Reason".into(), ..Status::default() };
    let unknown = refusal(&status(401, "Unauthorized"));
    assert_eq!(unknown.kind, Kind::Unauthenticated);
    assert!(unknown.cause.contains("401") && unknown.next.unwrap().contains("kubectl auth whoami"));
    assert_eq!(refusal(&status(403, "pods is forbidden")).cause, "pods is forbidden");
    assert_eq!(refusal(&status(403, "")).kind, Kind::Forbidden);
    let other = refusal(&status(500, ""));
    assert_eq!((other.kind, other.cause.as_str()), (Kind::Refused, "the API server answered 500 Reason"));
}
