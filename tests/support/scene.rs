//! One test's run: a namespace, a home, and what stands on the cluster of it.

use std::{collections::BTreeMap, ops::Deref};

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Namespace, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{
    bed::{Bed, Private},
    cli::{Home, Invocation},
    namespace::TestNamespace,
    proxy::Proxy,
    wait::until,
};

/// What stands on the cluster: `Kind namespace/name` to UID.
pub(crate) type Objects = BTreeMap<String, String>;

/// The bed of a scene.
pub(crate) enum Stage {
    Shared(&'static Bed),
    Private(Box<Private>),
}

impl Deref for Stage {
    type Target = Bed;

    fn deref(&self) -> &Bed {
        match self {
            Self::Shared(bed) => bed,
            Self::Private(bed) => bed,
        }
    }
}

/// A namespace, a home with a kubeconfig for an administrator, and a run ID, all of one test.
pub(crate) struct Scene {
    pub(crate) bed: Stage,
    pub(crate) client: Client,
    pub(crate) namespace: TestNamespace,
    pub(crate) home: Home,
    pub(crate) run_id: String,
}

impl Scene {
    /// Straight to the API server.
    pub(crate) async fn new(prefix: &str) -> Self {
        let bed = Bed::shared().await;
        Self::with_kubeconfig(Stage::Shared(bed), prefix, &bed.kubeconfig(bed.admin(), None)).await
    }

    /// Straight to the API server of a bed that goes with the scene.
    pub(crate) async fn on(bed: Private, prefix: &str) -> Self {
        let kubeconfig = bed.kubeconfig(bed.admin(), None);
        Self::with_kubeconfig(Stage::Private(Box::new(bed)), prefix, &kubeconfig).await
    }

    /// Through a proxy of the test's own.
    pub(crate) async fn behind(prefix: &str, proxy: &Proxy) -> Self {
        let bed = Bed::shared().await;
        let admin = bed.user("root", &["system:masters"]);
        Self::with_kubeconfig(Stage::Shared(bed), prefix, &proxy.kubeconfig(&admin, None)).await
    }

    async fn with_kubeconfig(bed: Stage, prefix: &str, kubeconfig: &str) -> Self {
        let namespace = bed.namespace(prefix).await;
        Self {
            client: bed.admin_client().await,
            bed,
            run_id: namespace.name.clone(),
            home: Home::new().kubeconfig(kubeconfig),
            namespace,
        }
    }

    /// `kubectl aicr snapshot` with the image of a script, under this scene's run ID.
    pub(crate) fn snapshot(&self, script: &str) -> Invocation {
        let image = format!("registry.test/aicr:{script}");
        self.home.aicr(["snapshot", "-n", &self.namespace.name, "--image", &image, "--run-id", &self.run_id])
    }

    /// Gives the namespace the label that a run would.
    pub(crate) async fn adopt_namespace(&self) {
        let label = Patch::Merge(json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": "aicr" } } }));
        let namespaces = Api::<Namespace>::all(self.client.clone());
        namespaces.patch(&self.namespace.name, &PatchParams::default(), &label).await.unwrap();
    }

    /// What the agent wrote last.
    pub(crate) fn document(&self) -> String {
        let job = format!("aicr-{}", self.run_id);
        self.bed.document(&self.namespace.name, &job).expect("the agent wrote a document")
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace.name)
    }

    /// Everything of this scene's run, and every `ConfigMap` of an agent in its namespace.
    pub(crate) async fn objects(&self) -> Objects {
        let mut found = Objects::new();
        let of_run = format!("aicr.run/run-id={}", self.run_id);
        collect(&mut found, self.api::<Job>(), &of_run).await;
        collect(&mut found, self.api::<ServiceAccount>(), &of_run).await;
        collect(&mut found, self.api::<Role>(), &of_run).await;
        collect(&mut found, self.api::<RoleBinding>(), &of_run).await;
        collect(&mut found, Api::<ClusterRole>::all(self.client.clone()), &of_run).await;
        collect(&mut found, Api::<ClusterRoleBinding>::all(self.client.clone()), &of_run).await;
        collect(&mut found, self.api::<ConfigMap>(), "app.kubernetes.io/name=aicr").await;
        found
    }

    /// Fails unless nothing of the run is left.
    #[track_caller]
    pub(crate) fn assert_clean(&self) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        async move {
            let left = self.objects().await;
            assert!(left.is_empty(), "left on the cluster, looked at from {caller}: {left:#?}");
        }
    }

    /// Waits until the agent's container runs.
    pub(crate) async fn agent_runs(&self) {
        let pods = self.api::<k8s_openapi::api::core::v1::Pod>();
        until("the agent to run", async || {
            let pods = pods.list(&ListParams::default()).await.unwrap();
            let running = |pod: &k8s_openapi::api::core::v1::Pod| pod.status.as_ref()?.phase.clone();
            pods.iter().any(|pod| running(pod).as_deref() == Some("Running")).then_some(())
        })
        .await;
    }

    /// Takes away what a run kept on purpose.
    pub(crate) async fn remove_everything(&self) {
        let of_run = ListParams::default().labels(&format!("aicr.run/run-id={}", self.run_id));
        let foreground = DeleteParams::foreground();
        self.api::<Job>().delete_collection(&foreground, &of_run).await.unwrap();
        Api::<ClusterRole>::all(self.client.clone()).delete_collection(&foreground, &of_run).await.unwrap();
        Api::<ClusterRoleBinding>::all(self.client.clone()).delete_collection(&foreground, &of_run).await.unwrap();
    }
}

async fn collect<K>(found: &mut Objects, api: Api<K>, labels: &str)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    for object in api.list(&ListParams::default().labels(labels)).await.unwrap() {
        let name = match object.namespace() {
            Some(namespace) => format!("{} {namespace}/{}", K::kind(&()), object.name_any()),
            None => format!("{} {}", K::kind(&()), object.name_any()),
        };
        found.insert(name, object.uid().unwrap());
    }
}
