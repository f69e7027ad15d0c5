//! The names of the files in a database directory.
