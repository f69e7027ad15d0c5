//! The parts of a table other than its data: handles, footer, properties, metaindex.

pub mod footer;
pub mod handle;
pub mod meta;
pub mod properties;
pub(crate) mod properties_text;
pub mod shared_text;

pub use footer::Footer;
pub use handle::Handle;
pub use meta::MetaIndex;
pub use properties::Properties;

/// The length of a block trailer: the compression type, and the checksum of the block and that byte.
pub const TRAILER_LEN: usize = 5;
