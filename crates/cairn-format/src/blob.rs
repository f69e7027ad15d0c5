//! Blob files and the references to them.
