//! An image cannot be had: the kubelet's word.

use kube::api::ResourceExt as _;

use crate::diagnose::objects::{ContainerStatus, Pod};
use crate::diagnose::observed::Observed;
use crate::diagnose::pod;
use crate::diagnose::reason::{Diagnosis, Reason};

/// The first container that waits for an image that the kubelet could not get.
pub(super) fn missing(pod: &Pod, observed: &Observed) -> Option<Diagnosis> {
    pod::containers(pod).find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let said = waiting.message.as_deref().unwrap_or_default();
        match waiting.reason.as_deref()? {
            // Neither name nor pull policy changes while the pod waits.
            "InvalidImageName" => Some(lasting(pod, container, said, NAME)),
            "ErrImageNeverPull" => Some(lasting(pod, container, said, NEVER_PULLED)),
            "ErrImagePull"
            | "ImagePullBackOff"
            | "ImageInspectError"
            | "RegistryUnavailable"
            | "SignatureValidationFailed" => Some(not_pulled(pod, container, said, observed)),
            _ => None,
        }
    })
}

const NAME: &str = "correct the image's name";
const NEVER_PULLED: &str = "the pod's pull policy is Never: load the image on the node, or find what sets that policy";

fn lasting(pod: &Pod, container: &ContainerStatus, said: &str, next_step: &str) -> Diagnosis {
    Diagnosis::lasting(reason(pod, container, said.to_owned()), next_step)
}

fn not_pulled(pod: &Pod, container: &ContainerStatus, said: &str, observed: &Observed) -> Diagnosis {
    let message = cause(pod, container, said, observed);
    let says = |phrase| message.contains(phrase);
    if says("failed to parse image reference") || says("invalid reference format") || says("couldn't parse image") {
        return Diagnosis::lasting(reason(pod, container, message), NAME);
    }
    let denied = ["401", "403", "denied", "nauthorized", "authoriz", "no basic auth"].into_iter().any(says);
    let next_step = if denied {
        match missing_secret(pod, observed) {
            Some(said) => format!("create the pull secret that --image-pull-secret names: {said}"),
            None => "name a secret that may pull the image with --image-pull-secret".to_owned(),
        }
    } else if says("not found") {
        "check the image's name and tag".to_owned()
    } else {
        "check that the node can reach the registry".to_owned()
    };
    Diagnosis::passing(reason(pod, container, message), next_step)
}

fn reason(pod: &Pod, container: &ContainerStatus, message: String) -> Reason {
    Reason::Image { pod: pod::name(pod), image: image(pod, container).to_owned(), message }
}

/// The image as the pod names it; the status may show what a tag was resolved to.
fn image<'a>(pod: &'a Pod, container: &'a ContainerStatus) -> &'a str {
    let spec = pod.spec.as_ref();
    let main = spec.and_then(|spec| spec.containers.as_ref());
    let init = spec.and_then(|spec| spec.init_containers.as_ref());
    let mut all = main.into_iter().chain(init).flatten();
    let named = all.find(|one| one.name == container.name).and_then(|one| one.image.as_deref());
    named.unwrap_or(&container.image)
}

/// Why the pull failed. The state alternates between the failure and a back-off that older kubelets give no cause for:
/// both must read the same, so the cause comes from whoever tells it, without what differs between them.
fn cause(pod: &Pod, container: &ContainerStatus, said: &str, observed: &Observed) -> String {
    let image = image(pod, container);
    let back_off = format!("Back-off pulling image \"{image}\"");
    let told = match said.strip_prefix(&back_off) {
        None => Some(said),
        Some(rest) => rest.strip_prefix(": ").map(|rest| rest.strip_prefix("ErrImagePull: ").unwrap_or(rest)),
    };
    let failed = format!("Failed to pull image \"{image}\": ");
    let event = || {
        let uid = pod.uid().unwrap_or_default();
        let failure = |message: &Option<String>| message.as_deref().is_some_and(|text| text.starts_with(&failed));
        observed.latest_event(&uid, |event| failure(&event.message))?.message.as_deref()?.strip_prefix(&failed)
    };
    without_rpc(told.filter(|told| !told.is_empty()).or_else(event).unwrap_or(said)).to_owned()
}

/// The message behind `rpc error: code = NotFound desc = `.
pub(super) fn without_rpc(message: &str) -> &str {
    message
        .strip_prefix("rpc error: code = ")
        .and_then(|rest| rest.split_once(" desc = "))
        .map_or(message, |(_, description)| description)
}

