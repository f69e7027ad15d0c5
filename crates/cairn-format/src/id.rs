//! Identities of databases, sessions and tables.
