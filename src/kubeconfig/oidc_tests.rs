//! The `oidc` auth-provider against an identity provider that is the API server as well.

use std::sync::{Arc, Mutex, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::FutureExt as _;
use futures::future::try_join_all;
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, Full};

use super::test_server::{Handler, Server, get};

const LONG_AGO: &str = "946684800";
const LATER: &str = "32503680000.5";

fn jwt(expiry: &str, mark: &str) -> String {
    let part = |text: String| URL_SAFE_NO_PAD.encode(text);
    let payload = part(format!("{{\"exp\": {expiry}, \"mark\": \"{mark}\"}}"));
    format!("{}.{payload}.sig", part("{}".into()))
}

/// A provider that wants the client's secret in the form and gives an ID token of `answer`.
struct Idp {
    server: Server,
    forms: Arc<Mutex<Vec<String>>>,
}

impl Idp {
    async fn start(answer: &str) -> Self {
        let (forms, address) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<OnceLock<String>>::default());
        let (log, own, answer) = (forms.clone(), address.clone(), answer.to_owned());
        let handler: Handler = Arc::new(move |request| {
            let (log, own, answer) = (log.clone(), own.clone(), answer.clone());
            async move {
                let text = match request.uri().path() {
                    "/idp/.well-known/openid-configuration" => {
                        format!("{{\"token_endpoint\": \"https://{}/idp/token\"}}", own.get().unwrap())
                    }
                    "/idp/token" => {
                        let form = request.into_body().collect().await.unwrap().to_bytes();
                        let form = String::from_utf8(form.to_vec()).unwrap();
                        let known = form.contains("client_id=");
                        log.lock().unwrap().push(form);
                        if !known {
                            let mut refused = Response::new(Full::from("{\"error\": \"invalid_client\"}"));
                            *refused.status_mut() = StatusCode::UNAUTHORIZED;
                            return refused;
                        }
                        answer
                    }
                    _ => "{}".to_owned(),
                };
                Response::new(Full::from(text))
            }
            .boxed()
        });
        let server = Server::start(&["h2", "http/1.1"], handler).await;
        address.set(server.address.to_string()).unwrap();
        Self { server, forms }
    }

    fn user(&self, more: &str) -> String {
        let ca = self.server.directory.path().join("ca.crt");
        format!(
            "{{auth-provider: {{name: oidc, config: {{idp-issuer-url: 'https://{}/idp/', client-id: me,
              client-secret: 's=1', idp-certificate-authority: '{}', {more}}}}}}}",
            self.server.address,
            ca.display()
        )
    }

    fn tokens(&self) -> Vec<String> {
        let sent = self.server.header("authorization").into_iter().flatten();
        sent.filter(|header| header.starts_with("Bearer")).collect()
    }
}

#[tokio::test]
async fn r39_a_valid_id_token_is_sent_as_it_is() {
    let idp = Idp::start("{}").await;
    let token = jwt(LATER, "kept");
    let connection = idp.server.connect(&idp.user(&format!("id-token: {token}"))).await;
    get(&connection, "/version").await.unwrap();
    assert_eq!(idp.tokens(), [format!("Bearer {token}")]);
    assert!(idp.forms.lock().unwrap().is_empty());
}

#[tokio::test]
async fn r39_an_expired_id_token_is_renewed_once_for_all_requests() {
    let fresh = jwt(LATER, "fresh");
    let idp = Idp::start(&format!("{{\"id_token\": \"{fresh}\", \"refresh_token\": \"r2\"}}")).await;
    let user = idp.user(&format!("id-token: {}, refresh-token: 'r&1'", jwt(LONG_AGO, "old")));
    let connection = idp.server.connect(&user).await;
    try_join_all((0..5).map(|_| get(&connection, "/version"))).await.unwrap();
    assert_eq!(idp.tokens(), vec![format!("Bearer {fresh}"); 5]);
    let forms = idp.forms.lock().unwrap();
    let first = "grant_type=refresh_token&refresh_token=r%261";
    assert_eq!(*forms, [first.to_owned(), format!("{first}&client_id=me&client_secret=s%3D1")]);
    let kubeconfig = std::fs::read_to_string(idp.server.directory.path().join("config")).unwrap();
    assert!(!kubeconfig.contains(&fresh), "kubeconfig files are not written to");
}

#[tokio::test]
async fn r42_a_provider_that_is_away_is_unreachable_and_one_that_refuses_is_not() {
    let unavailable: Handler = Arc::new(|_| {
        let mut answer = Response::new(Full::from("planted"));
        *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        async { answer }.boxed()
    });
    let server = Server::start(&["h2", "http/1.1"], unavailable).await;
    let user = |issuer: &str| {
        format!(
            "{{auth-provider: {{name: oidc, config: {{idp-issuer-url: '{issuer}', client-id: me, refresh-token: r,
                  idp-certificate-authority: '{}'}}}}}}",
            server.directory.path().join("ca.crt").display()
        )
    };
    for (issuer, part) in [("https://127.0.0.1:1", "refused"), (&format!("https://{}", server.address), "503")] {
        let error = server.refused(&user(issuer)).await;
        assert!(error.is_unreachable() && !error.is_unauthenticated(), "{error}");
        assert!(error.to_string().contains(part) && !error.to_string().contains("planted"), "{error}");
    }
    let refuses = Idp::start("{}").await;
    let error = refuses.server.refused(&refuses.user("refresh-token: r")).await;
    assert!(error.is_unauthenticated() && !error.is_unreachable(), "{error}");
}

#[tokio::test]
async fn r39_what_oidc_cannot_do_is_said_by_name_without_tokens() {
    let idp = Idp::start("{\"planted\": 1}").await;
    let old = format!("id-token: {}", jwt(LONG_AGO, "old"));
    for (more, part) in [
        (old.as_str(), "no refresh-token"),
        ("id-token: planted", "not a JWT"),
        ("id-token: planted.planted.planted", "not a JWT"),
        ("refresh-token: planted", "no id_token"),
        ("refresh-token: planted, client-id: ''", "client-id is missing"),
        ("idp-certificate-authority-data: planted!", "idp-certificate-authority-data is not base64"),
    ] {
        let user = idp.user(more);
        let user = if more.contains("client-id") { user.replace("client-id: me,", "") } else { user };
        let text = idp.server.refused(&user).await.to_string();
        assert!(text.contains(part) && text.contains("user \"me\""), "{more}: {text}");
        assert!(!text.contains("planted"), "{text}");
    }
}
