//! Namespaces of single tests.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Namespace, ServiceAccount},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client, ResourceExt, api::PostParams};

use super::wait::until;

/// A namespace of one test. It is gone with the bed.
pub(crate) struct TestNamespace {
    pub(crate) name: String,
}

impl TestNamespace {
    pub(super) async fn create(client: Client, prefix: &str, labels: &[(&str, &str)]) -> Self {
        let unrestricted = ("pod-security.kubernetes.io/enforce", "privileged");
        let labels: BTreeMap<_, _> = [unrestricted].iter().chain(labels).copied().collect();
        let namespace = Namespace {
            metadata: ObjectMeta {
                generate_name: Some(format!("{prefix}-")),
                labels: Some(labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let namespaces = Api::<Namespace>::all(client.clone());
        let name = namespaces.create(&PostParams::default(), &namespace).await.expect("a namespace").name_any();
        // Without it, pods are refused.
        let accounts = Api::<ServiceAccount>::namespaced(client, &name);
        until("the default service account", async || accounts.get("default").await.ok()).await;
        Self { name }
    }
}
