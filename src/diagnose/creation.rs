//! The API server refuses the Job's pod: the Job controller's `FailedCreate` events.

use kube::api::ResourceExt as _;

use crate::diagnose::job;
use crate::diagnose::objects::Job;
use crate::diagnose::observed::{Observed, last_seen};
use crate::diagnose::reason::{Diagnosis, Reason};

/// Who refuses a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// An admission webhook said no.
    Webhook,
    /// An admission webhook could not be asked.
    WebhookDown,
    /// A `ValidatingAdmissionPolicy`.
    Policy,
    /// The namespace's Pod Security labels.
    PodSecurity,
    /// `OpenShift`'s security context constraints.
    SecurityContextConstraints,
    /// A quota that is used up.
    Quota,
    /// A quota of something that the pod does not state.
    QuotaUnstated,
    /// The namespace's `LimitRange`.
    LimitRange,
    /// The pod's `ServiceAccount` does not exist.
    ServiceAccount,
    /// The pod's `RuntimeClass` does not exist.
    RuntimeClass,
    /// The namespace is being deleted.
    NamespaceTerminating,
    /// The pod is not valid.
    Invalid,
    /// Anything else.
    Other,
}

/// What each refusal says of itself. A webhook may quote any of the others, so it comes first.
const PHRASES: &[(&str, Refusal)] = &[
    ("failed calling webhook", Refusal::WebhookDown),
    ("failed calling admission webhook", Refusal::WebhookDown),
    ("admission webhook", Refusal::Webhook),
    ("ValidatingAdmissionPolicy", Refusal::Policy),
    ("violates PodSecurity", Refusal::PodSecurity),
    ("unable to validate against any security context constraint", Refusal::SecurityContextConstraints),
    ("exceeded quota", Refusal::Quota),
    ("failed quota", Refusal::QuotaUnstated),
    ("usage per", Refusal::LimitRange),
    ("limit to request ratio per", Refusal::LimitRange),
    ("error looking up service account", Refusal::ServiceAccount),
    ("RuntimeClass", Refusal::RuntimeClass),
    ("because it is being terminated", Refusal::NamespaceTerminating),
    ("is invalid:", Refusal::Invalid),
];

impl Refusal {
    fn of(message: &str) -> Self {
        PHRASES.iter().find(|(phrase, _)| message.contains(phrase)).map_or(Self::Other, |&(_, refusal)| refusal)
    }

    /// The Job controller goes on trying; this says whether it can ever succeed with the same pod.
    fn heals(self) -> bool {
        matches!(self, Self::WebhookDown | Self::Quota | Self::Other)
    }

    fn next_step(self) -> &'static str {
        match self {
            Self::Webhook => "meet what the webhook asks for, or use a namespace that it does not watch",
            Self::WebhookDown => "the webhook's service does not answer: have its owner repair it",
            Self::Policy => "meet what the policy asks for, or use a namespace that it does not bind",
            Self::PodSecurity => {
                "use a namespace whose Pod Security labels allow privileged pods, or run with --privileged=false"
            }
            Self::SecurityContextConstraints => {
                "grant the ServiceAccount a constraint that allows the pod, or run with --privileged=false"
            }
            Self::Quota => "free or raise the namespace's quota, or lower --requests and --limits",
            Self::QuotaUnstated => "state what the quota counts with --requests and --limits",
            Self::LimitRange => "choose --requests and --limits that the namespace's LimitRange allows",
            Self::ServiceAccount => "see what deletes ServiceAccounts in the namespace, or name one that exists",
            Self::RuntimeClass => "see kubectl get runtimeclasses, and choose one with --runtime-class",
            Self::NamespaceTerminating => "use another namespace, or wait until this one is gone",
            Self::Invalid => "check the flags that shape the pod against the message",
            Self::Other => "see kubectl get events for the Job",
        }
    }
}

/// The newest refusal, unless a pod came after it.
pub(super) fn refused(job: &Job, observed: &Observed) -> Option<Diagnosis> {
    let uid = job.uid().unwrap_or_default();
    let event = observed.latest_event(&uid, |event| event.reason.as_deref() == Some("FailedCreate"))?;
    let last_pod = observed.gone.as_ref().and_then(|pod| pod.metadata.creation_timestamp.as_ref());
    if !observed.pods.is_empty() || last_pod.is_some_and(|created| Some(created.0) >= last_seen(event)) {
        return None;
    }
    let message = without_pod_name(event.message.as_deref().unwrap_or_default(), &job.name_any());
    let refusal = Refusal::of(&message);
    let reason = Reason::PodRefused { job: job::name(job), refusal, message };
    Some(Diagnosis { reason, heals: refusal.heals(), next_step: refusal.next_step().to_owned() })
}

