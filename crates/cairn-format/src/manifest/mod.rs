//! Version edits: the records of a MANIFEST.
