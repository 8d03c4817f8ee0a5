//! The double of the agent: what it does on the cluster, with nothing but the
//! token of its pod's `ServiceAccount`.

use std::{collections::BTreeMap, time::Duration};

use http::Request;
use k8s_openapi::{
    api::{
        authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
        authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec},
        core::v1::{ConfigMap, Container, Pod},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use tokio::time::{Instant, sleep};

use super::document::Document;
use super::script::Content;
use super::{Cluster, token};

/// What the agent reads in any run, as R9 allows it: a list of paths in which
/// NS, POD and NODE stand for its own. What they name need not exist.
const READS: &[&str] = &[
    "/api/v1/nodes",
    "/api/v1/nodes/NODE",
    "/api/v1/namespaces/NS/pods",
    "/api/v1/namespaces/NS/pods/POD",
    "/api/v1/pods",
    "/api/v1/namespaces/kube-system/pods/none",
    "/apis/nvidia.com/v1/clusterpolicies",
    "/apis/nvidia.com/v1/clusterpolicies/none",
    "/apis/slinky.slurm.net/v1beta1/controllers",
    "/apis/slinky.slurm.net/v1beta1/nodesets",
    "/apis/slinky.slurm.net/v1beta1/loginsets",
    "/apis/slinky.slurm.net/v1beta1/restapis",
    "/apis/slinky.slurm.net/v1beta1/accountings",
    "/apis/k8s.mariadb.com/v1alpha1/mariadbs",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/psmdb.percona.com/v1/perconaservermongodbs",
    "/apis/apps/v1/daemonsets",
    "/apis/apps/v1/namespaces/kube-system/daemonsets/none",
];

/// What it does besides to discover the network: group, resources, verbs. These
/// change the cluster, so it only asks whether it might.
const DISCOVERY: &[(&str, &[&str], &[&str])] = &[
    ("apiextensions.k8s.io", &["customresourcedefinitions"], &["get", "list", "create", "update", "patch"]),
    ("", &["namespaces", "serviceaccounts", "configmaps"], &["get", "create", "delete"]),
    ("apps", &["daemonsets"], &["get", "list", "watch", "create", "delete"]),
    ("rbac.authorization.k8s.io", &["roles", "rolebindings"], &["get", "create", "delete"]),
    ("", &["pods/exec"], &["create"]),
    ("", &["nodes"], &["patch"]),
    ("configuration.net.nvidia.com", &["nicdevices"], &["get", "list"]),
    ("mellanox.com", &["nicclusterpolicies"], &["get", "patch"]),
];

/// How long the agent puts up with a refusal: grants reach the API server's
/// authorizer a little after they were written.
const GRANTS_TAKE_EFFECT: Duration = Duration::from_secs(5);

/// How long it puts up with an API server that is away.
const OUTAGE: Duration = Duration::from_mins(1);

/// The agent in one container. Its errors are lines for the container's log.
pub(super) struct Agent {
    client: Client,
    namespace: String,
    pod: String,
    node: String,
    environment: BTreeMap<String, String>,
    output: (String, String),
}

impl Agent {
    /// Starts the agent as its container has it: arguments and environment are
    /// those that R8 promises, or it refuses.
    pub(super) async fn start(cluster: &Cluster, pod: &Pod, container: &Container) -> Result<Self, String> {
        let environment = environment(pod, container);
        for (name, wanted) in [("AICR_AGENT_MODE", "true"), ("AICR_LOG_PREFIX", "agent")] {
            let value = environment.get(name).map(String::as_str);
            if value != Some(wanted) {
                return Err(format!("error: {name} is {value:?}, not {wanted:?}"));
            }
        }
        let node = environment.get("NODE_NAME").filter(|node| !node.is_empty()).ok_or("error: NODE_NAME is not set")?;
        Ok(Self {
            client: as_service_account(cluster, pod).await?,
            namespace: pod.namespace().unwrap_or_default(),
            pod: pod.name_any(),
            node: node.clone(),
            output: output(container)?,
            environment,
        })
    }

    /// Reads everything that the agent may read.
    pub(super) async fn read(&self) -> Result<(), String> {
        for path in READS {
            let path = path.replace("/NS/", &format!("/{}/", self.namespace));
            let path = path.replace("/POD", &format!("/{}", self.pod)).replace("/NODE", &format!("/{}", self.node));
            let mut patience = Patience::new(&path);
            while let Err(e) = self.get(&path).await {
                patience.endure(e).await?;
            }
        }
        if self.environment.get("AICR_DISCOVER_NETWORK").is_some_and(|value| value == "true") {
            for (group, resources, verbs) in DISCOVERY {
                for resource in *resources {
                    for verb in *verbs {
                        self.may(group, resource, verb).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// What the agent is going to write.
    pub(super) fn document(&self, content: Content) -> String {
        match content {
            Content::Document { size, gpu } => {
                // A ConfigMap's limit counts all of its values.
                Document { node: &self.node, seed: &self.output.1, size: size - 64, gpu }.yaml()
            }
            Content::EmptyDocument | Content::MissingKey => String::new(),
        }
    }

    /// Writes the output `ConfigMap` as R5 has it.
    pub(super) async fn write(&self, content: Content, document: &str) -> Result<(), String> {
        let (namespace, name) = &self.output;
        let mut data = BTreeMap::from([
            ("format".to_owned(), "yaml".to_owned()),
            ("timestamp".to_owned(), "2026-08-21T14:22:33Z".to_owned()),
        ]);
        if content != Content::MissingKey {
            data.insert("snapshot.yaml".to_owned(), document.to_owned());
        }
        let labels = [("name", "aicr"), ("component", "snapshot"), ("version", "v1.1.2")];
        let labels = labels.map(|(key, value)| (format!("app.kubernetes.io/{key}"), value.to_owned()));
        let config_map = ConfigMap {
            metadata: ObjectMeta { name: Some(name.clone()), labels: Some(labels.into()), ..ObjectMeta::default() },
            data: Some(data),
            ..ConfigMap::default()
        };
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), namespace);
        let apply = PatchParams::apply("aicr").force();
        let what = format!("configmap {namespace}/{name}");
        let mut patience = Patience::new(&what);
        while let Err(e) = api.patch(name, &apply, &Patch::Apply(&config_map)).await {
            patience.endure(e).await?;
        }
        Ok(())
    }

    async fn get(&self, path: &str) -> kube::Result<()> {
        let request = Request::get(format!("{path}?limit=1")).body(Vec::new()).map_err(kube::Error::HttpError)?;
        match self.client.request_text(request).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            answer => answer.map(drop),
        }
    }

    pub(super) fn target(&self) -> String {
        format!("cm://{}/{}", self.output.0, self.output.1)
    }

    async fn may(&self, group: &str, resource: &str, verb: &str) -> Result<(), String> {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    group: Some(group.to_owned()),
                    resource: Some(resource.to_owned()),
                    subresource: Some(subresource.to_owned()),
                    verb: Some(verb.to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let answer = Api::all(self.client.clone()).create(&PostParams::default(), &review).await;
        let answer: SelfSubjectAccessReview = answer.map_err(|e| format!("error: access review: {e}"))?;
        let allowed = answer.status.is_some_and(|status| status.allowed);
        allowed.then_some(()).ok_or_else(|| format!("error: may not {verb} {resource}.{group} {subresource}"))
    }
}

/// How long the agent repeats a call whose failure may heal.
struct Patience<'a> {
    what: &'a str,
    away: Option<Instant>,
    refused: Option<Instant>,
}

impl<'a> Patience<'a> {
    fn new(what: &'a str) -> Self {
        Self { what, away: None, refused: None }
    }

    /// Pauses before the next attempt, or gives up.
    async fn endure(&mut self, error: kube::Error) -> Result<(), String> {
        let (limit, since, cause) = match error {
            kube::Error::Api(status) if status.code == 403 => (GRANTS_TAKE_EFFECT, &mut self.refused, status.message),
            // A token that was valid: the API server is starting and knows no accounts yet.
            kube::Error::Api(status) if status.code == 401 => (OUTAGE, &mut self.away, status.message),
            kube::Error::Api(status) if status.code < 500 && status.code != 429 => {
                return Err(format!("error: {}: {}", self.what, status.message));
            }
            away => (OUTAGE, &mut self.away, away.to_string()),
        };
        if since.get_or_insert_with(Instant::now).elapsed() > limit {
            return Err(format!("error: {}: {cause}", self.what));
        }
        sleep(Duration::from_millis(100)).await;
        Ok(())
    }
}

/// A client with a token as the kubelet mounts it: bound to the pod.
async fn as_service_account(cluster: &Cluster, pod: &Pod) -> Result<Client, String> {
    let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone()).unwrap_or_default();
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".into()),
                kind: Some("Pod".into()),
                name: pod.metadata.name.clone(),
                uid: pod.metadata.uid.clone(),
            }),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let mut patience = Patience::new("a token of the pod's service account");
    let token = loop {
        match token(&cluster.client, &pod.namespace().unwrap_or_default(), &account, &request).await {
            Ok(token) => break token,
            Err(e) => patience.endure(e).await?,
        }
    };
    Ok((cluster.connect)(token).await)
}

fn environment(pod: &Pod, container: &Container) -> BTreeMap<String, String> {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let variables = container.env.iter().flatten().filter_map(|variable| {
        let field = variable.value_from.as_ref().and_then(|source| source.field_ref.as_ref());
        let value = match field.map(|field| field.field_path.as_str()) {
            Some("spec.nodeName") => node.clone(),
            _ => variable.value.clone(),
        };
        Some((variable.name.clone(), value?))
    });
    variables.collect()
}

/// Namespace and name of `-o cm://NAMESPACE/NAME`.
fn output(container: &Container) -> Result<(String, String), String> {
    let command = container.command.iter().chain(&container.args).flatten().map(String::as_str).collect::<Vec<_>>();
    let position = command.iter().position(|&argument| argument == "-o");
    let value = position.and_then(|position| command.get(position + 1)).and_then(|value| value.strip_prefix("cm://"));
    match value.and_then(|value| value.split_once('/')) {
        Some((namespace, name)) if command[0] == "aicr" && command.contains(&"snapshot") => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err(format!("error: not the agent's command: {command:?}")),
    }
}
