//! The deployer: one run of the agent, in the order in which it happens.

mod answer;
pub(crate) mod cleanup;
pub(crate) mod cluster;
pub(crate) mod config;
pub(crate) mod created_set;
pub(crate) mod deployer;
pub(crate) mod event;
pub(crate) mod fetch;
mod items;
pub(crate) mod labels;
pub(crate) mod logs;
pub(crate) mod manifests;
pub(crate) mod names;
pub(crate) mod namespace;
pub(crate) mod object;
pub(crate) mod orphans;
pub(crate) mod preflight;
pub(crate) mod rehearsal;
pub(crate) mod roles;
pub(crate) mod rules;
pub mod run_id;
mod text;
pub(crate) mod wait;
pub(crate) mod watch;
pub(crate) mod watches;
