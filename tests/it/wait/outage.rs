//! An API server that is away, silent, or no longer knows the caller.
