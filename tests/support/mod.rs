//! What the integration tests stand on.
#![allow(dead_code, reason = "a test bed offers more than the tests of today use")]

mod assets;
pub(crate) mod bed;
mod control_plane;
mod https;
mod kubeconfig;
pub(crate) mod pki;
mod process;
pub(crate) mod proxy;
mod tokens;
pub(crate) mod wait;
