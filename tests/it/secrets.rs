//! Whatever goes wrong, at any verbosity: no token, password, key or document in any output, report or ledger (R43).

use std::{fs, path::Path};

use k8s_openapi::ByteString;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::support::{
    bed::Bed,
    cli::{Home, Outcome},
    kubeconfig::{Credential, User},
    scene::Scene,
};

/// In every kubeconfig below, wherever a secret can stand that does not have to be right.
const PLANTED: &str = "planted-5f2c9e17b40d";

/// Lines of the agent's document.
const DOCUMENT: [&str; 2] = ["KUBELET_EXTRA_ARGS", "source-node"];

/// Fails if a secret stands in what was said, or in a file that the plugin keeps.
fn assert_secret(what: &str, outcome: &Outcome, home: &Home, secrets: &[&str]) {
    let outputs = [outcome.stdout_bytes(), outcome.stderr_bytes()].concat();
    let mut kept = vec![(String::from("the outputs"), String::from_utf8_lossy(&outputs).into_owned())];
    files(&home.state_dir(), &mut kept);
    files(&home.path().join("reports"), &mut kept);
    let encoded = |secret: &str| {
        let bytes = serde_json::to_value(ByteString(secret.as_bytes().to_vec())).unwrap();
        bytes.as_str().unwrap().trim_end_matches('=').to_owned()
    };
    for secret in secrets {
        for form in [(*secret).to_owned(), encoded(secret)] {
            for (place, text) in &kept {
                assert!(!text.contains(&form), "{what}: {secret:?} stands in {place}:\n{text}");
            }
        }
    }
}

fn files(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        found.push((path.display().to_string(), text));
    }
}

fn token_of(user: &User) -> &str {
    match &user.credential {
        Credential::Token(token) => token,
        Credential::Certificate(_) => panic!("a user with a token"),
    }
}

#[tokio::test]
async fn r43_neither_token_nor_document_is_said_however_a_run_ends() {
    let bed = Bed::shared().await;
    let user = bed.user("secretive", &["system:masters"]);
    let secrets = [token_of(&user), DOCUMENT[0], DOCUMENT[1]];
    let scene = Scene::new("secrets").await;
    let home = Home::new().kubeconfig(&bed.kubeconfig(&user, Some(&scene.namespace.name)));
    fs::create_dir(home.path().join("reports")).unwrap();
    home.write("folder/file", "");

    let snapshot =
        |script: &str| format!("snapshot -o out.yaml --report reports/r.json --image registry.test/aicr:{script}");
    let cases: [(String, i32); 17] = [
        (snapshot("success"), 0),
        (snapshot("success") + " --format table", 0),
        (snapshot("success") + " --format json --debug", 0),
        (snapshot("success") + " --no-cleanup", 0),
        (snapshot("fail-3"), 10),
        (snapshot("document_fail"), 10),
        (snapshot("hang") + " --timeout 2s", 5),
        (snapshot("empty-document"), 1),
        (snapshot("missing-key"), 1),
        (snapshot("success") + " --runtime-class none", 3),
        (snapshot("success") + " --run-id UPPER", 2),
        (snapshot("success") + " -o folder", 2),
        (snapshot("success") + " -o cm://kube-system/x --format json", 2),
        ("snapshot --config out.yaml".to_owned(), 2),
        ("orphans -A -o json".to_owned(), 0),
        ("cleanup --yes".to_owned(), 0),
        ("__complete snapshot --service-account-name d".to_owned(), 0),
    ];
    for (line, code) in cases {
        let outcome = home.aicr(line.split(' ')).args(["-v", "9"]).run().await;
        assert_eq!(outcome.status(), Some(code), "{outcome}");
        assert_secret(&line, &outcome, &home, &secrets);
    }
    assert!(home.read("out.yaml").contains(DOCUMENT[0]), "a run that succeeds writes what is looked for");

    // What the test looks for in vain would be found: the log has the requests.
    let logged = home.aicr(["orphans", "-v", "9"]).run().await;
    logged.stderr_has("authorization: Bearer <masked>").stderr_has("GET https://");
    let run = scene.run_id.clone();
    home.aicr(["snapshot", "--run-id", &run, "--image", "registry.test/aicr:success"])
        .run()
        .await
        .stdout_has(DOCUMENT[0]);
    remove_kept(&home).await;
}

