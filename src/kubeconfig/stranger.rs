//! Refusals that no API server wrote: those of a gateway, a proxy or a load balancer before it.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt as _, Either, Full};
use kube::core::Status;
use serde::Deserialize as _;
use serde_json::Value;
use tower::BoxError;

/// Makes each refusal a `Status` that holds the answer's HTTP status. Of itself kube takes any JSON object for one, and its
/// code for 0.
pub(super) async fn as_status<B>(answer: Response<B>) -> Result<Response<Either<B, Full<Bytes>>>, BoxError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let code = answer.status();
    if !code.is_client_error() && !code.is_server_error() {
        return Ok(answer.map(Either::Left));
    }
    let (mut head, body) = answer.into_parts();
    let body = body.collect().await.map_err(Into::into)?.to_bytes();
    let body = serde_json::to_vec(&status(code, &body))?;
    head.headers.remove(CONTENT_LENGTH);
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(Response::from_parts(head, Either::Right(body.into())))
}

fn status(code: StatusCode, body: &[u8]) -> Status {
    let text = String::from_utf8_lossy(body);
    let json: Value = serde_json::from_slice(body).unwrap_or_default();
    if json["kind"] == "Status"
        && let Ok(status) = Status::deserialize(&json)
    {
        return if status.code == 0 { status.with_code(code.as_u16()) } else { status };
    }
    let message = match &json {
        // A page for a browser, or nothing, says less than the code.
        Value::Null if text.trim_start().starts_with('<') => "",
        Value::Null => text.trim(),
        json => ["message", "error"].into_iter().find_map(|field| json[field].as_str()).unwrap_or_default(),
    };
    Status::failure(message, code.canonical_reason().unwrap_or_default()).with_code(code.as_u16())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn r42_a_refusal_counts_by_its_http_status_whoever_wrote_it() {
        let cases: [(u16, &[u8], &str, &str); 11] = [
            (401, b"{}", "", "Unauthorized"),
            (401, b"[]", "", "Unauthorized"),
            (401, b"", "", "Unauthorized"),
            (403, br#"{"message":"not from here","code":7}"#, "not from here", "Forbidden"),
            (403, br#"{"error":"blocked","status":"no"}"#, "blocked", "Forbidden"),
            (404, b"404 page not found\n", "404 page not found", "Not Found"),
            (502, b"<html><body>502</body></html>", "", "Bad Gateway"),
            (503, b"\xff\xfe", "\u{fffd}\u{fffd}", "Service Unavailable"),
            (409, br#"{"kind":"Status","reason":"AlreadyExists","message":"m","code":409}"#, "m", "AlreadyExists"),
            (409, br#"{"kind":"Status","reason":"AlreadyExists","message":"m"}"#, "m", "AlreadyExists"),
            (500, br#"{"kind":"Status","status":[]}"#, "", "Internal Server Error"),
        ];
        for (code, body, message, reason) in cases {
            let answer = Response::builder().status(code).body(Full::from(body)).unwrap();
            let answer = as_status(answer).await.unwrap();
            assert_eq!(answer.status(), code);
            let text = answer.into_body().collect().await.unwrap().to_bytes();
            let status: Status = serde_json::from_slice(&text).unwrap();
            let found = (status.code, status.message.as_str(), status.reason.as_str());
            assert_eq!(found, (code, message, reason), "{}", String::from_utf8_lossy(body));
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_no_refusal_passes_unread() {
        let answer = as_status(Response::new(Full::from("{}"))).await.unwrap();
        assert!(matches!(answer.body(), Either::Left(_)));
    }
}
