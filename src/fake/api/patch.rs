//! Patches.

use serde_json::Value;

use super::call::Call;
use super::object::Object as _;
use super::refusal::{Fault, Refusal, bad_request, invalid, unsupported_body};
use super::{Api, body, json_patch, strategic};

impl Api {
    /// Changes an object, or applies it; answers with the HTTP status, too.
    pub(super) fn patch(&mut self, call: &Call) -> Result<(u16, Value), Refusal> {
        if call.content_type == "application/apply-patch+yaml" {
            return self.apply(call);
        }
        let mut new = Value::clone(self.find(&call.target)?);
        // A patch that names no version meets whatever stands there.
        new.remove_meta("resourceVersion");
        let patch = body::parse(call)?;
        match call.content_type.as_str() {
            "application/merge-patch+json" => strategic::merge_plain(&mut new, &patch),
            "application/strategic-merge-patch+json" => strategic::merge(&mut new, &patch),
            "application/json-patch+json" => json_patch::apply(&mut new, &patch)?,
            other => return Err(unsupported_body(other)),
        }
        if new.meta("name") != call.target.name {
            return Err(bad_request("the name of the object does not match the name on the URL"));
        }
        let new = body::shaped(call, new)?;
        let uid = self.find(&call.target)?.meta("uid");
        if new.meta("uid") != uid {
            let fault = Fault::invalid("metadata.uid", new.meta("uid"), "field is immutable");
            return Err(invalid(call.target.kind, &call.target.name, vec![fault]));
        }
        Ok((200, self.replace(call, new, None)?))
    }
}
