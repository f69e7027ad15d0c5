//! Masking of the pieces of an append to a memory-mapped file.

/// A piece of an append that starts a unit of a mapped file and must become visible together with the piece
/// before it.
///
/// Until both pieces are stored, [`Veil::head`] is stored in place of the first eight bytes of this piece.
/// The file format defines it such that a reader skips the whole piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Veil {
    /// The offset of the piece within the append.
    pub at: usize,
    /// The offset of its end, in the same unit and at least eight bytes after `at`.
    pub end: usize,
    /// The eight bytes stored initially.
    pub head: [u8; 8],
}
