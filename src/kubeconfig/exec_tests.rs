//! Exec plugins, played by shell scripts.
#![cfg(unix)]

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use bytes::Bytes;
use futures::future::try_join_all;
use http::{Request, Response, StatusCode};
use http_body_util::Full;

use super::Error;
use super::test_server::{Handler, Server, get, json};

const ALPN: &[&str] = &["h2", "http/1.1"];
const API: &str = "client.authentication.k8s.io/v1";

/// A server beside which a plugin lies. The script can count its runs in `$n`.
async fn server_with(handler: Handler, script: &str) -> Server {
    let server = Server::start(ALPN, handler).await;
    let path = server.directory.path().join("login");
    let count = "cd \"$(dirname \"$0\")\"; echo run >> runs; n=$(wc -l < runs | tr -d ' ')";
    std::fs::write(&path, format!("#!/bin/sh\n{count}\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    server
}

fn file(server: &Server, name: &str) -> String {
    std::fs::read_to_string(server.directory.path().join(name)).unwrap_or_default()
}

fn runs(server: &Server) -> usize {
    file(server, "runs").lines().count()
}

/// A user entry with the plugin and more fields.
fn user(more: &str) -> String {
    format!("{{exec: {{apiVersion: {API}, command: ./login, interactiveMode: IfAvailable, {more}}}}}")
}

/// A shell command that prints a credential with this status.
fn print(status: &str) -> String {
    format!("cat <<END\n{{\"apiVersion\": \"{API}\", \"kind\": \"ExecCredential\", \"status\": {status}}}\nEND")
}

/// What an API server says to someone whom it does not know.
fn unauthorized() -> Response<Full<Bytes>> {
    let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401}"#;
    let mut response = Response::new(Full::from(status));
    *response.status_mut() = StatusCode::UNAUTHORIZED;
    response
}

/// Answers 401 to all but this token.
fn only(token: &'static str) -> Handler {
    Arc::new(move |request| {
        let good = request.headers().get("authorization").is_some_and(|it| it == format!("Bearer {token}").as_str());
        Box::pin(async move { if good { Response::new(Full::from("{}")) } else { unauthorized() } })
    })
}

#[tokio::test]
async fn r39_a_plugin_runs_once_a_client() {
    let server = server_with(json("{}"), &print("{\"token\": \"t-$n\"}")).await;
    let connection = server.connect(&user("")).await;
    try_join_all((0..20).map(|_| get(&connection, "/version"))).await.unwrap();
    assert_eq!(runs(&server), 1);
    assert!(server.header("authorization").iter().all(|it| it.as_deref() == Some("Bearer t-1")));
}

#[tokio::test]
async fn r39_a_plugin_runs_again_when_its_token_has_expired() {
    let script = format!(
        "year=2000; [ $n -gt 1 ] && year=2999\n{}",
        print("{\"token\": \"t-$n\", \"expirationTimestamp\": \"$year-01-01T00:00:00Z\"}")
    );
    let server = server_with(json("{}"), &script).await;
    let connection = server.connect(&user("")).await;
    try_join_all((0..5).map(|_| get(&connection, "/version"))).await.unwrap();
    assert_eq!(runs(&server), 2);
    assert!(server.header("authorization").iter().all(|it| it.as_deref() == Some("Bearer t-2")));
}

#[tokio::test]
async fn r39_a_401_renews_the_token_once_and_sends_the_request_again() {
    let server = server_with(only("t-2"), &print("{\"token\": \"t-$n\"}")).await;
    let connection = server.connect(&user("")).await;
    let create = Request::post("/api/v1/namespaces").body(b"{\"kind\":\"Namespace\"}".to_vec()).unwrap();
    connection.client.request::<serde_json::Value>(create).await.unwrap();
    assert_eq!(runs(&server), 2);
    assert_eq!(server.header("content-length"), [Some("20".to_owned()), Some("20".to_owned())]);

    let server = server_with(only("t-99"), &print("{\"token\": \"t-$n\"}")).await;
    let connection = server.connect(&user("")).await;
    let error = get(&connection, "/version").await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.code == 401));
    assert_eq!((runs(&server), server.header("authorization").len()), (2, 2));
}

#[tokio::test]
async fn r39_without_a_terminal_a_plugin_gets_no_stdin_and_is_told_so() {
    let script = format!("cat > stdin; echo \"$KUBERNETES_EXEC_INFO\" > info\n{}", print("{\"token\": \"t\"}"));
    let server = server_with(json("{}"), &script).await;
    server.connect(&user("")).await;
    assert_eq!(file(&server, "stdin"), "");
    let info: serde_json::Value = serde_json::from_str(&file(&server, "info")).unwrap();
    let expected = serde_json::json!({"apiVersion": API, "kind": "ExecCredential", "spec": {"interactive": false}});
    assert_eq!(info, expected);

    let always = user("").replace("IfAvailable", "Always");
    let error = server.refused(&always).await.to_string();
    assert!(error.contains("not a terminal") && error.contains("user \"me\""), "{error}");
    assert_eq!(runs(&server), 1, "a plugin that must ask is not started");
}

