//! Refusals, worded as a real API server words them.

use kube::core::Status;
use kube::core::response::{StatusCause, StatusDetails, reason};

use super::kind::Kind;

/// A `Status` of a request that was not carried out.
pub(crate) type Refusal = Box<Status>;

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    field: String,
    reason: &'static str,
    message: String,
}

impl Fault {
    pub(crate) fn invalid(field: impl Into<String>, value: &str, rule: &str) -> Self {
        let message = format!("Invalid value: {value:?}: {rule}");
        Self { field: field.into(), reason: "FieldValueInvalid", message }
    }

    pub(crate) fn required(field: impl Into<String>, what: &str) -> Self {
        let message = if what.is_empty() { "Required value".to_owned() } else { format!("Required value: {what}") };
        Self { field: field.into(), reason: "FieldValueRequired", message }
    }

    pub(crate) fn unsupported(field: impl Into<String>, value: &str, supported: &[&str]) -> Self {
        let supported = supported.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(", ");
        let message = format!("Unsupported value: {value:?}: supported values: {supported}");
        Self { field: field.into(), reason: "FieldValueNotSupported", message }
    }

    pub(crate) fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self { field: field.into(), reason: "FieldValueForbidden", message: format!("Forbidden: {why}") }
    }

    pub(crate) fn too_long(field: impl Into<String>, limit: usize) -> Self {
        let message = format!("Too long: may not be more than {limit} bytes");
        Self { field: field.into(), reason: "FieldValueTooLong", message }
    }

    fn cause(self) -> StatusCause {
        StatusCause { reason: self.reason.to_owned(), message: self.message, field: self.field }
    }
}

pub(crate) fn status(code: u16, reason: &str, message: &str) -> Refusal {
    Status::failure(message, reason).with_code(code).boxed()
}

pub(crate) fn bad_request(message: &str) -> Refusal {
    status(400, reason::BAD_REQUEST, message)
}

fn about(kind: &Kind, name: &str, code: u16, reason: &str, message: &str) -> Refusal {
    let details = StatusDetails {
        name: name.to_owned(),
        group: kind.group.to_owned(),
        kind: kind.plural.to_owned(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    };
    Status::failure(message, reason).with_code(code).with_details(details).boxed()
}

pub(crate) fn not_found(kind: &Kind, name: &str) -> Refusal {
    about(kind, name, 404, reason::NOT_FOUND, &format!("{} {name:?} not found", kind.qualified()))
}

pub(crate) fn already_exists(kind: &Kind, name: &str, terminating: bool) -> Refusal {
    let state = if terminating { "object is being deleted: " } else { "" };
    let message = format!("{state}{} {name:?} already exists", kind.qualified());
    about(kind, name, 409, reason::ALREADY_EXISTS, &message)
}

/// A delete whose precondition does not hold. Its words speak of the kind, not of the resource.
pub(crate) fn precondition(kind: &Kind, name: &str, why: &str) -> Refusal {
    let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", kind.qualified_kind());
    let mut refusal = about(kind, name, 409, reason::CONFLICT, &message);
    if let Some(details) = &mut refusal.details {
        kind.name.clone_into(&mut details.kind);
    }
    refusal
}

pub(crate) fn conflict(kind: &Kind, name: &str, why: &str) -> Refusal {
    let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", kind.qualified());
    about(kind, name, 409, reason::CONFLICT, &message)
}

pub(crate) fn modified(kind: &Kind, name: &str) -> Refusal {
    conflict(kind, name, "the object has been modified; please apply your changes to the latest version and try again")
}

pub(crate) fn forbidden(kind: &Kind, name: &str, why: &str) -> Refusal {
    let named = if name.is_empty() { String::new() } else { format!(" {name:?}") };
    about(kind, name, 403, reason::FORBIDDEN, &format!("{}{named} is forbidden: {why}", kind.qualified()))
}

/// A create in a namespace that is on its way out.
pub(crate) fn terminating(kind: &Kind, name: &str, namespace: &str) -> Refusal {
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut refusal = forbidden(kind, name, &why);
    if let Some(details) = &mut refusal.details {
        details.causes.push(StatusCause {
            reason: "NamespaceTerminating".to_owned(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        });
    }
    refusal
}

pub(crate) fn invalid(kind: &Kind, name: &str, faults: Vec<Fault>) -> Refusal {
    let said: Vec<String> = faults.iter().map(|fault| format!("{}: {}", fault.field, fault.message)).collect();
    let said = if let [only] = said.as_slice() { only.clone() } else { format!("[{}]", said.join(", ")) };
    let mut refusal =
        about(kind, name, 422, reason::INVALID, &format!("{} {name:?} is invalid: {said}", kind.qualified_kind()));
    if let Some(details) = &mut refusal.details {
        kind.name.clone_into(&mut details.kind);
        details.causes = faults.into_iter().map(Fault::cause).collect();
    }
    refusal
}

/// Options of a request that make no sense.
pub(crate) fn invalid_options(options: &str, field: &str, what: &str) -> Refusal {
    let message = format!("{options}.meta.k8s.io \"\" is invalid: {field}: {what}");
    status(422, reason::INVALID, &message)
}

/// A body in a form that is not understood.
pub(crate) fn unsupported_body(content_type: &str) -> Refusal {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, \
         application/merge-patch+json, application/apply-patch+yaml, application/json, application/yaml (not \
         {content_type:?})"
    );
    status(415, reason::UNSUPPORTED_MEDIA_TYPE, &message)
}

pub(crate) fn internal(message: &str) -> Refusal {
    status(500, reason::INTERNAL_ERROR, message)
}

pub(crate) fn method_not_allowed() -> Refusal {
    status(405, reason::METHOD_NOT_ALLOWED, "the server does not allow this method on the requested resource")
}

/// No such resource, or no such path.
pub(crate) fn no_such_resource() -> Refusal {
    let mut refusal = status(404, reason::NOT_FOUND, "the server could not find the requested resource");
    refusal.details = Some(StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    });
    refusal
}

/// A resource version that is no longer kept.
pub(crate) fn expired(message: &str) -> Refusal {
    status(410, reason::EXPIRED, message)
}

/// A resource version that has not been reached yet.
pub(crate) fn too_large_version(asked: u64, current: u64) -> Refusal {
    let message = format!("Too large resource version: {asked}, current: {current}");
    let mut refusal = status(504, reason::TIMEOUT, &format!("Timeout: {message}"));
    refusal.details = Some(StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: vec![StatusCause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        }],
        retry_after_seconds: 1,
    });
    refusal
}
