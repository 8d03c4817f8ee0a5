//! Reading what the API server answers. A body is held once, where kube's own calls hold it three times for a moment.

use http::{Request, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use serde::de::DeserializeOwned;

use crate::agent::items::Items;

/// The most for which room is made because the server announces it: the largest object that there can be.
const ANNOUNCED: usize = 3 * 1024 * 1024;

/// Sends a request and reads the object that answers it.
pub(super) async fn object<T>(client: &Client, request: Request<Vec<u8>>) -> Result<T, kube::Error>
where
    T: DeserializeOwned,
{
    let body = body(client, request).await?;
    serde_json::from_slice(&body).map_err(kube::Error::SerdeError)
}

/// Sends a request and gives the body that answers it.
pub(super) async fn body(client: &Client, request: Request<Vec<u8>>) -> Result<Vec<u8>, kube::Error> {
    whole(answer(client, request).await?).await
}

/// Sends a request, gives each item of the list that answers it to `take`, and returns what the list is beside them.
pub(super) async fn list<T>(
    client: &Client,
    request: Request<Vec<u8>>,
    mut take: impl FnMut(&[u8]) -> Result<(), serde_json::Error>,
) -> Result<T, kube::Error>
where
    T: DeserializeOwned,
{
    let (mut body, mut items) = (answer(client, request).await?, Items::default());
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            items.feed(&data, &mut take).map_err(kube::Error::SerdeError)?;
        }
    }
    serde_json::from_slice(&items.into_rest()).map_err(kube::Error::SerdeError)
}

/// Sends a request. The answer is no refusal.
async fn answer(client: &Client, request: Request<Vec<u8>>) -> Result<Body, kube::Error> {
    let (head, body) = client.send(request.map(Body::from)).await?.into_parts();
    if head.status.is_client_error() || head.status.is_server_error() {
        let refusal = refusal(head.status, &whole(body).await?);
        return Err(kube::Error::Api(Box::new(refusal)));
    }
    Ok(body)
}

async fn whole(mut body: Body) -> Result<Vec<u8>, kube::Error> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(ANNOUNCED);
    let mut bytes = Vec::with_capacity(announced.min(ANNOUNCED));
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes)
}

/// The server's own words. What stands in front of it, or has no such path, may answer with any text.
fn refusal(status: StatusCode, body: &[u8]) -> Status {
    serde_json::from_slice(body).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(body);
        Status::failure(text.trim(), "Failed to parse error data").with_code(status.as_u16())
    })
}
