//! The hashes that files depend on.
