//! The only place that makes text for people: tables, documents, cleaned lines.

pub mod document;
#[cfg(feature = "cli")]
pub(crate) mod progress;
#[cfg(feature = "cli")]
pub(crate) mod summary;
pub mod table;
pub mod text;
