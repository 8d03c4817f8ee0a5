//! The agent's log, and who reads it.
