//! What the integration tests stand on.
#![allow(dead_code, reason = "a test bed offers more than the tests of today use")]

mod assets;
pub(crate) mod bed;
pub(crate) mod built;
pub(crate) mod cli;
mod control_plane;
mod https;
pub(crate) mod kubeconfig;
pub(crate) mod namespace;
pub(crate) mod orphans;
pub(crate) mod pki;
mod process;
mod programs;
pub(crate) mod proxy;
pub(crate) mod rbac;
pub(crate) mod scene;
mod tokens;
pub(crate) mod wait;

pub(crate) use kubectl_aicr::fake::node;
