//! RBAC that an administrator keeps for a `ServiceAccount` which runs the agent (R12–R14). Pure: no cluster is asked.

use std::fmt::Write as _;

use crate::agent::manifests::{self, Manifest, text};
use crate::agent::object::{Kind, ObjectRef};
use crate::agent::rules::{self, Rule};
use crate::agent::{labels, names};
use crate::error::Invalid;

/// Longest line of a comment.
const WIDTH: usize = 100;

/// For whom the manifests are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleOptions {
    /// Namespace of the account and of the runs. A DNS-1123 label.
    pub namespace: String,
    /// Name of the `ServiceAccount`. A DNS-1123 subdomain.
    pub service_account: String,
    /// Grants what network discovery needs. That changes the cluster.
    pub discover_network: bool,
}

/// One of the four objects, ready to be written or applied.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleManifest {
    object: ObjectRef,
    body: serde_json::Value,
    file_name: &'static str,
    comments: String,
}

impl RoleManifest {
    /// Which object it is.
    #[must_use]
    pub fn object(&self) -> &ObjectRef {
        &self.object
    }

    /// The object as the API server takes it.
    #[must_use]
    pub fn body(&self) -> &serde_json::Value {
        &self.body
    }

    /// Name of its file. In the order of these names a role comes before the binding that names it.
    #[must_use]
    pub fn file_name(&self) -> &'static str {
        self.file_name
    }

    /// A YAML document that opens with comments: what it grants, why, how to apply it and how to revoke it.
    #[must_use]
    pub fn yaml(&self) -> String {
        format!("{}{}", self.comments, text::yaml(&self.body))
    }
}

/// The four objects that let the agent run as an existing `ServiceAccount`: a `Role` and a `ClusterRole` with the very
/// rules that a run grants an account of its own, and their bindings. One input gives the same bytes every time.
///
/// # Errors
/// [`Invalid`] if the account or the namespace cannot exist under its name.
pub fn service_account_role_manifests(options: &RoleOptions) -> Result<Vec<RoleManifest>, Invalid> {
    let RoleOptions { namespace, service_account: account, discover_network } = options;
    names::check_dns_subdomain(account).map_err(|rule| Invalid::new("--service-account", account, rule))?;
    names::check_dns_label(namespace).map_err(|rule| Invalid::new("--namespace", namespace, rule))?;

    let labels = labels::of_agent_rbac();
    let subject = manifests::subject(namespace, account);
    let name = format!("aicr-agent-{account}-rbac");
    // A namespace holds no dot, so the pair stays apart; names of runs end in hex digits.
    let cluster_name = format!("aicr-agent-{namespace}.{account}-rbac");
    let files = [
        ("01-role.yaml", manifests::role(namespace, &name, &labels, rules::NAMESPACE.iter().map(Rule::policy))),
        ("02-rolebinding.yaml", manifests::role_binding(namespace, &name, &labels, &subject)),
        (
            "03-clusterrole.yaml",
            manifests::cluster_role(&cluster_name, &labels, rules::cluster(*discover_network).map(Rule::policy)),
        ),
        ("04-clusterrolebinding.yaml", manifests::cluster_role_binding(&cluster_name, &labels, &subject)),
    ];
    let objects = files.each_ref().map(|(_, manifest)| manifest.object.clone());
    let manifest = |(file_name, Manifest { object, body }): (&'static str, Manifest)| RoleManifest {
        comments: comments(options, &object, &objects),
        object,
        body,
        file_name,
    };
    Ok(files.into_iter().map(manifest).collect())
}

