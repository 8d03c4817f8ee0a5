//! `kubectl-aicr`.
