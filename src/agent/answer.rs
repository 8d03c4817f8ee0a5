//! Reading what the API server answers. A body is held once, where kube's own calls hold it three times for a moment.

use http::{Request, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use serde::de::DeserializeOwned;

/// The largest body for which room is made because the server announces it: the largest object that there can be.
const ANNOUNCED: usize = 3 * 1024 * 1024;

/// Sends a request and reads the object that answers it.
pub(super) async fn object<T>(client: &Client, request: Request<Vec<u8>>) -> Result<T, kube::Error>
where
    T: DeserializeOwned,
{
    let mut body = Vec::new();
    read(client, request, &mut body).await?;
    serde_json::from_slice(&body).map_err(kube::Error::SerdeError)
}

/// Sends a request and reads the body that answers it, unless it is a refusal, in place of what is in `body`.
pub(super) async fn read(client: &Client, request: Request<Vec<u8>>, body: &mut Vec<u8>) -> Result<(), kube::Error> {
    let (head, mut frames) = client.send(request.map(Body::from)).await?.into_parts();
    let announced = usize::try_from(frames.size_hint().lower()).unwrap_or(ANNOUNCED);
    body.clear();
    body.reserve(announced.min(ANNOUNCED));
    while let Some(frame) = frames.frame().await {
        if let Ok(data) = frame?.into_data() {
            body.extend_from_slice(&data);
        }
    }
    if head.status.is_client_error() || head.status.is_server_error() {
        return Err(kube::Error::Api(Box::new(refusal(head.status, body))));
    }
    Ok(())
}

/// The server's own words. What stands in front of it, or has no such path, may answer with any text.
fn refusal(status: StatusCode, body: &[u8]) -> Status {
    serde_json::from_slice(body).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(body);
        Status::failure(text.trim(), "Failed to parse error data").with_code(status.as_u16())
    })
}
