//! The document that the agent wrote. Pure: bytes in, a tree, a listing or a finding out.

pub(crate) mod gpu;
pub(crate) mod json;
pub(crate) mod listing;
pub(crate) mod node;
mod scalar;
