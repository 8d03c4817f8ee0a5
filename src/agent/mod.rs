//! The deployer: one run of the agent, in the order in which it happens.

pub(crate) mod cluster;
pub mod config;
pub mod created_set;
pub mod event;
pub(crate) mod labels;
pub(crate) mod manifests;
pub mod names;
pub mod object;
pub(crate) mod rules;
pub mod run_id;
