//! What the integration tests stand on.
#![allow(dead_code, reason = "a test bed offers more than the tests of today use")]

mod assets;
pub(crate) mod bed;
mod control_plane;
mod https;
mod kubeconfig;
mod pki;
mod process;
mod tokens;
pub(crate) mod wait;
