//! Events, as components of a cluster say them.

use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference, Pod},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    jiff::Timestamp,
};
use kube::{Api, Client, Resource, api::PostParams};

/// Who says it, and about what.
pub(crate) struct Events {
    api: Api<Event>,
    about: ObjectReference,
    source: EventSource,
}

impl Events {
    /// A pod's kubelet, about the pod or one of its containers.
    pub(super) fn of_kubelet(client: Client, pod: &Pod) -> Self {
        let host = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        Self::of(client, pod.object_ref(&()), EventSource { component: Some("kubelet".into()), host })
    }

    /// Some component, about some object.
    pub(crate) fn of(client: Client, about: ObjectReference, source: EventSource) -> Self {
        Self { api: Api::namespaced(client, about.namespace.as_deref().unwrap_or_default()), about, source }
    }

    pub(crate) async fn normal(&self, container: &str, reason: &str, message: &str) {
        self.say("Normal", container, reason, message).await;
    }

    pub(crate) async fn warning(&self, container: &str, reason: &str, message: &str) {
        self.say("Warning", container, reason, message).await;
    }

    /// An empty container name means the object as a whole. Events are best effort, here as there.
    async fn say(&self, kind: &str, container: &str, reason: &str, message: &str) {
        let now = Time(Timestamp::now());
        let field = (!container.is_empty()).then(|| format!("spec.containers{{{container}}}"));
        let name = format!("{}.{:x}", self.about.name.as_deref().unwrap_or_default(), now.0.as_nanosecond());
        let event = Event {
            metadata: ObjectMeta { name: Some(name), namespace: self.about.namespace.clone(), ..ObjectMeta::default() },
            involved_object: ObjectReference { field_path: field, ..self.about.clone() },
            source: Some(self.source.clone()),
            type_: Some(kind.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            count: Some(1),
            reporting_component: self.source.component.clone(),
            ..Event::default()
        };
        let _ = self.api.create(&PostParams::default(), &event).await;
    }
}