fn missing_secret(pod: &Pod, observed: &Observed) -> Option<String> {
    let uid = pod.uid().unwrap_or_default();
    observed
        .latest_event(&uid, |event| event.reason.as_deref() == Some("FailedToRetrieveImagePullSecret"))
        .and_then(|event| event.message.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::diagnose::diagnose;
    use crate::diagnose::testing::{event, job, observed, pod};

    const POD: &str = "aicr-1-x7k2p";
    const IMAGE: &str = "ghcr.io/nvidia/aicr:v1.1.2";
    const AT: &str = "2026-08-21T14:22:33Z";

    fn waiting(reason: &str, message: &str) -> Pod {
        let state = json!({"waiting": {"reason": reason, "message": message}});
        pod(POD, &[("/status/containerStatuses/0/state", state)])
    }

    fn told(pod: Pod, events: Vec<crate::diagnose::objects::Event>) -> Diagnosis {
        diagnose(&observed(job(&[]), vec![pod], events)).unwrap()
    }

    #[test]
    fn r24_an_image_name_that_cannot_be_right_does_not_heal() {
        for (reason, message) in [
            (
                "InvalidImageName",
                r#"Failed to apply default image tag "host/UPPER:1": couldn't parse image name "host/UPPER:1": invalid reference format: repository name (host/UPPER) must be lowercase"#,
            ),
            (
                "ErrImagePull",
                r#"rpc error: code = InvalidArgument desc = failed to pull and unpack image "UPPER/x:1": failed to parse image reference: "UPPER/x:1": invalid reference format"#,
            ),
            (
                "ErrImageNeverPull",
                r#"Container image "ghcr.io/nvidia/aicr:v1.1.2" is not present with pull policy of Never"#,
            ),
        ] {
            let diagnosis = told(waiting(reason, message), vec![]);
            assert!(!diagnosis.heals, "{message}");
            assert_eq!(
                diagnosis.to_string(),
                format!("Pod gpu/{POD} cannot get the image \"{IMAGE}\": {}", without_rpc(message))
            );
        }
    }

    #[test]
    fn r24_a_failed_pull_and_its_back_off_read_the_same() {
        let cause = format!(
            r#"failed to pull and unpack image "{IMAGE}": failed to resolve reference "{IMAGE}": {IMAGE}: not found"#
        );
        let failing = told(waiting("ErrImagePull", &format!("rpc error: code = NotFound desc = {cause}")), vec![]);
        assert_eq!(failing.to_string(), format!("Pod gpu/{POD} cannot get the image \"{IMAGE}\": {cause}"));
        assert_eq!((failing.heals, failing.next_step.as_str()), (true, "check the image's name and tag"));
        let back_off = format!("Back-off pulling image \"{IMAGE}\"");
        let newer = format!("{back_off}: ErrImagePull: rpc error: code = NotFound desc = {cause}");
        assert_eq!(told(waiting("ImagePullBackOff", &newer), vec![]), failing);
        let event = event(
            POD,
            "Failed",
            &format!("Failed to pull image \"{IMAGE}\": rpc error: code = NotFound desc = {cause}"),
            AT,
        );
        assert_eq!(told(waiting("ImagePullBackOff", &back_off), vec![event]), failing);
        let alone = told(waiting("ImagePullBackOff", &back_off), vec![]);
        assert_eq!(alone.to_string(), format!("Pod gpu/{POD} cannot get the image \"{IMAGE}\": {back_off}"));
    }

    #[test]
    fn r24_missing_rights_point_to_the_pull_secret() {
        let denied = format!(
            "failed to authorize: failed to fetch oauth token: unexpected status from GET request to https://{IMAGE}: 403 Forbidden"
        );
        let diagnosis = told(waiting("ErrImagePull", &denied), vec![]);
        assert_eq!(diagnosis.next_step, "name a secret that may pull the image with --image-pull-secret");
        let missing =
            "Unable to retrieve some image pull secrets (regcred); attempting to pull the image may not succeed.";
        let diagnosis =
            told(waiting("ErrImagePull", &denied), vec![event(POD, "FailedToRetrieveImagePullSecret", missing, AT)]);
        assert_eq!(diagnosis.next_step, format!("create the pull secret that --image-pull-secret names: {missing}"));
        let unreachable = "dial tcp: lookup ghcr.io: no such host";
        let diagnosis = told(waiting("ErrImagePull", unreachable), vec![]);
        assert_eq!(
            (diagnosis.heals, diagnosis.next_step.as_str()),
            (true, "check that the node can reach the registry")
        );
    }

    #[test]
    fn r24_the_image_of_a_container_put_beside_the_agent_is_named() {
        let injected = pod(
            POD,
            &[
                ("/spec/initContainers", json!([{"name": "proxy-init", "image": "example.com/proxy:1"}])),
                (
                    "/status/initContainerStatuses",
                    json!([{"name": "proxy-init", "image": "example.com/proxy:1", "imageID": "", "ready": false, "restartCount": 0,
                            "state": {"waiting": {"reason": "ErrImagePull", "message": "gone"}}}]),
                ),
                ("/status/containerStatuses/0/state", json!({"waiting": {"reason": "PodInitializing"}})),
            ],
        );
        let diagnosis = told(injected, vec![]);
        assert_eq!(diagnosis.to_string(), format!("Pod gpu/{POD} cannot get the image \"example.com/proxy:1\": gone"));
    }
}
