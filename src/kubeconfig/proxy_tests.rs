//! Proxies, played by small servers.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use futures::future::try_join_all;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::test_server::{Server, get, json};
use super::{ConnectionFlags, Environment, classify, connect};

const BOTH: &[&str] = &["h2", "http/1.1"];

/// What a proxy was asked for, one entry a connection.
type Asked = Arc<Mutex<Vec<String>>>;

/// The head of a request.
async fn head(client: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

/// Opens a tunnel to `to`, whatever the client asked for.
async fn tunnel(mut client: impl AsyncRead + AsyncWrite + Unpin, to: SocketAddr, asked: Asked) {
    let request = head(&mut client).await;
    asked.lock().unwrap().push(request);
    let mut server = TcpStream::connect(to).await.unwrap();
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
    let _ = copy_bidirectional(&mut client, &mut server).await;
}

/// A proxy over plain TCP that treats each connection in this way.
async fn proxy<F>(mut serve: impl FnMut(TcpStream) -> F + Send + 'static) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client));
        }
    });
    address
}

/// Flags for a server that is called `api.test`, which no resolver knows.
fn flags(server: &Server) -> ConnectionFlags {
    let config = server.kubeconfig("{token: planted}");
    ConnectionFlags {
        kubeconfig: config.to_str().map(str::to_owned),
        server: Some("https://api.test".into()),
        ..ConnectionFlags::default()
    }
}

#[tokio::test]
async fn r39_https_goes_through_one_tunnel_of_an_http_proxy() {
    let server = Server::start(BOTH, json("{}")).await;
    let asked = Asked::default();
    let (log, to) = (asked.clone(), server.address);
    let address = proxy(move |client| tunnel(client, to, log.clone())).await;
    let env = Environment::of(&[("HTTPS_PROXY", &format!("http://me:p%40ss@{address}"))]);
    let connection = connect(&flags(&server), &env).await.unwrap();
    try_join_all((0..20).map(|_| get(&connection, "/version"))).await.unwrap();
    assert_eq!(server.handshakes(), 1);
    let asked = asked.lock().unwrap();
    let expected =
        "CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\nProxy-Authorization: Basic bWU6cEBzcw==\r\n\r\n";
    assert_eq!(*asked, [expected]);
}

#[tokio::test]
async fn r39_an_https_proxy_is_trusted_as_the_cluster_is() {
    let server = Server::start(BOTH, json("{}")).await;
    let (asked, to) = (Asked::default(), server.address);
    let log = asked.clone();
    let acceptor = server.pki.acceptor(&["127.0.0.1"], &[]);
    let address = proxy(move |client| {
        let (acceptor, log) = (acceptor.clone(), log.clone());
        async move { tunnel(acceptor.accept(client).await.unwrap(), to, log).await }
    });
    let env = Environment::of(&[("https_proxy", &format!("https://{}", address.await))]);
    get(&connect(&flags(&server), &env).await.unwrap(), "/version").await.unwrap();
    assert_eq!(*asked.lock().unwrap(), ["CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n"]);
}

#[tokio::test]
async fn r39_plain_http_is_sent_to_an_http_proxy_with_the_whole_address() {
    let asked = Asked::default();
    let log = asked.clone();
    let address = proxy(move |mut client| {
        let log = log.clone();
        async move {
            let request = head(&mut client).await;
            log.lock().unwrap().push(request);
            client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await.unwrap();
        }
    });
    let env = Environment::of(&[("HTTP_PROXY", &format!("http://me:pw@{}", address.await))]);
    let flags = ConnectionFlags { server: Some("api.test:8080".into()), ..ConnectionFlags::default() };
    get(&connect(&flags, &env).await.unwrap(), "/version").await.unwrap();
    let asked = asked.lock().unwrap()[0].to_lowercase();
    assert!(asked.starts_with("get http://api.test:8080/version http/1.1\r\n"), "{asked}");
    assert!(asked.contains("\r\nhost: api.test:8080\r\n"), "{asked}");
    assert!(asked.contains("\r\nproxy-authorization: basic bwu6chc=\r\n"), "{asked}");
}

#[tokio::test]
async fn r39_a_socks_proxy_looks_the_name_up() {
    let server = Server::start(BOTH, json("{}")).await;
    let (asked, to) = (Asked::default(), server.address);
    let log = asked.clone();
    let address = proxy(move |mut client| {
        let log = log.clone();
        async move {
            // Version, one method: none. Then version, connect, reserved, a name.
            let mut greeting = [0; 3];
            client.read_exact(&mut greeting).await.unwrap();
            assert_eq!(greeting, [5, 1, 0]);
            client.write_all(&[5, 0]).await.unwrap();
            let mut start = [0; 5];
            client.read_exact(&mut start).await.unwrap();
            assert_eq!(start[..4], [5, 1, 0, 3]);
            let mut name = vec![0; usize::from(start[4])];
            client.read_exact(&mut name).await.unwrap();
            let port = client.read_u16().await.unwrap();
            log.lock().unwrap().push(format!("{}:{port}", String::from_utf8(name).unwrap()));
            client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
            let mut server = TcpStream::connect(to).await.unwrap();
            let _ = copy_bidirectional(&mut client, &mut server).await;
        }
    });
    let config = server.kubeconfig("{token: planted}");
    let text = std::fs::read_to_string(&config).unwrap();
    let with_proxy = text.replace("{server:", &format!("{{proxy-url: 'socks5://{}', server:", address.await));
    std::fs::write(&config, with_proxy).unwrap();
    let flags = ConnectionFlags {
        kubeconfig: config.to_str().map(str::to_owned),
        server: Some("https://api.test".into()),
        ..ConnectionFlags::default()
    };
    let connection = connect(&flags, &Environment::of(&[])).await.unwrap();
    get(&connection, "/version").await.unwrap();
    assert_eq!(*asked.lock().unwrap(), ["api.test:443"]);
}

#[tokio::test]
async fn r39_a_proxy_that_refuses_is_named() {
    let server = Server::start(BOTH, json("{}")).await;
    let refuse = |answer: &'static [u8]| {
        proxy(move |mut client| {
            async move {
                head(&mut client).await;
                let _ = client.write_all(answer).await;
            }
            .boxed()
        })
    };
    for (answer, part) in [
        (&b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"[..], "authorization required"),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", "unsuccessful"),
        (b"", "unexpected end of file"),
    ] {
        let address = refuse(answer).await;
        let env = Environment::of(&[("HTTPS_PROXY", &format!("http://me:planted@{address}"))]);
        let connection = connect(&flags(&server), &env).await.unwrap();
        let diagnosis = classify(&get(&connection, "/version").await.unwrap_err());
        assert!(diagnosis.cause.contains(part), "{diagnosis:?}");
        assert!(
            diagnosis.cause.contains(&format!("https://api.test through the proxy http://{address}")),
            "{diagnosis:?}"
        );
        assert!(diagnosis.next.unwrap().contains("HTTPS_PROXY"));
        assert!(!diagnosis.cause.contains("planted"));
    }
    for scheme in ["http", "socks5"] {
        let env = Environment::of(&[("HTTPS_PROXY", &format!("{scheme}://127.0.0.1:1"))]);
        let connection = connect(&flags(&server), &env).await.unwrap();
        let diagnosis = classify(&get(&connection, "/version").await.unwrap_err());
        assert!(diagnosis.cause.contains("through the proxy") && diagnosis.cause.contains("refused"), "{diagnosis:?}");
    }
}
