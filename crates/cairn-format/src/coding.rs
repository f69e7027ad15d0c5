//! Fixed and variable-length integers, and a cursor over bytes.
