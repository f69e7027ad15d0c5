//! Filters: which keys a table may hold.
