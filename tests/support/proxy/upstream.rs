//! The way from the proxy to the API server.

use bytes::Bytes;
use http::header::{self, HeaderName};
use http::request::Parts;
use http::{HeaderMap, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::TokioExecutor;
use rustls::ClientConfig;

/// Headers that speak of one connection only.
const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    header::HOST,
    HeaderName::from_static("keep-alive"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// One HTTP/2 connection to the API server, shared by all requests.
pub(super) struct Upstream {
    base: Uri,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Upstream {
    pub(super) fn new(url: &str, tls: ClientConfig) -> Self {
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_only().enable_http2().build();
        Self {
            base: url.parse().unwrap(),
            client: Client::builder(TokioExecutor::new()).http2_only(true).build(connector),
        }
    }

    pub(super) async fn send(&self, parts: &Parts, body: Bytes) -> Result<Response<Incoming>, Error> {
        let path = parts.uri.path_and_query().unwrap().as_str();
        let uri = Uri::builder()
            .scheme("https")
            .authority(self.base.authority().unwrap().as_str())
            .path_and_query(path)
            .build()
            .unwrap();
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = parts.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = end_to_end(&parts.headers);
        self.client.request(request).await
    }
}

/// The headers that pass through a proxy.
pub(super) fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
    headers
}
