//! Captures the configuration of a GPU cluster and leaves the cluster as it found it.
//!
//! This is the library behind `kubectl aicr`. It prints nothing: it returns values and emits events.

#![cfg_attr(
    not(feature = "cli"),
    expect(dead_code, unused_imports, reason = "orphans, reading ledgers and texts serve the command line alone")
)]

pub mod agent;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
pub(crate) mod deliver;
pub(crate) mod diagnose;
pub(crate) mod duration;
pub mod error;
#[cfg(feature = "fake")]
pub mod fake;
pub mod kubeconfig;
pub mod ledger;
#[cfg(feature = "cli")]
pub(crate) mod report;
pub(crate) mod snapshot;

pub use agent::config::{Config, Keep, Output};
pub use agent::deployer::Deployer;
pub use agent::names::staging_config_map_name;
pub use agent::rehearsal::plan;
pub use agent::roles::{RoleManifest, RoleOptions, service_account_role_manifests};
pub use agent::run_id;
pub use diagnose::evidence::Evidence;
pub use error::Error;
