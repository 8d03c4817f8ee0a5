//! The command line.

pub(crate) mod connection;
