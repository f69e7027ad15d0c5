//! Blocks of entries: builder, layout and cursors.