fn comments(options: &RoleOptions, object: &ObjectRef, all: &[ObjectRef]) -> String {
    let RoleOptions { namespace, service_account, discover_network } = options;
    let network = *discover_network;
    let subject = format!("ServiceAccount {namespace}/{service_account}");
    let (scope, rules, changing): (_, Vec<&Rule>, &[Rule]) = match object.kind {
        Kind::ClusterRole | Kind::ClusterRoleBinding => {
            let changing = if network { rules::DISCOVER_NETWORK } else { &[] };
            ("the whole cluster".to_owned(), rules::cluster(false).collect(), changing)
        }
        _ => (format!("namespace {namespace}"), rules::NAMESPACE.iter().collect(), &[]),
    };
    let mut text = Comments::default();
    text.line(&if object.kind.is_binding() {
        format!("{object}: gives the rights below, in {scope}, to {subject}, as which the snapshot agent of aicr runs.")
    } else {
        format!(
            "{object}: the rights that the snapshot agent of aicr needs in {scope}. Its binding gives them to {subject}."
        )
    });
    text.blank();
    text.line("Each rule and why the agent needs it:");
    text.rules(rules);
    if !changing.is_empty() {
        text.blank();
        text.line("Rules for network discovery (--discover-network). THESE CHANGE THE CLUSTER:");
        text.rules(changing);
    }
    text.blank();
    text.line(shared_account(network));
    text.blank();
    text.line("Nothing has been applied. To apply what the current directory holds (standard input: -f -):");
    text.command("kubectl apply -f .");
    text.line("To revoke:");
    for command in revoke_commands(all) {
        text.command(&command);
    }
    text.0
}

/// What it costs to let runs share an account that they do not own.
pub(crate) fn shared_account(discover_network: bool) -> &'static str {
    if discover_network {
        "The rights stay until they are revoked, those that change the cluster included, also while no run discovers \
         a network. Every run that names this account shares them with all others at the same time, and whoever may \
         create pods in the namespace can use them."
    } else {
        "The rights stay until they are revoked. Every run that names this account shares them with all others at the \
         same time, and whoever may create pods in the namespace can use them."
    }
}

/// Commands that take the objects away again: bindings first, so that no right outlives its role's name.
fn revoke_commands(objects: &[ObjectRef]) -> Vec<String> {
    let mut objects: Vec<&ObjectRef> = objects.iter().collect();
    objects.sort_by_key(|object| !object.kind.is_binding());
    objects
        .iter()
        .map(|object| {
            let kind = object.kind.as_str().to_lowercase();
            match &object.namespace {
                Some(namespace) => format!("kubectl delete -n {namespace} {kind}/{}", object.name),
                None => format!("kubectl delete {kind}/{}", object.name),
            }
        })
        .collect()
}

#[derive(Default)]
struct Comments(String);

impl Comments {
    fn line(&mut self, text: &str) {
        self.wrapped("# ", "# ", text);
    }