#[tokio::test]
async fn r39_a_plugin_gets_its_arguments_environment_and_the_cluster() {
    let script =
        format!("echo \"$1-$COLOUR\" > told; echo \"$KUBERNETES_EXEC_INFO\" > info\n{}", print("{\"token\": \"t\"}"));
    let server = server_with(json("{}"), &script).await;
    server.connect(&user("args: [one], env: [{name: COLOUR, value: red}], provideClusterInfo: true")).await;
    assert_eq!(file(&server, "told"), "one-red\n");
    let info: serde_json::Value = serde_json::from_str(&file(&server, "info")).unwrap();
    let cluster = &info["spec"]["cluster"];
    assert_eq!(cluster["server"], format!("https://{}", server.address));
    let ca = base64::engine::general_purpose::STANDARD.decode(cluster["certificate-authority-data"].as_str().unwrap());
    assert_eq!(String::from_utf8(ca.unwrap()).unwrap(), server.pki.ca_pem());
}

#[tokio::test]
async fn r39_a_plugin_that_fails_is_named_with_what_it_said() {
    let server = server_with(json("{}"), "echo 'session expired: run login' >&2; exit 3").await;
    let error = server.refused(&user("")).await;
    assert!(error.is_unauthenticated());
    let text = error.to_string();
    for part in ["user \"me\"", "login", "exit status: 3", "session expired: run login"] {
        assert!(text.contains(part), "{text} lacks {part}");
    }
    let missing = user("installHint: 'get it at example.test'").replace("./login", "./no-such-plugin");
    let text = server.refused(&missing).await.to_string();
    assert!(text.contains("no-such-plugin") && text.contains("not installed; get it at example.test"), "{text}");
}

#[tokio::test]
async fn r39_what_a_plugin_prints_is_checked_and_never_quoted() {
    let other = print("{\"token\": \"planted\"}").replace(API, "client.authentication.k8s.io/v1beta1");
    for (script, part) in [
        ("echo planted: [", "no ExecCredential"),
        ("echo planted", "no ExecCredential"),
        ("echo 'token: planted'", "it has neither kind nor apiVersion"),
        (other.as_str(), "v1beta1"),
        (&print("null"), "no status"),
        (&print("{}"), "neither"),
        (&print("{\"token\": \"\"}"), "neither"),
        (&print("{\"clientKeyData\": \"planted\"}"), "only one"),
        (&print("{\"clientKeyData\": \"planted\", \"clientCertificateData\": \"planted\"}"), "no certificate"),
        (&print("{\"token\": \"planted\\nX: y\"}"), "header"),
        (&print("{\"token\": \"planted\", \"expirationTimestamp\": \"soon\"}"), "expirationTimestamp"),
    ] {
        let server = server_with(json("{}"), script).await;
        let error = server.refused(&user("")).await;
        assert!(error.to_string().contains(part), "{script}: {error}");
        assert!(!format!("{error} {error:?}").contains("planted"), "{error}");
    }
}

#[tokio::test]
async fn r39_an_entry_that_kubectl_refuses_is_refused() {
    let server = server_with(json("{}"), &print("{\"token\": \"t\"}")).await;
    for (exec, part) in [
        ("{exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}}", "no command"),
        ("{exec: {apiVersion: client.authentication.k8s.io/v1, command: x}}", "interactiveMode"),
        ("{exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}}", "v1alpha1"),
        ("{exec: {command: x}}", "apiVersion"),
        (
            "{exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: x}, auth-provider: {name: oidc}}",
            "exclude",
        ),
    ] {
        let error = server.refused(exec).await;
        assert!(matches!(error, Error::InvalidEntry { .. }) && error.to_string().contains(part), "{exec}: {error}");
    }
    assert_eq!(runs(&server), 0);
}

#[tokio::test]
async fn r39_a_plugins_certificate_is_presented_and_a_new_one_opens_a_new_connection() {
    let script = "printf '{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": \"ExecCredential\", '
        printf '\"status\": {\"clientCertificateData\": \"%s\", \"clientKeyData\": \"%s\"}}' \"$(cat $n.crt)\" \"$(cat $n.key)\"";
    let requests = AtomicUsize::new(0);
    // The certificate that the first two requests came with is not good any more.
    let handler: Handler = Arc::new(move |_| {
        let number = requests.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { if number == 1 { unauthorized() } else { Response::new(Full::from("{}")) } })
    });
    let server = server_with(handler, script).await;
    for number in ["1", "2"] {
        let (certificate, key) = server.pki.issue(&["plugin.test"]);
        let directory = server.directory.path();
        std::fs::write(directory.join(format!("{number}.crt")), certificate.replace('\n', "\\n")).unwrap();
        std::fs::write(directory.join(format!("{number}.key")), key.replace('\n', "\\n")).unwrap();
    }
    let connection = server.connect(&user("")).await;
    for _ in 0..3 {
        get(&connection, "/version").await.unwrap();
    }
    let clients = server.clients.lock().unwrap().clone();
    assert_eq!((runs(&server), clients.len()), (2, 2));
    assert!(clients[0].is_some() && clients[1].is_some() && clients[0] != clients[1]);
}
