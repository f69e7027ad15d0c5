//! The cover of a piece of an append that is on its way into a mapped file.

/// A piece of an append that begins a unit of a mapped file and belongs together with the piece before it.
///
/// Until both pieces are stored, [`Veil::head`] stands where the first eight bytes of this one will be. The format of
/// the file defines it such that a reader passes over the whole piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Veil {
    /// The offset of the piece in the bytes of the append.
    pub at: usize,
    /// The offset of its end, within the same unit and at least eight bytes behind `at`.
    pub end: usize,
    /// The eight bytes that a reader finds at first.
    pub head: [u8; 8],
}
