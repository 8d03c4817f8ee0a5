//! What a caller wants of a run. Pure: what can be refused without a cluster is refused here.

mod builder;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::agent::names;
use crate::agent::run_id::RunId;
use crate::error::Invalid;

/// The agent's image, unless the caller names another.
pub const DEFAULT_IMAGE: &str = "ghcr.io/nvidia/aicr:v1.1.2";

/// How long a run may take after its pre-flight, unless the caller says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_mins(5);

/// How long cleanup may take, unless the caller says otherwise.
pub const DEFAULT_CLEANUP_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a single call to the API server may take, unless the caller says otherwise. Watches and logs are not
/// single calls.
pub const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Limit that `require_gpu` sets in privileged mode.
pub(crate) const GPU_RESOURCE: &str = "nvidia.com/gpu";

/// What a run does. Start from [`Config::new`] and set what differs. What makes no sense is refused by
/// [`Deployer::new`](crate::Deployer::new).
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own, as the command line has them")]
pub struct Config {
    pub(crate) namespace: String,
    pub(crate) run_id: Option<RunId>,
    pub(crate) name_base: String,
    pub(crate) job_name: Option<String>,
    pub(crate) service_account_name: Option<String>,
    pub(crate) image: String,
    pub(crate) image_pull_secrets: Vec<String>,
    pub(crate) node_selector: Option<BTreeMap<String, String>>,
    pub(crate) tolerations: Option<Vec<Toleration>>,
    pub(crate) privileged: bool,
    pub(crate) require_gpu: bool,
    pub(crate) runtime_class: Option<String>,
    pub(crate) os: Option<String>,
    pub(crate) requests: BTreeMap<String, Quantity>,
    pub(crate) limits: BTreeMap<String, Quantity>,
    pub(crate) max_nodes_per_entry: Option<u32>,
    pub(crate) discover_network: bool,
    pub(crate) debug: bool,
    pub(crate) output: Output,
    pub(crate) keep: Keep,
    pub(crate) timeout: Duration,
    pub(crate) cleanup_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) ledger: Option<LedgerPlace>,
}

/// Where a run keeps its ledger (R35, R36).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LedgerPlace {
    /// Directory of all ledgers of this user. It is made if it is missing.
    pub(crate) directory: PathBuf,
    /// Address of the API server: it tells clusters apart where the `kube-system` Namespace may not be read.
    pub(crate) server: http::Uri,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            namespace: "default".to_owned(),
            run_id: None,
            name_base: "aicr".to_owned(),
            job_name: None,
            service_account_name: None,
            image: DEFAULT_IMAGE.to_owned(),
            image_pull_secrets: Vec::new(),
            node_selector: None,
            tolerations: None,
            privileged: true,
            require_gpu: false,
            runtime_class: None,
            os: None,
            requests: BTreeMap::new(),
            limits: BTreeMap::new(),
            max_nodes_per_entry: None,
            discover_network: false,
            debug: false,
            output: Output::Staging,
            keep: Keep::Nothing,
            timeout: DEFAULT_TIMEOUT,
            cleanup_timeout: DEFAULT_CLEANUP_TIMEOUT,
            request_timeout: DEFAULT_REQUEST_TIMEOUT,
            ledger: None,
        }
    }
}

/// Where the agent leaves the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// In a `ConfigMap` of the run, which cleanup deletes.
    Staging,
    /// In a `ConfigMap` that the user named: theirs, never deleted.
    ConfigMap {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// `cm://namespace/name`
impl FromStr for Output {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "must be cm://NAMESPACE/NAME with a valid namespace and ConfigMap name";
        let (namespace, name) = text.strip_prefix("cm://").and_then(|rest| rest.split_once('/')).ok_or(FORM)?;
        names::check_dns_label(namespace).or(Err(FORM))?;
        names::check_dns_subdomain(name).or(Err(FORM))?;
        Ok(Self::ConfigMap { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Staging => f.write_str("a ConfigMap of the run"),
            Self::ConfigMap { namespace, name } => write!(f, "cm://{namespace}/{name}"),
        }
    }
}

/// What cleanup leaves on the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Nothing: every object of the created-set is deleted.
    Nothing,
    /// The Job with its pod and log; rights and the staging `ConfigMap` go.
    Job,
    /// Everything.
    Everything,
}

