//! Users of a test cluster and kubeconfig files for them.

use k8s_openapi::ByteString;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

use super::pki::Identity;

/// Somebody whom the API server knows.
#[derive(Clone, Debug)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) credential: Credential,
}

/// How a user proves who they are.
#[derive(Clone, Debug)]
pub(crate) enum Credential {
    Certificate(Identity),
    Token(String),
}

impl User {
    /// A user by bearer token; the name is that in kubeconfig files.
    pub(crate) fn with_token(name: &str, token: &str) -> Self {
        Self { name: name.to_owned(), credential: Credential::Token(token.to_owned()) }
    }
}

/// A kubeconfig file whose one context `test` leads to `server` as `user`.
pub(crate) fn kubeconfig(server: &str, ca: &str, user: &User, namespace: Option<&str>) -> String {
    let credential = match &user.credential {
        Credential::Certificate(identity) => json!({
            "client-certificate-data": base64(&identity.certificate),
            "client-key-data": base64(&identity.key),
        }),
        Credential::Token(token) => json!({ "token": token }),
    };
    let mut context = json!({ "cluster": "test", "user": user.name });
    if let Some(namespace) = namespace {
        context["namespace"] = namespace.into();
    }
    let file = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{ "name": "test", "context": context }],
        "clusters": [{
            "name": "test",
            "cluster": { "server": server, "certificate-authority-data": base64(ca) },
        }],
        "users": [{ "name": user.name, "user": credential }],
    });
    serde_saphyr::to_string(&file).expect("a kubeconfig file is plain data")
}

fn base64(text: &str) -> Value {
    serde_json::to_value(ByteString(text.as_bytes().to_vec())).expect("bytes can be encoded")
}

/// A client of what a kubeconfig file names. It lives on the current runtime.
pub(crate) async fn client(text: &str) -> Client {
    client_that_repeats(text, true).await
}

/// A client that shows every answer as it is: kube's own repeats on 429, 503 and 504, for hours if need be.
pub(crate) async fn literal_client(text: &str) -> Client {
    client_that_repeats(text, false).await
}

async fn client_that_repeats(text: &str, repeats: bool) -> Client {
    let file = Kubeconfig::from_yaml(text).expect("a valid kubeconfig");
    let mut config =
        Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.expect("a complete kubeconfig");
    config.default_retry = repeats;
    Client::try_from(config).expect("a client")
}
