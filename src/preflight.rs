//! What the pre-flight found: everything that is checked before a run writes anything.

pub use crate::agent::preflight::check::{Check, Scope, Who};
pub use crate::agent::preflight::report::{PreparedAccount, Problem, Report, Unverified};
