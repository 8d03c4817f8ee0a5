//! Answers that the proxy gives in the API server's place.

use bytes::Bytes;
use http::{Response, StatusCode, header};
use serde_json::{Value, json};

use super::log::Entry;

/// A failure as the API server words it: a `Status` object, or the plain text
/// of something in front of it.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    code: u16,
    reason: &'static str,
    message: Option<String>,
    details: Value,
    retry_after: Option<u32>,
    plain: bool,
}

impl Status {
    /// Any code with any reason.
    pub(crate) fn new(code: u16, reason: &'static str) -> Self {
        Self { code, reason, message: None, details: json!({}), retry_after: None, plain: false }
    }

    /// 401, as for an expired token.
    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized").message("Unauthorized")
    }

    /// 403 by RBAC.
    pub(crate) fn forbidden() -> Self {
        Self::new(403, "Forbidden")
    }

    /// 404 of the object that the request names.
    pub(crate) fn not_found() -> Self {
        Self::new(404, "NotFound")
    }

    /// 409 of a create whose name is taken.
    pub(crate) fn already_exists() -> Self {
        Self::new(409, "AlreadyExists")
    }

    /// 409 of a failed precondition, or of a race for a quota.
    pub(crate) fn conflict() -> Self {
        Self::new(409, "Conflict")
    }

    /// 410 of a resource version that is no longer kept.
    pub(crate) fn expired() -> Self {
        Self::new(410, "Expired").message("The resourceVersion for the provided watch is too old.")
    }

    /// 429 with `Retry-After`.
    pub(crate) fn too_many_requests(retry_after: u32) -> Self {
        Self::new(429, "TooManyRequests")
            .message("the server has received too many requests and has asked us to try again later")
            .retry_after(retry_after)
    }

    /// 500.
    pub(crate) fn internal_error() -> Self {
        Self::new(500, "InternalError")
            .message("Internal error occurred: etcdserver: leader changed")
            .details(json!({"causes": [{"message": "etcdserver: leader changed"}]}))
    }

    /// 503.
    pub(crate) fn unavailable() -> Self {
        Self::new(503, "ServiceUnavailable").message("the server is currently unable to handle the request")
    }

    /// 504 of a request that took too long.
    pub(crate) fn timeout() -> Self {
        Self::new(504, "Timeout").message("Timeout: request did not complete within the allotted timeout")
    }

    /// 504 of a watch cache that is behind; real ones come inside the stream.
    pub(crate) fn too_large_resource_version() -> Self {
        Self::new(504, "Timeout")
            .message("Timeout: Too large resource version: 999999999, current: 1000")
            .retry_after(1)
            .details(json!({
                "causes": [{
                    "reason": "ResourceVersionTooLarge",
                    "message": "Too large resource version",
                }],
            }))
    }

    /// A body that is not JSON, as a load balancer or the API server's own
    /// throttling sends it.
    pub(crate) fn plain(code: u16, text: &str) -> Self {
        let mut status = Self::new(code, "").message(text);
        status.plain = true;
        status
    }

    /// The message, where the default does not do.
    pub(crate) fn message(mut self, message: &str) -> Self {
        self.message = Some(message.to_owned());
        self
    }

    /// Adds to `details`; name, group and kind are filled in from the request.
    pub(crate) fn details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    /// The header `Retry-After`, and its twin in the body.
    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// The whole answer to `request`.
    pub(super) fn response(&self, request: &Entry) -> Response<Bytes> {
        let kind = if self.plain { "text/plain; charset=utf-8" } else { "application/json" };
        let body = if self.plain { self.message.clone().unwrap_or_default() } else { self.object(request).to_string() };
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = StatusCode::from_u16(self.code).unwrap();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, kind.parse().unwrap());
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }

    /// The last event of a watch that fails.
    pub(super) fn watch_event(&self, request: &Entry) -> Bytes {
        let event = json!({"type": "ERROR", "object": self.object(request)});
        Bytes::from(format!("{event}\n"))
    }

    fn object(&self, request: &Entry) -> Value {
        let target = request.target();
        let mut details = self.details.clone();
        if let Some(seconds) = self.retry_after {
            details["retryAfterSeconds"] = json!(seconds);
        }
        for (key, value) in [("name", &target.name), ("group", &target.group), ("kind", &target.resource)] {
            if !value.is_empty() {
                details[key] = json!(value);
            }
        }
        let resource = target.qualified_resource();
        let name = &target.name;
        let message = match (&self.message, self.reason) {
            (Some(message), _) => message.clone(),
            (None, "AlreadyExists") => format!("{resource} {name:?} already exists"),
            (None, "NotFound") => format!("{resource} {name:?} not found"),
            (None, "Conflict") => format!(
                "Operation cannot be fulfilled on {resource} {name:?}: the object has been \
                 modified; please apply your changes to the latest version and try again"
            ),
            (None, "Forbidden") => {
                format!("{resource} {name:?} is forbidden: User \"someone\" cannot {}", target.action())
            }
            (None, reason) => format!("{reason} on {resource}"),
        };
        json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": self.reason,
            "details": details,
            "code": self.code,
        })
    }
}
