//! Wide-column entities.
