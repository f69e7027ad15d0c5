//! Memory that grows with use: the arena and the block cache.
