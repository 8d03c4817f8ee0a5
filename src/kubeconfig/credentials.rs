//! The `Authorization` header of each request.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{AUTHORIZATION, HeaderValue, InvalidHeaderValue};
use http::{Request, Response};
use kube::client::Body;
use tower::{BoxError, Layer, Service};

use super::Secret;
use super::target::Login;

/// A token file is read again after this long; Kubernetes renews tokens well before they end.
const TOKEN_FILE_AGE: Duration = Duration::from_mins(1);

/// The source of a client's `Authorization` headers.
#[derive(Clone)]
pub(super) struct Credentials(Arc<Source>);

enum Source {
    Anonymous,
    Fixed(HeaderValue),
    File(TokenFile),
}

/// A token that is renewed on disk.
struct TokenFile {
    path: String,
    /// What to send while the file cannot be read.
    fallback: Option<Secret>,
    last: Mutex<Option<(Instant, HeaderValue)>>,
}

impl Credentials {
    pub(super) fn new(login: Login) -> Result<Self, InvalidHeaderValue> {
        let source = match login {
            Login::Basic { username, password } => {
                let pair = format!("{username}:{}", password.expose());
                Source::Fixed(sensitive(&format!("Basic {}", STANDARD.encode(pair)))?)
            }
            Login::Token { token, file: Some(path) } => {
                Source::File(TokenFile { path, fallback: token, last: Mutex::new(None) })
            }
            Login::Token { token: Some(token), file: None } => {
                Source::Fixed(sensitive(&format!("Bearer {}", token.expose()))?)
            }
            _ => Source::Anonymous,
        };
        Ok(Self(Arc::new(source)))
    }

    async fn header(&self) -> Result<Option<HeaderValue>, BoxError> {
        Ok(match &*self.0 {
            Source::Anonymous => None,
            Source::Fixed(header) => Some(header.clone()),
            Source::File(file) => file.header()?,
        })
    }
}

impl TokenFile {
    fn header(&self) -> Result<Option<HeaderValue>, BoxError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((read, header)) = &*last
            && read.elapsed() < TOKEN_FILE_AGE
        {
            return Ok(Some(header.clone()));
        }
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        if !text.trim().is_empty() {
            let header = sensitive(&format!("Bearer {}", text.trim()))?;
            *last = Some((Instant::now(), header.clone()));
            return Ok(Some(header));
        }
        // The last token may still be good.
        if let Some((_, header)) = &*last {
            return Ok(Some(header.clone()));
        }
        let fallback = self.fallback.as_ref();
        Ok(fallback.map(|token| sensitive(&format!("Bearer {}", token.expose()))).transpose()?)
    }
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
            if let Some(header) = credentials.header().await? {
                request.headers_mut().insert(AUTHORIZATION, header);
            }
            ready.call(request).await
        }
        .boxed()
    }
}
