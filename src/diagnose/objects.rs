//! Jobs, pods and events as far as a run looks at them. The rest of what a server sends is skipped, and costs no code.

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::{batch, core};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube::Resource;
use kube::api::Log;
use serde::Deserialize;

/// A Job.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Job {
    #[serde(default)]
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Option<JobSpec>,
    pub(crate) status: Option<JobStatus>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobSpec {
    pub(crate) suspend: Option<bool>,
    pub(crate) ttl_seconds_after_finished: Option<i32>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct JobStatus {
    pub(crate) conditions: Option<Vec<Condition>>,
}

/// A condition of a Job or of a pod.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Condition {
    #[serde(rename = "type", default)]
    pub(crate) type_: String,
    #[serde(default)]
    pub(crate) status: String,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
}

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Pod {
    #[serde(default)]
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Option<PodSpec>,
    pub(crate) status: Option<PodStatus>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodSpec {
    pub(crate) node_name: Option<String>,
    pub(crate) containers: Option<Vec<Container>>,
    pub(crate) init_containers: Option<Vec<Container>>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Container {
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) image: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodStatus {
    pub(crate) phase: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) conditions: Option<Vec<Condition>>,
    pub(crate) container_statuses: Option<Vec<ContainerStatus>>,
    pub(crate) init_container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ContainerStatus {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) image: String,
    pub(crate) state: Option<ContainerState>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ContainerState {
    pub(crate) running: Option<Running>,
    pub(crate) waiting: Option<Waiting>,
    pub(crate) terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Running {}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Waiting {
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Terminated {
    #[serde(default)]
    pub(crate) exit_code: i32,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
}

/// An event of the core group.
#[expect(clippy::struct_field_names, reason = "the API calls it eventTime")]
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Event {
    #[serde(default)]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) involved_object: Involved,
    #[serde(rename = "type")]
    pub(crate) type_: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) count: Option<i32>,
    pub(crate) series: Option<Series>,
    pub(crate) event_time: Option<MicroTime>,
    pub(crate) last_timestamp: Option<Time>,
}

/// What an event is about.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Involved {
    pub(crate) kind: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) uid: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Series {
    pub(crate) count: Option<i32>,
    pub(crate) last_observed_time: Option<MicroTime>,
}

/// Each is watched and listed as the whole kind is.
macro_rules! stands_for {
    ($($part:ident: $whole:ty),*) => {$(
        impl Resource for $part {
            type DynamicType = ();
            type Scope = NamespaceResourceScope;

            fn kind(type_: &()) -> Cow<'_, str> {
                <$whole as Resource>::kind(type_)
            }

            fn group(type_: &()) -> Cow<'_, str> {
                <$whole as Resource>::group(type_)
            }

            fn version(type_: &()) -> Cow<'_, str> {
                <$whole as Resource>::version(type_)
            }

            fn plural(type_: &()) -> Cow<'_, str> {
                <$whole as Resource>::plural(type_)
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    )*};
}

stands_for!(Job: batch::v1::Job, Pod: core::v1::Pod, Event: core::v1::Event);

impl Log for Pod {}
