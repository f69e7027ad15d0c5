//! Internal keys: a user key, a sequence number and a kind.
