//! Captures the configuration of a GPU cluster and leaves the cluster as it found it.
//!
//! This is the library behind `kubectl aicr`. A [`Deployer`] runs NVIDIA's `aicr` agent as a Kubernetes Job, waits for
//! it, reads the YAML document that it wrote, and deletes what it created and nothing else.
//!
//! ```
//! use std::time::Duration;
//!
//! use kubectl_aicr::fake::{Cluster, NodeSpec};
//! use kubectl_aicr::{Config, Deployer, Output, run_id};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A cluster in memory with one GPU node. `kubeconfig::connect` leads to a real one.
//! let cluster = Cluster::new();
//! let gpu_node = NodeSpec::new("gpu-1").label("nvidia.com/gpu.present", "true");
//! let _workers = cluster.start_workers(&[gpu_node]).await?;
//!
//! let run_id = run_id::generate();
//! let config = Config::new("gpu-operator")
//!     .run_id(run_id.clone())
//!     .output(Output::Staging)
//!     .node_selector([("nvidia.com/gpu.present", "true")]);
//! let deployer = Deployer::new(cluster.client(), config)?;
//! assert_eq!(deployer.job_name(), format!("aicr-{run_id}"));
//!
//! let snapshot = async {
//!     deployer.deploy().await?;
//!     deployer.wait_for_completion(Duration::from_mins(5)).await?;
//!     deployer.get_snapshot().await
//! }
//! .await;
//! // However that ended: what was created goes, and nothing else.
//! let removals = deployer.cleanup().await;
//!
//! assert!(snapshot?.starts_with(b"kind: Snapshot"));
//! assert_eq!(removals.len(), 7);
//! assert!(removals.iter().all(|removal| !removal.fate.is_left()));
//! # Ok(())
//! # }
//! ```
//!
//! # What to know
//!
//! - The library prints nothing, exits nowhere and keeps no global state. [`Deployer::observed`] gives what happens as a
//!   stream of [`Event`]s; every future is `Send`.
//! - Any future may be dropped, and [`Deployer::cleanup`] then still removes what was created, or may have been. It has a
//!   deadline of its own.
//! - The client must never repeat a create. Those of [`kubeconfig::connect`] do not; kube's own do unless their
//!   configuration's `default_retry` is off.
//! - [`Error`] tells apart what a caller may want to treat apart; [`Error::exit_code`] is the command line's.
//! - Each method says which RBAC rights it needs. [`service_account_role_manifests`] renders those of the agent for an
//!   administrator who keeps them for a `ServiceAccount`.
//!
//! # Features
//!
//! - `cli` (on by default): the command line, `kubectl_aicr::cli`. Library users turn it off with `default-features = false`.
//! - `fake`: `kubectl_aicr::fake`, a Kubernetes API in memory, for tests without a cluster.

#![cfg_attr(
    not(feature = "cli"),
    expect(dead_code, unused_imports, reason = "orphans, reading ledgers and texts serve the command line alone")
)]

mod agent;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
mod deliver;
mod diagnose;
mod duration;
pub mod error;
#[cfg(feature = "fake")]
pub mod fake;
pub mod kubeconfig;
mod ledger;
pub mod preflight;
#[cfg(feature = "cli")]
mod report;
mod snapshot;

pub use agent::cleanup::{Fate, Reason, Removal};
pub use agent::config::{
    Config, DEFAULT_CLEANUP_TIMEOUT, DEFAULT_IMAGE, DEFAULT_REQUEST_TIMEOUT, DEFAULT_TIMEOUT, Keep, Output,
};
pub use agent::created_set::{Claim, CreatedSet, Entry, Left, Uid};
pub use agent::deployer::Deployer;
pub use agent::event::{Event, LogLine, Phase};
pub use agent::names::staging_config_map_name;
pub use agent::object::{Kind, ObjectRef};
pub use agent::rehearsal::plan;
pub use agent::roles::{RoleManifest, RoleOptions, service_account_role_manifests};
pub use agent::run_id;
pub use diagnose::evidence::Evidence;
pub use error::Error;
