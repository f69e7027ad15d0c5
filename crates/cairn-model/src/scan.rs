//! The arguments and results of scans.

/// Keys and values in key order.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Direction of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From `from` (or the first key) in ascending order.
    #[default]
    Forward,
    /// From `from` (or the last key) in descending order.
    Backward,
}

/// A scan of an iterator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// The direction.
    pub direction: Direction,
    /// The start: at or after this key forward, at or before it backward.
    pub from: Option<Vec<u8>>,
    /// The iterator's lower bound.
    pub lower: Option<Vec<u8>>,
    /// The iterator's exclusive upper bound.
    pub upper: Option<Vec<u8>>,
    /// Maximum number of entries.
    pub limit: usize,
}

impl Scan {
    /// A scan of everything in this direction.
    #[must_use]
    pub fn all(direction: Direction) -> Scan {
        Scan {
            direction,
            from: None,
            lower: None,
            upper: None,
            limit: usize::MAX,
        }
    }
}