/// Takes away what `--no-cleanup` kept.
async fn remove_kept(home: &Home) {
    let kept = home.aicr(["orphans", "-o", "json"]).run().await.stdout_json();
    let runs: std::collections::BTreeSet<&str> =
        kept["items"].as_array().unwrap().iter().filter_map(|item| item["runId"].as_str()).collect();
    home.aicr(["cleanup", "--yes"]).args(runs).run().await;
}

#[tokio::test]
async fn r43_a_client_key_is_never_said() {
    let bed = Bed::shared().await;
    let scene = Scene::new("secret-key").await;
    let (user, other) =
        (bed.user_with_certificate("keyed", Some("system:masters")), bed.user_with_certificate("other", None));
    let Credential::Certificate(mut identity) = user.credential.clone() else { panic!("a certificate") };
    let keys = [&user, &other].map(|user| match &user.credential {
        Credential::Certificate(identity) => identity.key.lines().nth(1).unwrap().to_owned(),
        Credential::Token(_) => panic!("a certificate"),
    });
    let secrets = keys.each_ref().map(String::as_str);
    let image = ["--image", "registry.test/aicr:success", "-o", "out.yaml", "-v", "9"];

    let home = Home::new().kubeconfig(&bed.kubeconfig(&user, Some(&scene.namespace.name)));
    let outcome = home.aicr(["snapshot"]).args(image).run().await;
    assert_secret("a good key", outcome.code(0), &home, &secrets);

    let Credential::Certificate(others) = other.credential else { panic!("a certificate") };
    identity.key = others.key;
    let mixed = User { name: "mixed".to_owned(), credential: Credential::Certificate(identity) };
    let home = Home::new().kubeconfig(&bed.kubeconfig(&mixed, None));
    let outcome = home.aicr(["snapshot"]).args(image).run().await;
    assert_secret("the key of another certificate", outcome.code(2), &home, &secrets);

    let text = bed.kubeconfig(&user, None).replace("client-key-data: ", "client-key-data: '!");
    let home = Home::new().kubeconfig(&text);
    let outcome = home.aicr(["snapshot"]).args(image).run().await;
    assert_secret("a damaged kubeconfig", outcome.code(2), &home, &secrets);
}

/// A kubeconfig that leads to `server` as a user with these fields.
fn file(server: &str, ca: &str, cluster: &Value, user: &Value) -> String {
    let mut of_cluster = json!({ "server": server });
    if !ca.is_empty() {
        of_cluster["certificate-authority-data"] = serde_json::to_value(ByteString(ca.as_bytes().to_vec())).unwrap();
    }
    for (key, value) in cluster.as_object().into_iter().flatten() {
        of_cluster[key] = value.clone();
    }
    let file = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        "clusters": [{ "name": "c", "cluster": of_cluster }],
        "users": [{ "name": "u", "user": user }],
    });
    serde_saphyr::to_string(&file).unwrap()
}

/// A plugin that prints this, and a kubeconfig user that runs it.
fn plugin(home: &Home, script: &str) -> Value {
    let path = home.write_program("plugin", &format!("#!/bin/sh\n{script}\n"));
    json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", "command": path,
        "env": [{ "name": "SECRET", "value": PLANTED }],
    } })
}

