//! The `oidc` auth-provider: an ID token, renewed with a refresh token when it has expired.
//!
//! Renewed tokens stay in memory: unlike kubectl, this program does not write to kubeconfig files.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Request, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use jiff::{SignedDuration, Timestamp};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;

use super::credentials::{basic, bearer};
use super::failure::text_of;
use super::material::Place;
use super::proxy::Proxy;
use super::stream::{Connector, connector};
use super::target::{Trust, is_tls};
use super::tls::client_config;
use super::{Environment, Error, Secret};

/// A token that ends sooner is renewed at once: a request takes time.
const LEEWAY: SignedDuration = SignedDuration::from_secs(10);

/// The longest that renewing a token may take.
const LIMIT: Duration = Duration::from_secs(30);

/// What a kubeconfig says about an identity provider.
#[derive(Debug)]
pub(super) struct Provider {
    /// The user entry.
    entry: String,
    issuer: Uri,
    client_id: String,
    client_secret: Secret,
    tokens: Tokens,
    trust: Trust,
}

#[derive(Debug, Clone)]
struct Tokens {
    id: Option<Secret>,
    refresh: Option<Secret>,
}

impl Provider {
    /// Reads the `config` of an auth-provider.
    pub(super) fn read(mut config: BTreeMap<String, Secret>, entry: &str) -> Result<Self, Error> {
        let mut take = |key: &str| config.remove(key).filter(|value| !value.expose().is_empty());
        let place = |what| Place { entry, what };
        let required = |value: Option<Secret>, what| {
            value.map(|it| it.expose().to_owned()).ok_or_else(|| place(what).invalid("is missing"))
        };
        let issuer = required(take("idp-issuer-url"), "idp-issuer-url")?;
        let issuer: Uri = issuer.parse().map_err(|_| place("idp-issuer-url").invalid("is not a URL"))?;
        let client_id = required(take("client-id"), "client-id")?;
        let data = place("idp-certificate-authority-data");
        let file = place("idp-certificate-authority");
        let pem = match (take(data.what), take(file.what)) {
            (Some(text), _) => Some((data, data.decode(text.expose())?)),
            (None, Some(path)) => Some((file, file.read(path.expose())?)),
            (None, None) => None,
        };
        let roots = pem.map(|(place, pem)| place.certificates(&pem)).transpose()?;
        Ok(Self {
            entry: entry.to_owned(),
            issuer,
            client_id,
            client_secret: take("client-secret").unwrap_or_default(),
            tokens: Tokens { id: take("id-token"), refresh: take("refresh-token") },
            trust: Trust { roots, ..Trust::default() },
        })
    }
}

/// A provider and the tokens that it gave last.
pub(super) struct Oidc {
    provider: Provider,
    client: legacy::Client<Connector, Full<Bytes>>,
    tokens: Mutex<Tokens>,
}

impl Oidc {
    pub(super) fn new(mut provider: Provider, env: &Environment) -> Result<Self, Error> {
        let tls = client_config(&mut provider.trust, None)?;
        let proxy = Proxy::choose(None, &provider.entry, &provider.issuer, env)?;
        let connector = connector(&tls, None, proxy.as_ref(), is_tls(&provider.issuer));
        let client = legacy::Client::builder(TokioExecutor::new()).build(connector);
        let tokens = Mutex::new(provider.tokens.clone());
        Ok(Self { provider, client, tokens })
    }

    /// The header for a valid token, renewed if need be.
    pub(super) async fn header(&self) -> Result<HeaderValue, Error> {
        let mut tokens = self.tokens.lock().await;
        let valid = match &tokens.id {
            Some(token) => Timestamp::now() + LEEWAY < self.expiry(token)?,
            None => false,
        };
        if !valid {
            let renewing = tokio::time::timeout(LIMIT, self.renew(tokens.refresh.as_ref()));
            let late = |_| self.away(format_args!("the identity provider gave no answer within {LIMIT:?}"));
            let renewed = renewing.await.map_err(late)??;
            tokens.id = renewed.id_token;
            tokens.refresh = renewed.refresh_token.or(tokens.refresh.take());
        }
        let token = tokens.id.as_ref().map(Secret::expose).unwrap_or_default();
        bearer(token).map_err(|_| self.failed("the id-token cannot be sent in a header"))
    }

