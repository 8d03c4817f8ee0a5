//! The only place that makes text for people: tables, documents, cleaned lines.

pub(crate) mod age;
pub(crate) mod document;
pub(crate) mod orphans;
pub(crate) mod preflight;
pub(crate) mod progress;
pub(crate) mod run_report;
pub(crate) mod stderr;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod text;
