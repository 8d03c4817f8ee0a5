//! The deployer: one run of the agent, in the order in which it happens.

pub mod cleanup;
pub(crate) mod cluster;
pub mod config;
pub mod created_set;
pub mod deployer;
pub mod event;
pub(crate) mod fetch;
pub(crate) mod labels;
pub(crate) mod logs;
pub(crate) mod manifests;
pub mod names;
pub(crate) mod namespace;
pub mod object;
pub(crate) mod orphans;
pub mod preflight;
pub mod rehearsal;
pub mod roles;
pub(crate) mod rules;
pub mod run_id;
pub(crate) mod wait;
pub(crate) mod watch;
pub(crate) mod watches;
