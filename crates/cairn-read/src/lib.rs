//! The one read path: gets, merging iterators, visibility, merge operands.
