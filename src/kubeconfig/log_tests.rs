//! What `-v` shows.
#![cfg(feature = "cli")]

use std::fmt::Debug;
use std::sync::{Arc, Mutex, OnceLock};

use http::Request;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use super::test_server::{Server, json};
use super::{ConnectionFlags, Environment, connect};

type Events = Arc<Mutex<Vec<(Level, String)>>>;

/// Keeps the events of the whole process: tracing cannot be relied upon to tell the threads of tests apart.
struct Keep(Events);

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, _: &Field, value: &dyn Debug) {
        self.0 = format!("{value:?}");
    }
}

impl<S: Subscriber> Layer<S> for Keep {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.lock().unwrap().push((*event.metadata().level(), message.0));
    }
}

fn events() -> &'static Events {
    static EVENTS: OnceLock<Events> = OnceLock::new();
    EVENTS.get_or_init(|| {
        let events = Events::default();
        let subscriber = tracing_subscriber::registry().with(Keep(events.clone()));
        let own = Targets::new().with_target("kubectl_aicr", Level::TRACE);
        let subscriber = subscriber.with(own);
        tracing::subscriber::set_global_default(subscriber).unwrap();
        events
    })
}

#[tokio::test]
async fn r43_the_log_shows_requests_as_kubectl_does_and_no_credential_or_body() {
    events();
    let server = Server::start(&["h2"], json(r#"{"data": "planted-answer"}"#)).await;
    let kubeconfig = server.kubeconfig("{token: planted-token}").to_str().map(str::to_owned);
    let flags = ConnectionFlags { kubeconfig, impersonate: Some("jane".into()), ..ConnectionFlags::default() };
    let connection = connect(&flags, &Environment::of(&[])).await.unwrap();
    let request = Request::post("/api/v1/configmaps?timeout=5s").body(b"planted-body".to_vec()).unwrap();
    connection.client.request::<serde_json::Value>(request).await.unwrap();

    let address = server.address.to_string();
    let own = |wanted: Level| -> Vec<String> {
        let events = events().lock().unwrap();
        let own = events.iter().filter(|(level, text)| *level == wanted && text.contains(&address));
        own.map(|(_, text)| text.clone()).collect()
    };
    let what = format!("POST https://{address}/api/v1/configmaps?timeout=5s");
    let info = own(Level::INFO);
    assert!(info.len() == 1 && info[0].starts_with(&format!("{what} 200 OK in ")), "{info:?}");
    let debug = own(Level::DEBUG).concat();
    for part in [&format!("{what} with 12 bytes\n"), "authorization: Bearer <masked>", "impersonate-user: jane"] {
        assert!(debug.contains(part), "{debug} lacks {part}");
    }
    let trace = own(Level::TRACE).concat();
    for part in ["with HTTP/2", "content-length: 26", "26 bytes within"] {
        assert!(trace.contains(part), "{trace} lacks {part}");
    }
    let all = events().lock().unwrap();
    assert!(!all.iter().any(|(_, text)| text.contains("planted-")), "{all:?}");
}

#[tokio::test]
async fn r43_a_request_without_answer_is_shown_with_its_cause() {
    events();
    let flags = ConnectionFlags { server: Some("http://127.0.0.1:1/planned".into()), ..ConnectionFlags::default() };
    let connection = connect(&flags, &Environment::of(&[])).await.unwrap();
    let request = Request::get("/version").body(vec![]).unwrap();
    connection.client.request::<serde_json::Value>(request).await.unwrap_err();
    let events = events().lock().unwrap();
    let shown = events.iter().find(|(level, text)| *level == Level::INFO && text.contains("/planned/version"));
    let text = &shown.unwrap().1;
    assert!(text.contains(" failed in ") && text.contains("Connection refused"), "{text}");
}
