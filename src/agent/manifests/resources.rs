//! Requests and limits of the agent's container (R8).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::agent::config::{Config, GPU_RESOURCE};

type Quantities = BTreeMap<String, Quantity>;

pub(super) fn resources(config: &Config) -> ResourceRequirements {
    let (mut requests, mut limits) = if config.privileged {
        (quantities("1", "4Gi", "2Gi"), quantities("2", "8Gi", "4Gi"))
    } else {
        (quantities("100m", "256Mi", "256Mi"), quantities("500m", "512Mi", "512Mi"))
    };
    if config.require_gpu && config.privileged {
        limits.insert(GPU_RESOURCE.to_owned(), Quantity("1".to_owned()));
    }
    requests.extend(config.requests.clone());
    limits.extend(config.limits.clone());
    ResourceRequirements { requests: Some(requests), limits: Some(limits), ..ResourceRequirements::default() }
}

fn quantities(cpu: &str, memory: &str, storage: &str) -> Quantities {
    [("cpu", cpu), ("memory", memory), ("ephemeral-storage", storage)]
        .map(|(key, value)| (key.to_owned(), Quantity(value.to_owned())))
        .into()
}
