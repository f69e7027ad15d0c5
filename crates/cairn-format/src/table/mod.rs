//! The parts of a table around its blocks: handles, footer, properties, metaindex.
