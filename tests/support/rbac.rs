//! Rights for the users of tests.

use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding},
};
use kube::{Api, Client, Resource, api::PostParams};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::wait::until;

/// Grants rules to a user and waits until they are in force.
pub(crate) async fn grant(client: &Client, user: &str, namespace: Option<&str>, rules: &[PolicyRule]) {
    let name = format!("granted-{:016x}", getrandom::u64().expect("random numbers"));
    let kind = if namespace.is_some() { "Role" } else { "ClusterRole" };
    let metadata = json!({ "name": name });
    let role = json!({ "metadata": metadata, "rules": rules });
    let binding = json!({
        "metadata": metadata,
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    });
    if let Some(namespace) = namespace {
        create(&Api::<Role>::namespaced(client.clone(), namespace), role).await;
        create(&Api::<RoleBinding>::namespaced(client.clone(), namespace), binding).await;
    } else {
        create(&Api::<ClusterRole>::all(client.clone()), role).await;
        create(&Api::<ClusterRoleBinding>::all(client.clone()), binding).await;
    }
    for rule in rules {
        in_force(client, user, namespace, rule).await;
    }
}

async fn create<K>(api: &Api<K>, object: Value)
where
    K: Resource + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    let object = serde_json::from_value(object).expect("a valid object");
    api.create(&PostParams::default(), &object).await.expect("the grant is created");
}

/// Waits until the API server's authorizer has seen the grant.
async fn in_force(client: &Client, user: &str, namespace: Option<&str>, rule: &PolicyRule) {
    let first = |list: &Option<Vec<String>>| list.iter().flatten().next().cloned();
    let Some((resource, verb)) = first(&rule.resources).zip(rule.verbs.first()) else {
        return;
    };
    let (resource, subresource) = match resource.split_once('/') {
        Some((resource, subresource)) => (resource.to_owned(), Some(subresource.to_owned())),
        None => (resource, None),
    };
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.to_owned()),
            resource_attributes: Some(ResourceAttributes {
                namespace: namespace.map(str::to_owned),
                group: first(&rule.api_groups),
                resource: Some(resource),
                subresource,
                name: first(&rule.resource_names),
                verb: Some(verb.clone()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews = Api::<SubjectAccessReview>::all(client.clone());
    until("a grant to be in force", async || {
        let answer = reviews.create(&PostParams::default(), &review).await.ok()?;
        answer.status?.allowed.then_some(())
    })
    .await;
}
