//! The tree's state and its log: file metadata, versions, MANIFEST.