#[tokio::test]
async fn r43_no_credential_of_any_kind_is_said_when_a_connection_fails() {
    let bed = Bed::shared().await;
    let nobody = "https://127.0.0.1:1";
    let (server, ca) = (bed.server(), bed.ca_pem());
    let none = &json!({});
    let credential = |status: &str| {
        format!(
            r#"echo '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{status}}}'"#
        )
    };
    let oidc = json!({ "auth-provider": { "name": "oidc", "config": {
        "idp-issuer-url": "http://127.0.0.1:1", "client-id": "id", "client-secret": PLANTED,
        "refresh-token": PLANTED, "id-token": format!("x.eyJleHAiOjF9.{PLANTED}"),
    } } });
    let token = json!({ "token": PLANTED });
    let home = Home::new();
    home.write("token", &format!("{PLANTED}\u{1}"));
    home.write("known", PLANTED);
    let with_proxy = json!({ "proxy-url": format!("http://me:{PLANTED}@127.0.0.1:1") });
    let keyed = bed.user_with_certificate("keyless", None);
    let Credential::Certificate(identity) = keyed.credential else { panic!("a certificate") };
    let certificate = ByteString(identity.certificate.into_bytes());
    let half = json!({ "client-certificate-data": certificate, "client-key-data": ByteString(PLANTED.into()) });
    let good = plugin(&home, &credential(&format!(r#"{{"token":"{PLANTED}"}}"#)));
    let from_cases = vec![
        ("a token that nobody knows", file(server, ca, none, &token), 4),
        ("a server that is away", file(nobody, "", none, &token), 6),
        ("a certificate that nobody vouches for", file(server, "", none, &token), 6),
        ("a password that nobody knows", file(server, ca, none, &json!({ "username": "me", "password": PLANTED })), 4),
        (
            "a password and a token",
            file(server, ca, none, &json!({ "username": "me", "password": PLANTED, "token": PLANTED })),
            2,
        ),
        ("a token that is no header", file(server, ca, none, &json!({ "token": format!("{PLANTED}\u{1}") })), 2),
        ("a token that is a list", file(server, ca, none, &json!({ "token": [PLANTED] })), 2),
        ("a token file that nobody knows", file(server, ca, none, &json!({ "tokenFile": "../known" })), 4),
        ("a token file that is no header", file(server, ca, none, &json!({ "tokenFile": "../token" })), 2),
        ("a key that is none", file(server, ca, none, &half), 2),
        ("a proxy that is away", file(server, ca, &with_proxy, &token), 6),
        (
            "a proxy that is no URL",
            file(server, ca, &json!({ "proxy-url": format!("ftp://me:{PLANTED}@x y") }), &token),
            2,
        ),
        ("a token of a plugin that nobody knows", file(server, ca, none, &good), 4),
        ("a provider that is away", file(server, ca, none, &oidc), 6),
    ];
    for (what, kubeconfig, code) in from_cases {
        check(&home, what, &kubeconfig, &[], code).await;
    }
    for (what, script, code) in [
        ("a plugin that prints no JSON", format!("echo 'token: {PLANTED}'"), 4),
        ("a plugin that prints cut JSON", format!("printf '{{\"status\":{{\"token\":\"{PLANTED}\"'"), 4),
        ("a plugin of another version", credential(&format!(r#"{{"token":"{PLANTED}"}}"#)).replace("/v1", "/v9"), 4),
        ("a plugin whose token is a list", credential(&format!(r#"{{"token":["{PLANTED}"]}}"#)), 4),
        ("a plugin with half a certificate", credential(&format!(r#"{{"clientKeyData":"{PLANTED}"}}"#)), 4),
        ("a plugin that fails", format!("echo {PLANTED}; exit 3"), 4),
    ] {
        let user = plugin(&home, &script);
        check(&home, what, &file(server, ca, none, &user), &[], code).await;
    }
    let broken = file(server, ca, none, &token).replace("token:", " token:\n");
    check(&home, "a kubeconfig that is no YAML", &(broken + "\n  - {"), &[], 2).await;

    let plain = file(server, ca, none, none);
    for (what, flags, code) in [
        ("--token that nobody knows", vec!["--token", PLANTED], 4),
        ("--token before a flag that does not exist", vec!["--token", PLANTED, "--nothing"], 2),
        ("--token twice", vec!["--token", PLANTED, "--token", PLANTED], 4),
        ("--token for a server that is away", vec!["--token", PLANTED, "--server", nobody], 6),
    ] {
        check(&home, what, &plain, &flags, code).await;
    }
}

/// A server that answers whoever connects with this.
async fn answering(response: impl Into<String>) -> String {
    let response = response.into();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            // Who has heard enough may go.
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(response.as_bytes()).await;
        }
    });
    address
}

fn response(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn r43_no_login_of_a_proxy_or_in_an_address_is_said() {
    let home = Home::new();
    let refusing = answering(response("407 Proxy Authentication Required", "{}")).await;
    let gateway = answering(response("200 OK", "{}")).await;
    let through = |proxy: &str| json!({ "proxy-url": format!("http://me:{PLANTED}@{proxy}") });
    let token = json!({ "token": PLANTED });
    let (https, http) = ("https://api.test", "http://api.test");
    for (what, kubeconfig, code) in [
        ("a proxy that refuses a tunnel", file(https, "", &through(&refusing), &token), 6),
        ("a proxy that refuses a request", file(http, "", &through(&refusing), &token), 1),
        ("a proxy that answers itself", file(http, "", &through(&gateway), &token), 6),
        (
            "a server with a login in its address",
            file(&format!("https://me:{PLANTED}@api.test"), "", &json!({}), &token),
            2,
        ),
    ] {
        check(&home, what, &kubeconfig, &[], code).await;
    }
    let login = format!("https://me:{PLANTED}@api.test");
    check(&home, "--server with a login", &file(https, "", &json!({}), &token), &["--server", &login], 2).await;

    let of = |what: &str, address: &str| (what.to_owned(), format!("{what}://me:{PLANTED}@{address}"));
    for ((what, url), server, code) in [
        (of("http", &refusing), https, 6),
        (of("http", &refusing), http, 1),
        (of("http", "127.0.0.1:1"), https, 6),
        (of("https", &refusing), https, 6),
        (of("socks5", &refusing), https, 6),
        (of("ftp", &refusing), https, 2),
    ] {
        home.write(".kube/config", &file(server, "", &json!({}), &token));
        let run = home.aicr(["orphans", "-v", "9"]).env("HTTPS_PROXY", &url).env("HTTP_PROXY", &url).run().await;
        assert_secret(&what, &run, &home, &[PLANTED]);
        assert_eq!(run.status(), Some(code), "{what}:\n{run}");
        if server == http {
            run.stderr_has("proxy-authorization: Basic <masked>");
        }
    }
    home.write(".kube/config", "");
    let run = home.aicr(["orphans", "-v", "9"]).env("KUBERNETES_MASTER", &login).run().await;
    assert_secret("KUBERNETES_MASTER with a login", run.code(2), &home, &[PLANTED]);
}

#[tokio::test]
async fn r43_what_an_identity_provider_gives_is_not_said() {
    let (bed, home) = (Bed::shared().await, Home::new());
    let user = |issuer: &str| {
        json!({ "auth-provider": { "name": "oidc", "config": {
            "idp-issuer-url": issuer, "client-id": "id", "client-secret": PLANTED, "refresh-token": PLANTED,
        } } })
    };
    let given = |id_token: &str| {
        json!({ "token_endpoint": "http://TOKENS", "id_token": id_token, "refresh_token": PLANTED }).to_string()
    };
    // {"exp":4000000000}
    let good = format!("x.eyJleHAiOjQwMDAwMDAwMDB9.{PLANTED}");
    for (what, status, body, code) in [
        ("a token that nobody knows", "200 OK", given(&good), 4),
        ("a token that is no header", "200 OK", given(&format!("{PLANTED}\u{1}")), 4),
        (
            "a token that is a list",
            "200 OK",
            json!({ "token_endpoint": "http://TOKENS", "id_token": [PLANTED] }).to_string(),
            4,
        ),
        ("no JSON", "200 OK", PLANTED.to_owned(), 4),
        ("a refusal in words", "400 Bad Request", PLANTED.to_owned(), 4),
        ("trouble", "503 Service Unavailable", PLANTED.to_owned(), 6),
    ] {
        let tokens = answering(response(status, &body)).await;
        let issuer = answering(response("200 OK", &given("").replace("TOKENS", &tokens))).await;
        let kubeconfig = file(bed.server(), bed.ca_pem(), &json!({}), &user(&format!("http://{issuer}")));
        check(&home, what, &kubeconfig, &[], code).await;
    }
}

async fn check(home: &Home, what: &str, kubeconfig: &str, flags: &[&str], code: i32) {
    home.write(".kube/config", kubeconfig);
    let outcome = home.aicr(["orphans", "-v", "9", "--request-timeout", "5s"]).args(flags).run().await;
    assert_secret(what, &outcome, home, &[PLANTED]);
    assert_eq!(outcome.status(), Some(code), "{what}:\n{outcome}");
}
