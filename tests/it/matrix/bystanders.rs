//! Objects beside a run that no disturbance of it may touch.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    core::v1::{ConfigMap, ServiceAccount},
    rbac::v1::{ClusterRole, Role},
};
use kube::{Api, Resource, ResourceExt, api::PostParams};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::support::scene::Scene;

/// Objects by `Kind namespace/name`, with UID and resource version.
pub(super) struct Bystanders(BTreeMap<String, (String, String)>);

impl Bystanders {
    /// Another invocation's objects under the same run ID, a namesake without labels, and a user's `ConfigMap`s.
    pub(super) async fn of(scene: &Scene) -> Self {
        let id = &scene.run_id;
        let theirs = json!({
            "app.kubernetes.io/name": "aicr",
            "app.kubernetes.io/managed-by": "aicr",
            "app.kubernetes.io/component": "snapshot-agent",
            "aicr.run/run-id": id,
            "aicr.run/invocation-id": "20200101-000000-0123456789abcdef",
        });
        let none = json!({});
        let users = json!({ "app.kubernetes.io/name": "aicr" });
        let mut made = BTreeMap::new();
        make(&mut made, scene.api::<Role>(), &format!("other-{id}"), &theirs).await;
        make(&mut made, scene.api::<ServiceAccount>(), &format!("other-{id}"), &theirs).await;
        make(&mut made, Api::<ClusterRole>::all(scene.client.clone()), &format!("other-{id}"), &theirs).await;
        make(&mut made, scene.api::<ConfigMap>(), &format!("aicr-{id}"), &none).await;
        make(&mut made, scene.api::<ServiceAccount>(), &format!("aicr-node-reader-{id}"), &none).await;
        make(&mut made, scene.api::<ConfigMap>(), "my-snapshot", &users).await;
        Self(made)
    }

    pub(super) fn have(&self, object: &str) -> bool {
        self.0.contains_key(object)
    }

    /// What was touched.
    pub(super) async fn changed(&self, scene: &Scene) -> Vec<String> {
        let mut now = BTreeMap::new();
        read(&mut now, scene.api::<Role>()).await;
        read(&mut now, scene.api::<ServiceAccount>()).await;
        read(&mut now, scene.api::<ConfigMap>()).await;
        read(&mut now, Api::<ClusterRole>::all(scene.client.clone())).await;
        let touched = self.0.iter().filter(|(object, was)| now.get(*object) != Some(was));
        touched.map(|(object, was)| format!("{object} was {was:?} and is {:?}", now.get(object))).collect()
    }
}

async fn make<K>(made: &mut BTreeMap<String, (String, String)>, api: Api<K>, name: &str, labels: &Value)
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    let object = json!({ "metadata": { "name": name, "labels": labels } });
    let object = api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    note(made, &object);
}

async fn read<K>(found: &mut BTreeMap<String, (String, String)>, api: Api<K>)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    for object in api.list(&kube::api::ListParams::default()).await.unwrap() {
        note(found, &object);
    }
}

fn note<K: Resource<DynamicType = ()>>(found: &mut BTreeMap<String, (String, String)>, object: &K) {
    let name = match object.namespace() {
        Some(namespace) => format!("{} {namespace}/{}", K::kind(&()), object.name_any()),
        None => format!("{} {}", K::kind(&()), object.name_any()),
    };
    found.insert(name, (object.uid().unwrap(), object.resource_version().unwrap()));
}
