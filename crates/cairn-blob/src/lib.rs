//! One blob file: its reader.