    fn rules<'a>(&mut self, rules: impl IntoIterator<Item = &'a Rule>) {
        for rule in rules {
            self.wrapped("#   - ", "#     ", &rule.to_string());
        }
    }

    // Never wrapped: it is there to be copied.
    fn command(&mut self, command: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "#   {command}");
    }

    fn blank(&mut self) {
        self.0.push_str("#\n");
    }

    fn wrapped(&mut self, first: &str, rest: &str, text: &str) {
        let mut line = first.to_owned();
        let mut empty = true;
        for word in text.split(' ') {
            if !empty && line.len() + 1 + word.len() > WIDTH {
                let _ = writeln!(self.0, "{line}");
                rest.clone_into(&mut line);
                empty = true;
            }
            if !empty {
                line.push(' ');
            }
            line.push_str(word);
            empty = false;
        }
        let _ = writeln!(self.0, "{line}");
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};

    use super::*;

    fn options(discover_network: bool) -> RoleOptions {
        RoleOptions { namespace: "gpu-operator".to_owned(), service_account: "irsa-sa".to_owned(), discover_network }
    }

    fn rendered(discover_network: bool) -> Vec<RoleManifest> {
        service_account_role_manifests(&options(discover_network)).unwrap()
    }

    #[test]
    fn r12_names_keep_namespaces_accounts_and_runs_apart() {
        let names: Vec<String> = rendered(false).iter().map(|manifest| manifest.object().to_string()).collect();
        assert_eq!(
            names,
            [
                "Role gpu-operator/aicr-agent-irsa-sa-rbac",
                "RoleBinding gpu-operator/aicr-agent-irsa-sa-rbac",
                "ClusterRole aicr-agent-gpu-operator.irsa-sa-rbac",
                "ClusterRoleBinding aicr-agent-gpu-operator.irsa-sa-rbac",
            ]
        );
    }

    #[test]
    fn r12_labels_name_the_component_and_no_run() {
        for manifest in rendered(true) {
            let labels = serde_json::to_value(labels::of_agent_rbac()).unwrap();
            assert_eq!(manifest.body()["metadata"]["labels"], labels);
            assert!(!manifest.yaml().contains("aicr.run/"));
        }
    }

    #[test]
    fn r9_the_rules_are_those_of_the_one_table() {
        for network in [false, true] {
            let [role, role_binding, cluster_role, cluster_role_binding]: [RoleManifest; 4] =
                rendered(network).try_into().unwrap();
            let role: Role = serde_json::from_value(role.body).unwrap();
            assert_eq!(role.rules.unwrap(), rules::NAMESPACE.iter().map(Rule::policy).collect::<Vec<_>>());
            let cluster_role: ClusterRole = serde_json::from_value(cluster_role.body).unwrap();
            assert_eq!(cluster_role.rules.unwrap(), rules::cluster(network).map(Rule::policy).collect::<Vec<_>>());

            let subject = vec![manifests::subject("gpu-operator", "irsa-sa")];
            let role_binding: RoleBinding = serde_json::from_value(role_binding.body).unwrap();
            assert_eq!(role_binding.role_ref.name, role.metadata.name.unwrap());
            assert_eq!(role_binding.subjects, Some(subject.clone()));
            let binding: ClusterRoleBinding = serde_json::from_value(cluster_role_binding.body).unwrap();
            assert_eq!(binding.role_ref.name, cluster_role.metadata.name.unwrap());
            assert_eq!(binding.subjects, Some(subject));
        }
    }

    #[test]
    fn r14_comments_give_each_rule_its_reason_and_never_change_the_object() {
        for manifest in rendered(true) {
            let yaml = manifest.yaml();
            let unwrapped = yaml.replace("\n#     ", " ");
            let rules: Vec<&Rule> = match manifest.object().kind {
                Kind::Role | Kind::RoleBinding => rules::NAMESPACE.iter().collect(),
                _ => rules::cluster(true).collect(),
            };
            for rule in rules {
                assert!(unwrapped.contains(&format!("#   - {rule}\n")), "{rule} in {yaml}");
            }
            assert_eq!(serde_saphyr::from_str::<serde_json::Value>(&yaml).unwrap(), manifest.body);
        }
    }

    #[test]
    fn r14_two_runs_give_the_same_bytes() {
        assert_eq!(rendered(true), rendered(true));
    }

    #[test]
    fn r14_opening_comments_read_well() {
        insta::assert_snapshot!(rendered(true)[3].yaml());
    }

    #[test]
    fn r12_an_account_or_namespace_that_cannot_exist_is_refused() {
        for (namespace, account, flag) in [
            ("gpu", "Upper", "--service-account"),
            ("gpu", "", "--service-account"),
            ("gpu", "a/b", "--service-account"),
            ("gpu", &"a".repeat(254), "--service-account"),
            ("a.b", "sa", "--namespace"),
            (&"n".repeat(64), "sa", "--namespace"),
        ] {
            let options = RoleOptions {
                namespace: namespace.to_owned(),
                service_account: account.to_owned(),
                discover_network: false,
            };
            let error = service_account_role_manifests(&options).unwrap_err().to_string();
            assert!(error.contains(flag), "{error}");
        }
        let options = RoleOptions { service_account: "team.sa-1".to_owned(), ..options(false) };
        assert!(service_account_role_manifests(&options).is_ok());
    }
}
