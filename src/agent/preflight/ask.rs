//! The gate's requests: reads, reviews and dry runs. None of them changes anything, so each may be repeated.

use std::fmt::Debug;
use std::time::Duration;

use futures::future::try_join_all;
use k8s_openapi::api::authentication::v1::{SelfSubjectReview, UserInfo};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};

use crate::agent::cluster::{Cluster, if_found};
use crate::agent::manifests::Manifest;
use crate::agent::preflight::Label;
use crate::agent::preflight::check::{Check, Scope, Who};
use crate::error::{ApiError, Failure};

/// Label of the nodes that have a GPU.
pub(super) const GPU_NODE: Label = ("nvidia.com/gpu.present", "true");

/// How long the look for GPU nodes may take (R25).
const GPU_NODE_TIMEOUT: Duration = Duration::from_secs(5);

/// A permission and whether it is there.
pub(super) type Answered = (Check, Answer);

/// What a review said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Allowed,
    /// Denied, perhaps with the server's remark that it could not evaluate everything.
    Denied(Option<String>),
    /// The review itself was refused: nobody knows.
    Unverified(String),
}

/// What a read said.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Seen {
    There(Box<ObjectMeta>),
    Absent,
    Forbidden,
}

/// Asks the API server until the deadline.
#[derive(Clone, Copy)]
pub(super) struct Asker<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) deadline: Instant,
}

impl Asker<'_> {
    /// Whether the permissions are there: all reviews at once.
    /// RBAC: `create` on selfsubjectaccessreviews, and on subjectaccessreviews for another's.
    pub(super) async fn all(&self, checks: Vec<Check>) -> Result<Vec<Answered>, ApiError> {
        try_join_all(checks.into_iter().map(|check| self.one(check))).await
    }

    pub(super) async fn one(&self, check: Check) -> Result<Answered, ApiError> {
        let review = match &check.who {
            Who::Caller => self.review_caller(&check).await,
            Who::Account { namespace, name } => self.review_account(&check, namespace, name).await,
        };
        let answer = match review {
            Ok(status) if status.allowed => Answer::Allowed,
            Ok(status) => Answer::Denied(status.evaluation_error.filter(|remark| !remark.is_empty())),
            Err(error) if error.is_forbidden() || error.has_code(404) || error.has_code(405) => {
                Answer::Unverified(error.to_string())
            }
            Err(error) => return Err(error),
        };
        Ok((check, answer))
    }

    async fn review_caller(&self, check: &Check) -> Result<SubjectAccessReviewStatus, ApiError> {
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes(check)),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let answer = self.post(&format!("find out whether you may {check}"), &review).await?;
        Ok(answer.status.unwrap_or_default())
    }

    async fn review_account(
        &self,
        check: &Check,
        namespace: &str,
        name: &str,
    ) -> Result<SubjectAccessReviewStatus, ApiError> {
        let groups = ["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}"), "system:authenticated"];
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!("system:serviceaccount:{namespace}:{name}")),
                groups: Some(groups.map(str::to_owned).into()),
                resource_attributes: Some(attributes(check)),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let answer = self.post(&format!("find out whether {} may {check}", check.who), &review).await?;
        Ok(answer.status.unwrap_or_default())
    }

    /// Who the caller is. RBAC: `create` on selfsubjectreviews.
    pub(super) async fn who_am_i(&self) -> Result<UserInfo, ApiError> {
        let answer = self.post("find out who you are", &SelfSubjectReview::default()).await?;
        Ok(answer.status.and_then(|status| status.user_info).unwrap_or_default())
    }

    async fn post<K>(&self, action: &str, review: &K) -> Result<K, ApiError>
    where
        K: kube::Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug,
    {
        let api: Api<K> = Api::all(self.cluster.client());
        let parameters = PostParams::default();
        self.cluster.repeated(action, self.deadline, || api.create(&parameters, review)).await
    }

    /// Looks whether an object is there; its metadata is all that is asked for. RBAC: `get` on the kind.
    pub(super) async fn look<K>(&self, api: &Api<K>, name: &str) -> Result<Seen, ApiError>
    where
        K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let action = format!("look for {} {name}", K::kind(&()));
        match if_found(self.cluster.repeated(&action, self.deadline, || api.get_metadata(name)).await) {
            Ok(Some(live)) => Ok(Seen::There(Box::new(live.metadata))),
            Ok(None) => Ok(Seen::Absent),
            Err(error) if error.is_forbidden() => Ok(Seen::Forbidden),
            Err(error) => Err(error),
        }
    }

    /// What the server would say to a create. RBAC: `create` on the kind.
    pub(super) async fn dry_run(&self, manifest: &Manifest) -> Result<Result<(), Box<kube::core::Status>>, ApiError> {
        match self.cluster.dry_run(manifest, self.deadline).await {
            Ok(_) => Ok(Ok(())),
            Err(ApiError { failure: Failure::Status(status), .. }) if status.code != 401 => Ok(Err(status)),
            Err(error) => Err(error),
        }
    }

    /// Whether a node with a GPU is known. RBAC: `list` on nodes.
    pub(super) async fn gpu_node(&self) -> Result<bool, String> {
        let (key, value) = GPU_NODE;
        let api: Api<Node> = Api::all(self.cluster.client());
        let one = ListParams::default().labels(&format!("{key}={value}")).limit(1);
        let look = self.cluster.bounded("look for GPU nodes", api.list_metadata(&one));
        match timeout(GPU_NODE_TIMEOUT, look).await {
            Ok(Ok(nodes)) => Ok(!nodes.items.is_empty()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("cannot look for GPU nodes: no answer within {GPU_NODE_TIMEOUT:?}")),
        }
    }
}

fn attributes(check: &Check) -> ResourceAttributes {
    let (resource, subresource) = match check.resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
        None => (check.resource.as_str(), None),
    };
    ResourceAttributes {
        namespace: match &check.scope {
            Scope::Namespace(namespace) => Some(namespace.clone()),
            Scope::Cluster => None,
        },
        verb: Some(check.verb.clone()),
        group: Some(check.group.clone()),
        resource: Some(resource.to_owned()),
        subresource,
        name: check.name.clone(),
        ..ResourceAttributes::default()
    }
}
