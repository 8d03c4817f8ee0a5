//! The one integration-test crate: a module a behaviour, each test in a
//! namespace of its own, all in parallel on one control plane.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod bed;
mod cleanup;
mod cli;
mod completion;
mod connection;
mod contract;
mod diagnosis;
mod dry_run;
mod fake;
mod gate;
mod help;
mod input;
mod krew;
mod kubectl;
mod matrix;
mod orphans;
mod proxy;
mod recording;
mod report;
mod roles;
mod sandbox;
mod secrets;
mod snapshot;
mod wait;
mod waves;