    fn failed(&self, problem: impl std::fmt::Display) -> Error {
        Error::Oidc { entry: self.provider.entry.clone(), problem: problem.to_string() }
    }

    fn away(&self, problem: impl std::fmt::Display) -> Error {
        Error::ProviderAway { entry: self.provider.entry.clone(), problem: problem.to_string() }
    }

    /// When a token ends, as it says itself.
    fn expiry(&self, token: &Secret) -> Result<Timestamp, Error> {
        #[derive(Deserialize)]
        struct Claims {
            exp: f64,
        }
        let read = || {
            let payload = token.expose().split('.').nth(1)?;
            let payload = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
            let claims: Claims = serde_json::from_slice(&payload).ok()?;
            Timestamp::UNIX_EPOCH.checked_add(SignedDuration::try_from_secs_f64(claims.exp).ok()?).ok()
        };
        read().ok_or_else(|| self.failed("the id-token is not a JWT with an expiry"))
    }

    /// Asks the provider for new tokens.
    async fn renew(&self, refresh: Option<&Secret>) -> Result<Renewed, Error> {
        let Some(refresh) = refresh else {
            return Err(self.failed("the id-token has expired and there is no refresh-token; log in again"));
        };
        let discovery =
            format!("{}/.well-known/openid-configuration", self.provider.issuer.to_string().trim_end_matches('/'));
        let metadata: Metadata = self.fetch(Request::get(discovery), String::new()).await?;

        // Providers differ in where they want the client's secret; the header is the standard's choice.
        let id = encode(&self.provider.client_id);
        let secret = encode(self.provider.client_secret.expose());
        let form = format!("grant_type=refresh_token&refresh_token={}", encode(refresh.expose()));
        let login = basic(&id, &secret).map_err(|_| self.failed("the client-secret cannot be sent in a header"))?;
        let post = || Request::post(&metadata.token_endpoint).header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let renewed: Renewed = match self.fetch(post().header(AUTHORIZATION, login), form.clone()).await {
            Ok(renewed) => renewed,
            Err(_) => self.fetch(post(), format!("{form}&client_id={id}&client_secret={secret}")).await?,
        };
        if renewed.id_token.is_none() {
            return Err(self.failed("the identity provider gave no id_token; log in with the scope openid"));
        }
        Ok(renewed)
    }

    async fn fetch<T: DeserializeOwned>(&self, request: http::request::Builder, body: String) -> Result<T, Error> {
        let request = request.body(Full::from(body)).map_err(|error| self.failed(error))?;
        let what = request.uri().to_string();
        let broken = |error: &(dyn std::error::Error + 'static)| self.away(format_args!("{what}: {}", text_of(error)));
        let answer = self.client.request(request).await.map_err(|error| broken(&error))?;
        let status = answer.status();
        let body = answer.into_body().collect().await.map_err(|error| broken(&error))?.to_bytes();
        if status.is_server_error() {
            return Err(self.away(format_args!("{what} answered {status}")));
        }
        if !status.is_success() {
            let error =
                serde_json::from_slice::<Refusal>(&body).map(|it| format!(": {}", it.error)).unwrap_or_default();
            return Err(self.failed(format_args!("{what} answered {status}{error}; log in again")));
        }
        // The text of a JSON error could quote a token.
        serde_json::from_slice(&body).map_err(|_| self.failed(format_args!("{what} gave an unexpected answer")))
    }
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

#[derive(Deserialize)]
struct Metadata {
    token_endpoint: String,
}

#[derive(Deserialize)]
struct Renewed {
    id_token: Option<Secret>,
    refresh_token: Option<Secret>,
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
}
