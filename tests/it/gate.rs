//! The gate: everything is checked before anything is written (R11, R15–R19).

mod accounts;
mod minimal;
mod surroundings;

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::support::{
    bed::Bed,
    cli::{Home, Invocation, Outcome},
    kubeconfig::User,
    namespace::TestNamespace,
    proxy::Proxy,
};

const MANAGED: (&str, &str) = ("app.kubernetes.io/managed-by", "aicr");

/// A namespace and a user of its own.
struct Case {
    bed: &'static Bed,
    namespace: TestNamespace,
    user: User,
}

impl Case {
    async fn new(prefix: &str) -> Self {
        Self::labelled(prefix, &[MANAGED]).await
    }

    async fn labelled(prefix: &str, labels: &[(&str, &str)]) -> Self {
        let bed = Bed::shared().await;
        let namespace = bed.namespace_with_labels(prefix, labels).await;
        let user = bed.user(&format!("user-of-{}", namespace.name), &[]);
        Self { bed, namespace, user }
    }

    fn name(&self) -> &str {
        &self.namespace.name
    }

    /// A user who may do everything, by token.
    fn admin(&self) -> User {
        self.bed.user("gate-admin", &["system:masters"])
    }

    async fn grant(&self, permissions: &[Permission]) {
        self.grant_to(&self.user, permissions).await;
    }

    async fn grant_to(&self, user: &User, permissions: &[Permission]) {
        for place in [Place::Namespace, Place::Cluster] {
            let here = permissions.iter().filter(|permission| permission.place == place);
            let rules: Vec<PolicyRule> = here.map(Permission::rule).collect();
            if !rules.is_empty() {
                let namespace = (place == Place::Namespace).then_some(self.name());
                self.bed.grant(user, namespace, &rules).await;
            }
        }
    }

    /// `snapshot` as a user.
    fn snapshot(&self, user: &User) -> Invocation {
        snapshot_by(&self.bed.kubeconfig(user, Some(self.name())))
    }

    /// `snapshot` as a user, with all requests passing the proxy.
    fn snapshot_through(&self, proxy: &Proxy, user: &User) -> Invocation {
        snapshot_by(&proxy.kubeconfig(user, Some(self.name())))
    }
}

fn snapshot_by(kubeconfig: &str) -> Invocation {
    Home::new().kubeconfig(kubeconfig).aicr(["snapshot", "--image", "registry.test/aicr:success"])
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Namespace,
    Cluster,
}

/// One verb on one resource, as RBAC grants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Permission {
    place: Place,
    group: &'static str,
    resource: &'static str,
    verb: &'static str,
}

impl Permission {
    fn rule(&self) -> PolicyRule {
        PolicyRule {
            api_groups: Some(vec![self.group.to_owned()]),
            resources: Some(vec![self.resource.to_owned()]),
            verbs: vec![self.verb.to_owned()],
            ..PolicyRule::default()
        }
    }

    /// As a row of the report names it.
    fn named(&self) -> String {
        if self.group.is_empty() {
            format!("{} {}", self.verb, self.resource)
        } else {
            format!("{} {}.{}", self.verb, self.resource, self.group)
        }
    }
}

/// `verb,verb group/resource` in the namespace.
fn here(verbs: &[&'static str], group: &'static str, resource: &'static str) -> Vec<Permission> {
    permissions(Place::Namespace, verbs, group, resource)
}

/// The same in the whole cluster.
fn cluster(verbs: &[&'static str], group: &'static str, resource: &'static str) -> Vec<Permission> {
    permissions(Place::Cluster, verbs, group, resource)
}

fn permissions(place: Place, verbs: &[&'static str], group: &'static str, resource: &'static str) -> Vec<Permission> {
    verbs.iter().map(|&verb| Permission { place, group, resource, verb }).collect()
}

/// The rows of the report's table: `VERB RESOURCE`, one for each verb.
fn missing(out: &Outcome) -> Vec<String> {
    let text = out.stderr();
    let rows = text.lines().skip_while(|line| !line.starts_with("WHO ")).skip(1).take_while(|line| !line.is_empty());
    rows.flat_map(|row| {
        let cells: Vec<&str> = row.split("   ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(cells.len(), 5, "{row}");
        let resource = cells[2].to_owned();
        cells[1].split(", ").map(move |verb| format!("{verb} {resource}")).collect::<Vec<_>>()
    })
    .collect()
}