/// The refusal without what differs at each attempt: the pod's generated name.
fn without_pod_name(message: &str, job: &str) -> String {
    let message = message.strip_prefix("(combined from similar events): ").unwrap_or(message);
    let message = message.strip_prefix("Error creating: ").unwrap_or(message);
    let message = match message.split_once("\" is forbidden: ") {
        Some((pod, why)) if pod.starts_with("pods \"") && !pod[6..].contains('"') => why,
        _ => message,
    };
    // The server cuts what it generates a name from at 58 characters and adds five.
    let full = format!("{job}-");
    let stem = &full[..full.len().min(58)];
    let mut parts = message.split(stem);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let suffix = part.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let part = if suffix == 5 { &part[suffix..] } else { part };
        text + stem + if suffix == 5 { "…" } else { "" } + part
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::diagnose::diagnose;
    use crate::diagnose::testing::{JOB, event, job, observed, pod};

    const AT: &str = "2026-08-21T14:22:33Z";

    fn refusal(message: &str) -> Diagnosis {
        diagnose(&observed(job(&[]), vec![], vec![event(JOB, "FailedCreate", message, AT)])).unwrap()
    }

    #[test]
    fn r24_each_refusal_is_told_in_the_servers_words_and_judged() {
        use Refusal::*;
        for (message, expected, heals) in [
            (
                r#"pods "aicr-1-x7k2p" is forbidden: violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true, hostPID=true, hostIPC=true), privileged (container "aicr" must not set securityContext.privileged=true)"#,
                PodSecurity,
                false,
            ),
            (
                r#"pods "aicr-1-x7k2p" is forbidden: exceeded quota: compute, requested: requests.cpu=1, used: requests.cpu=4, limited: requests.cpu=4"#,
                Quota,
                true,
            ),
            (
                r#"pods "aicr-1-x7k2p" is forbidden: failed quota: gpus: must specify requests.nvidia.com/gpu for: aicr"#,
                QuotaUnstated,
                false,
            ),
            (
                r#"admission webhook "validate.kyverno.svc-fail" denied the request: violates PodSecurity "baseline""#,
                Webhook,
                false,
            ),
            (
                r#"Internal error occurred: failed calling webhook "mutate.example.com": failed to call webhook: Post "https://hook.example.svc:443/mutate?timeout=10s": dial tcp 10.96.7.7:443: connect: connection refused"#,
                WebhookDown,
                true,
            ),
            (
                r#"pods "aicr-1-x7k2p" is forbidden: ValidatingAdmissionPolicy 'no-host-pid' with binding 'no-host-pid' denied request: hostPID is not allowed"#,
                Policy,
                false,
            ),
            (
                r#"pods "aicr-1-" is forbidden: unable to validate against any security context constraint: [provider "anyuid": Forbidden: not usable by user or serviceaccount, provider restricted-v2: .spec.securityContext.hostNetwork: Invalid value: true: Host network is not allowed to be used]"#,
                SecurityContextConstraints,
                false,
            ),
            (
                r#"pods "aicr-1-x7k2p" is forbidden: error looking up service account gpu/aicr-1: serviceaccount "aicr-1" not found"#,
                ServiceAccount,
                false,
            ),
            (r#"pods "aicr-1-x7k2p" is forbidden: pod rejected: RuntimeClass "nvidia" not found"#, RuntimeClass, false),
            (
                r#"pods "aicr-1-x7k2p" is forbidden: maximum memory usage per Container is 1Gi, but limit is 8Gi"#,
                LimitRange,
                false,
            ),
            (
                r#"pods "aicr-1-x7k2p" is forbidden: unable to create new content in namespace gpu because it is being terminated"#,
                NamespaceTerminating,
                false,
            ),
            (
                r#"Pod "aicr-1-x7k2p" is invalid: spec.tolerations[0].effect: Unsupported value: "Never""#,
                Invalid,
                false,
            ),
            ("etcdserver: request timed out", Other, true),
        ] {
            let diagnosis = refusal(&format!("Error creating: {message}"));
            let Reason::PodRefused { refusal, message: told, .. } = &diagnosis.reason else {
                panic!("{diagnosis:?}");
            };
            assert_eq!((*refusal, diagnosis.heals), (expected, heals), "{message}");
            assert!(!told.contains("x7k2p"), "{told}");
            let why = message.split_once("is forbidden: ").map_or(message, |(_, why)| why);
            assert_eq!(*told, why.replace("x7k2p", "…"));
            assert_eq!(diagnosis.to_string(), format!("Job gpu/aicr-1 can create no pod: {told}"));
        }
    }

    #[test]
    fn r24_refusals_that_differ_in_the_pods_name_only_are_the_same() {
        let webhook = |name: &str| {
            format!(
                "Error creating: admission webhook \"k.example.com\" denied the request: resource Pod/gpu/{name} was blocked"
            )
        };
        assert_eq!(refusal(&webhook("aicr-1-x7k2p")), refusal(&webhook("aicr-1-9zz4c")));
        let combined = format!("(combined from similar events): {}", webhook("aicr-1-9zz4c"));
        assert_eq!(refusal(&webhook("aicr-1-x7k2p")), refusal(&combined));
        assert_ne!(refusal(&webhook("aicr-1-x7k2p")), refusal(&webhook("other")));
        let long = "j".repeat(63);
        let cut = format!("Pod \"{}abcde\" is invalid", "j".repeat(58));
        assert_eq!(without_pod_name(&cut, &long), format!("Pod \"{}…\" is invalid", "j".repeat(58)));
    }

    #[test]
    fn a_refusal_that_was_overcome_or_is_another_jobs_is_not_told() {
        let message = "Error creating: etcdserver: request timed out";
        let later = pod("aicr-1-x7k2p", &[("/metadata/creationTimestamp", json!("2026-08-21T14:22:40Z"))]);
        assert_eq!(
            diagnose(&observed(job(&[]), vec![later.clone()], vec![event(JOB, "FailedCreate", message, AT)])),
            None
        );
        let again = event(JOB, "FailedCreate", message, "2026-08-21T14:22:50Z");
        let mut seen = observed(job(&[]), vec![], vec![again]);
        seen.gone = Some(later);
        assert!(matches!(diagnose(&seen).unwrap().reason, Reason::PodRefused { .. }));
        let other = event("another-uid", "FailedCreate", message, AT);
        assert_eq!(diagnose(&observed(job(&[]), vec![], vec![other])), None);
    }
}
