//! The simulated world: a file system that crashes, a clock, an executor.
