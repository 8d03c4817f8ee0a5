//! The agent's Job, exactly as R8 has it.

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, EmptyDirVolumeSource, EnvVar, EnvVarSource, HostPathVolumeSource, LocalObjectReference,
    ObjectFieldSelector, PodSecurityContext, PodSpec, PodTemplateSpec, SeccompProfile, SecurityContext, Toleration,
    Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::agent::config::Config;
use crate::agent::labels;
use crate::agent::manifests::{Identity, resources};
use crate::agent::object::ObjectRef;

/// Name of the agent's container.
pub(crate) const CONTAINER: &str = "aicr";

/// Seconds after which the cluster removes a finished Job that nobody cleaned up.
const TTL_SECONDS_AFTER_FINISHED: i32 = 3600;

/// Seconds after which the cluster stops an agent that nobody waits for any more.
const ACTIVE_DEADLINE_SECONDS: i64 = 18000;

/// The user and group of an agent without privileges: nobody.
const NOBODY: i64 = 65534;

pub(super) fn job(config: &Config, identity: &Identity, name: &str, account: &str, target: &ObjectRef) -> Job {
    let labels = labels::of_run(&identity.run_id, &identity.invocation_id);
    Job {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(config.namespace.clone()),
            labels: Some(labels.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(JobSpec {
            completions: Some(1),
            parallelism: Some(1),
            completion_mode: Some("NonIndexed".to_owned()),
            backoff_limit: Some(0),
            ttl_seconds_after_finished: Some(TTL_SECONDS_AFTER_FINISHED),
            active_deadline_seconds: Some(ACTIVE_DEADLINE_SECONDS),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }),
                spec: Some(pod(config, account, target)),
            },
            ..JobSpec::default()
        }),
        ..Job::default()
    }
}

fn pod(config: &Config, account: &str, target: &ObjectRef) -> PodSpec {
    let host = config.privileged.then_some(true);
    let secrets: Vec<LocalObjectReference> =
        config.image_pull_secrets.iter().map(|name| LocalObjectReference { name: name.clone() }).collect();
    PodSpec {
        service_account_name: Some(account.to_owned()),
        restart_policy: Some("Never".to_owned()),
        host_pid: host,
        host_network: host,
        host_ipc: host,
        node_selector: config.node_selector.clone().filter(|selector| !selector.is_empty()),
        tolerations: Some(config.tolerations.clone().unwrap_or_else(|| vec![tolerate_everything()]))
            .filter(|tolerations| !tolerations.is_empty()),
        runtime_class_name: config.runtime_class.clone(),
        image_pull_secrets: (!secrets.is_empty()).then_some(secrets),
        security_context: Some(pod_security(config.privileged)),
        containers: vec![Container {
            name: CONTAINER.to_owned(),
            image: Some(config.image.clone()),
            command: Some(vec!["aicr".to_owned()]),
            args: Some(arguments(config, target)),
            env: Some(environment(config)),
            security_context: Some(container_security(config.privileged)),
            resources: Some(resources::resources(config)),
            volume_mounts: Some(volumes(config).map(Mounted::mount).collect()),
            ..Container::default()
        }],
        volumes: Some(volumes(config).map(Mounted::volume).collect()),
        ..PodSpec::default()
    }
}

/// One toleration for every taint there is.
pub(crate) fn tolerate_everything() -> Toleration {
    Toleration { operator: Some("Exists".to_owned()), ..Toleration::default() }
}

fn arguments(config: &Config, target: &ObjectRef) -> Vec<String> {
    let debug: &[&str] = if config.debug { &["--debug", "--log-json"] } else { &[] };
    let namespace = target.namespace.as_deref().unwrap_or_default();
    debug
        .iter()
        .chain(&["snapshot", "-o"])
        .map(|&argument| argument.to_owned())
        .chain([format!("cm://{namespace}/{}", target.name)])
        .collect()
}

