//! The `Authorization` header of each request.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{AUTHORIZATION, HeaderValue, InvalidHeaderValue};
use http::{Request, Response, StatusCode};
use kube::client::Body;
use tower::{BoxError, Layer, Service, ServiceExt as _};

use super::exec::ExecPlugin;
use super::oidc::Oidc;
use super::target::Login;
use super::transport::duplicate;
use super::{Environment, Error, Secret};

/// A token file is read again after this long; Kubernetes renews tokens well before they end.
const TOKEN_FILE_AGE: Duration = Duration::from_mins(1);

/// The source of a client's `Authorization` headers.
#[derive(Clone)]
pub(super) struct Credentials(Arc<Source>);

enum Source {
    Anonymous,
    Fixed(HeaderValue),
    File(TokenFile),
    Oidc(Box<Oidc>),
    Exec(Box<ExecPlugin>),
}

/// A token that is renewed on disk.
struct TokenFile {
    path: String,
    /// What to send while the file cannot be read.
    fallback: Option<Secret>,
    last: Mutex<Option<(Instant, HeaderValue)>>,
}

impl Credentials {
    /// Where a login's headers come from.
    pub(super) fn new(login: Login, env: &Environment) -> Result<Self, Error> {
        let source = match login {
            Login::Anonymous => Source::Anonymous,
            Login::Basic { username, password } => {
                Source::Fixed(basic(&username, password.expose()).map_err(|_| Error::Credential)?)
            }
            Login::Token(token) => Source::Fixed(bearer(token.expose()).map_err(|_| Error::Credential)?),
            Login::TokenFile { path, fallback } => Source::File(TokenFile { path, fallback, last: Mutex::new(None) }),
            Login::Oidc(provider) => Source::Oidc(Box::new(Oidc::new(*provider, env)?)),
            Login::Exec(plugin) => Source::Exec(Box::new(ExecPlugin::new(*plugin, env.terminal()))),
        };
        Ok(Self(Arc::new(source)))
    }

    /// The exec plugin, if that is the source.
    pub(super) fn plugin(&self) -> Option<&ExecPlugin> {
        match &*self.0 {
            Source::Exec(plugin) => Some(plugin),
            _ => None,
        }
    }

    /// The header of a request that is made now.
    pub(super) async fn header(&self) -> Result<Option<HeaderValue>, Error> {
        match &*self.0 {
            Source::Anonymous => Ok(None),
            Source::Fixed(header) => Ok(Some(header.clone())),
            Source::File(file) => file.header().map_err(|_| Error::Credential),
            Source::Oidc(oidc) => oidc.header().await.map(Some),
            Source::Exec(plugin) => plugin.current().await.map(|issued| issued.header.clone()),
        }
    }
}

impl TokenFile {
    fn header(&self) -> Result<Option<HeaderValue>, InvalidHeaderValue> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((read, header)) = &*last
            && read.elapsed() < TOKEN_FILE_AGE
        {
            return Ok(Some(header.clone()));
        }
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        if !text.trim().is_empty() {
            let header = bearer(text.trim())?;
            *last = Some((Instant::now(), header.clone()));
            return Ok(Some(header));
        }
        // The last token may still be good.
        if let Some((_, header)) = &*last {
            return Ok(Some(header.clone()));
        }
        self.fallback.as_ref().map(|token| bearer(token.expose())).transpose()
    }
}

/// The header for a name and a password.
pub(super) fn basic(user: &str, password: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    sensitive(&format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
}

/// The header for a token.
pub(super) fn bearer(token: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    sensitive(&format!("Bearer {token}"))
}

fn sensitive(text: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::from_str(text)?;
    value.set_sensitive(true);
    Ok(value)
}

impl<S> Layer<S> for Credentials {
    type Service = Authorize<S>;

    fn layer(&self, inner: S) -> Authorize<S> {
        Authorize { credentials: self.clone(), inner }
    }
}

/// Adds credentials to requests.
#[derive(Clone)]
pub(super) struct Authorize<S> {
    credentials: Credentials,
    inner: S,
}

impl<S, B> Service<Request<Body>> for Authorize<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send,
    B: Send,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let credentials = self.credentials.clone();
        let next = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, next);
        async move {
            let Some(plugin) = credentials.plugin() else {
                set(&mut request, credentials.header().await?);
                return ready.call(request).await;
            };
            let issued = plugin.current().await?;
            let again = duplicate(&request);
            set(&mut request, issued.header.clone());
            let answer = ready.call(request).await?;
            // Who is not authenticated has changed nothing, so that even a create can be sent again.
            let Some(mut again) = again.filter(|_| answer.status() == StatusCode::UNAUTHORIZED) else {
                return Ok(answer);
            };
            let Ok(renewed) = plugin.renew(&issued).await else { return Ok(answer) };
            set(&mut again, renewed.header.clone());
            ready.ready().await?.call(again).await
        }
        .boxed()
    }
}

fn set(request: &mut Request<Body>, header: Option<HeaderValue>) {
    if let Some(header) = header {
        request.headers_mut().insert(AUTHORIZATION, header);
    }
}