impl Config {
    /// Refuses what no cluster is needed to refuse.
    ///
    /// # Errors
    /// [`Invalid`] naming the flag, its value and the rule.
    pub(crate) fn validate(&self) -> Result<(), Invalid> {
        let check =
            |flag, value: &str, rule: Result<(), &'static str>| rule.map_err(|rule| Invalid::new(flag, value, rule));
        check("--namespace", &self.namespace, names::check_dns_label(&self.namespace))?;
        check("--image", &self.image, check_image(&self.image))?;
        for secret in &self.image_pull_secrets {
            check("--image-pull-secret", secret, names::check_dns_subdomain(secret))?;
        }
        for (key, value) in self.node_selector.iter().flatten() {
            let pair = format!("{key}={value}");
            check("--node-selector", &pair, names::check_label_key(key))?;
            check("--node-selector", &pair, names::check_label_value(value))?;
        }
        if let Some(class) = &self.runtime_class {
            check("--runtime-class", class, names::check_dns_subdomain(class))?;
        }
        if let Some(os) = &self.os {
            check("--os", os, names::check_dns_label(os))?;
        }
        if self.max_nodes_per_entry == Some(0) {
            return Err(Invalid::new("--max-nodes-per-entry", "0", "must be at least 1"));
        }
        if self.require_gpu
            && let Some(class) = &self.runtime_class
        {
            return Err(Invalid::new(
                "--runtime-class",
                class,
                "cannot be used with --require-gpu: a GPU is had either by a device-plugin limit or by the runtime class",
            ));
        }
        for (flag, duration) in [("--timeout", self.timeout), ("--cleanup-timeout", self.cleanup_timeout)] {
            if duration.is_zero() {
                return Err(Invalid::new(flag, "0s", "must be longer than zero"));
            }
        }
        Ok(())
    }

    /// Whether the agent's pod must leave out what only a systemd host has.
    pub(crate) fn is_talos(&self) -> bool {
        self.os.as_deref() == Some("talos")
    }
}

/// An image reference as far as the API server and every runtime agree on it: a repository in lower case below an
/// optional registry host, then a tag, a digest, or both.
fn check_image(image: &str) -> Result<(), &'static str> {
    const RULE: &str =
        "must be an image reference: [HOST[:PORT]/]repository[:TAG][@DIGEST], the repository in lower case";
    let (rest, digest) = image.split_once('@').map_or((image, None), |(rest, digest)| (rest, Some(digest)));
    let digest_ok = digest.is_none_or(|digest| {
        digest.split_once(':').is_some_and(|(algorithm, hex)| {
            !algorithm.is_empty()
                && algorithm.bytes().all(|b| b.is_ascii_alphanumeric() || b"+.-_".contains(&b))
                && hex.len() >= 32
                && hex.bytes().all(|b| b.is_ascii_hexdigit())
        })
    });
    let (name, tag) = match rest.rfind(':') {
        Some(colon) if !rest[colon..].contains('/') => (&rest[..colon], Some(&rest[colon + 1..])),
        _ => (rest, None),
    };
    let tag_ok = tag.is_none_or(|tag| {
        (1..=128).contains(&tag.len())
            && tag.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
            && !tag.starts_with(['.', '-'])
    });
    let (host, path) = match name.split_once('/') {
        // As container runtimes decide it: only a first part that can be a host is one.
        Some((first, path)) if first.contains(['.', ':']) || first == "localhost" => (Some(first), path),
        _ => (None, name),
    };
    let host_ok = host.is_none_or(|host| {
        host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-:[]".contains(&b)) && !host.starts_with(['.', '-', ':'])
    });
    let part_ok = |part: &str| {
        let ends = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let bytes = part.as_bytes();
        matches!((bytes.first(), bytes.last()), (Some(&first), Some(&last)) if ends(first) && ends(last))
            && bytes.iter().all(|&b| ends(b) || b"._-".contains(&b))
    };
    if digest_ok && tag_ok && host_ok && path.split('/').all(part_ok) { Ok(()) } else { Err(RULE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_references_are_checked_before_the_cluster_sees_them() {
        let digest = format!("x/y@sha256:{}", "a".repeat(64));
        for good in [
            DEFAULT_IMAGE,
            "aicr",
            "localhost:5000/a/b",
            "h.io:1/a_b/c-d:V1.2-x",
            "[::1]:5000/a",
            "a/b/c",
            digest.as_str(),
        ] {
            assert!(check_image(good).is_ok(), "{good}");
        }
        for bad in
            ["", " ", "UPPER/x:1", "a/b:", "a//b", "/a", "a/", "a b", "x@sha256:zz", "a:-t", "-a", "ghcr.io/Up/x"]
        {
            assert!(check_image(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn output_takes_only_a_namespace_and_a_name() {
        assert_eq!(
            "cm://gpu/snap".parse(),
            Ok(Output::ConfigMap { namespace: "gpu".to_owned(), name: "snap".to_owned() })
        );
        for bad in ["cm://", "cm://a", "cm:///b", "cm://a/", "cm://A/b", "cm://a/B", "cm://a/b/c", "cm://a.b/c", "file"]
        {
            assert!(bad.parse::<Output>().is_err(), "{bad}");
        }
    }
}