fn environment(config: &Config) -> Vec<EnvVar> {
    let set =
        |name: &str, value: &str| EnvVar { name: name.to_owned(), value: Some(value.to_owned()), ..EnvVar::default() };
    let mut env = vec![
        set("AICR_AGENT_MODE", "true"),
        set("AICR_LOG_PREFIX", "agent"),
        EnvVar {
            name: "NODE_NAME".to_owned(),
            value_from: Some(EnvVarSource {
                field_ref: Some(ObjectFieldSelector {
                    field_path: "spec.nodeName".to_owned(),
                    ..ObjectFieldSelector::default()
                }),
                ..EnvVarSource::default()
            }),
            ..EnvVar::default()
        },
    ];
    if let Some(nodes) = config.max_nodes_per_entry {
        env.push(set("AICR_MAX_NODES_PER_ENTRY", &nodes.to_string()));
    }
    if let Some(os) = &config.os {
        env.push(set("AICR_OS", os));
    }
    if config.discover_network {
        env.push(set("AICR_DISCOVER_NETWORK", "true"));
    }
    if config.runtime_class.is_some() {
        env.push(set("NVIDIA_VISIBLE_DEVICES", "all"));
    }
    env
}

fn runtime_default() -> SeccompProfile {
    SeccompProfile { type_: "RuntimeDefault".to_owned(), ..SeccompProfile::default() }
}

fn pod_security(privileged: bool) -> PodSecurityContext {
    let user = if privileged { 0 } else { NOBODY };
    let ids = PodSecurityContext {
        run_as_user: Some(user),
        run_as_group: Some(user),
        fs_group: Some(user),
        ..PodSecurityContext::default()
    };
    if privileged {
        PodSecurityContext { fs_group_change_policy: Some("OnRootMismatch".to_owned()), ..ids }
    } else {
        PodSecurityContext { run_as_non_root: Some(true), seccomp_profile: Some(runtime_default()), ..ids }
    }
}

fn container_security(privileged: bool) -> SecurityContext {
    if privileged {
        SecurityContext {
            privileged: Some(true),
            allow_privilege_escalation: Some(true),
            run_as_user: Some(0),
            run_as_group: Some(0),
            capabilities: Some(Capabilities {
                add: Some(vec!["SYS_ADMIN".to_owned(), "SYS_CHROOT".to_owned()]),
                drop: None,
            }),
            ..SecurityContext::default()
        }
    } else {
        SecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(NOBODY),
            run_as_group: Some(NOBODY),
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            seccomp_profile: Some(runtime_default()),
            capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
            ..SecurityContext::default()
        }
    }
}

/// A volume and where it is mounted.
#[derive(Clone, Copy)]
enum Mounted {
    Scratch,
    Host { name: &'static str, path: &'static str, type_: &'static str },
}

const SYSTEMD: Mounted = Mounted::Host { name: "run-systemd", path: "/run/systemd", type_: "Directory" };
const OS_RELEASE: Mounted = Mounted::Host { name: "os-release", path: "/etc/os-release", type_: "File" };

fn volumes(config: &Config) -> impl Iterator<Item = Mounted> {
    let host: &[Mounted] = if config.privileged && !config.is_talos() { &[SYSTEMD, OS_RELEASE] } else { &[] };
    [Mounted::Scratch].into_iter().chain(host.iter().copied())
}

impl Mounted {
    fn volume(self) -> Volume {
        match self {
            Self::Scratch => {
                Volume { name: "tmp".to_owned(), empty_dir: Some(EmptyDirVolumeSource::default()), ..Volume::default() }
            }
            Self::Host { name, path, type_ } => Volume {
                name: name.to_owned(),
                host_path: Some(HostPathVolumeSource { path: path.to_owned(), type_: Some(type_.to_owned()) }),
                ..Volume::default()
            },
        }
    }

    fn mount(self) -> VolumeMount {
        let (name, path, read_only) = match self {
            Self::Scratch => ("tmp", "/tmp", None),
            Self::Host { name, path, .. } => (name, path, Some(true)),
        };
        VolumeMount { name: name.to_owned(), mount_path: path.to_owned(), read_only, ..VolumeMount::default() }
    }
}
