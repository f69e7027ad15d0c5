//! The parts of a table around its blocks: handles, footer, properties, metaindex.

pub mod footer;
pub mod handle;
pub mod meta;
pub mod properties;

pub use footer::Footer;
pub use handle::Handle;
pub use meta::MetaIndex;
pub use properties::Properties;

/// Bytes behind every block: its compression kind, and the checksum of the block and that byte.
pub const TRAILER_LEN: usize = 5;
