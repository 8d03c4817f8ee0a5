//! What `-v` shows.

use std::io::Write;
use std::sync::{Arc, Mutex};

use http::Request;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;

use super::test_server::{Server, json};
use super::{ConnectionFlags, Environment, connect};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The log of one create at a level, and the server's address.
async fn logged(level: LevelFilter) -> (String, String) {
    let server = Server::start(&["h2"], json(r#"{"data": "planted-answer"}"#)).await;
    let kubeconfig = server.kubeconfig("{token: planted-token}").to_str().map(str::to_owned);
    let flags = ConnectionFlags { kubeconfig, impersonate: Some("jane".into()), ..ConnectionFlags::default() };
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::registry()
        .with(tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || writer.clone()))
        .with(Targets::new().with_target("kubectl_aicr", level));
    let guard = tracing::subscriber::set_default(subscriber);
    let connection = connect(&flags, &Environment::of(&[])).await.unwrap();
    let request = Request::post("/api/v1/configmaps?timeout=5s").body(b"planted-body".to_vec()).unwrap();
    connection.client.request::<serde_json::Value>(request).await.unwrap();
    drop(guard);
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert!(!text.contains("planted"), "{text}");
    (text, format!("https://{}", server.address))
}

#[tokio::test]
async fn r43_level_6_shows_method_url_status_and_time() {
    let (text, server) = logged(LevelFilter::INFO).await;
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains(&format!("POST {server}/api/v1/configmaps?timeout=5s 200 OK in ")), "{text}");
}

#[tokio::test]
async fn r43_level_7_shows_headers_with_credentials_masked() {
    let (text, _) = logged(LevelFilter::DEBUG).await;
    for line in
        ["authorization: Bearer <masked>", "impersonate-user: jane", "user-agent: kubectl-aicr/", "with 12 bytes"]
    {
        assert!(text.contains(line), "{text} lacks {line}");
    }
    assert!(!text.contains("content-length: 26"), "{text}");
}

#[tokio::test]
async fn r43_level_8_shows_what_comes_back_but_no_body() {
    let (text, server) = logged(LevelFilter::TRACE).await;
    for line in [&format!("connected to {server} with HTTP/2"), "content-length: 26", "26 bytes within"] {
        assert!(text.contains(line), "{text} lacks {line}");
    }
}
