//! The in-memory cluster beyond its contract: whole runs on it, its hooks, and its port.

mod cancel;
mod cluster;
mod hooks;
mod matrix;
mod runs;
mod served;
