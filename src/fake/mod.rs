//! A Kubernetes API in memory, for tests without a cluster.
//!
//! [`Cluster`] keeps objects as an API server does: with UIDs and resource versions, conflicts and preconditions,
//! finalizers and garbage collection, selectors, pages, watches, server-side apply, dry runs and access reviews. It
//! gives a [`kube::Client`], and [`Cluster::serve`] gives the same on a loopback port to any other client, kubectl
//! included. [`Cluster::before`] and [`Cluster::after`] make any request fail, wait or vanish.
//!
//! What it promises is a suite of calls and expectations that also runs on a real kube-apiserver.

pub(crate) mod api;
mod cluster;
mod hook;
mod logs;
#[doc(hidden)]
pub mod node;
mod request;
mod respond;
mod serve;
mod service;
mod workers;

pub use api::call::Verb;
pub use api::user::User;
pub use cluster::Cluster;
pub use hook::{Fault, Hook};
pub use node::NodeSpec;
pub use request::Request;
pub use serve::Server;
pub use workers::Workers;
