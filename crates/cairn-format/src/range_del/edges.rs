//! The edges of regions: concatenated keys and their offsets.

/// Keys in insertion order.
#[derive(Debug, Default)]
pub(super) struct Edges {
    keys: Vec<u8>,
    offsets: Offsets,
}

/// The offset of each key and the end of the last one; empty if there are no keys. 4-byte offsets suffice up
/// to 4 GB of keys.
#[derive(Debug)]
enum Offsets {
    Narrow(Vec<u32>),
    Wide(Vec<usize>),
}

impl Default for Offsets {
    fn default() -> Offsets {
        Offsets::Narrow(Vec::new())
    }
}

impl Edges {
    /// Creates a list with capacity for `count` keys of `bytes` in total.
    pub(super) fn with_capacity(count: usize, bytes: usize) -> Edges {
        Edges {
            keys: Vec::with_capacity(bytes),
            offsets: Offsets::Narrow(Vec::with_capacity(count + 1)),
        }
    }

    pub(super) fn push(&mut self, key: &[u8]) {
        if self.offsets.len() == 0 {
            self.offsets.push(0);
        }
        self.keys.extend_from_slice(key);
        self.offsets.push(self.keys.len());
    }

    /// Frees unused capacity.
    pub(super) fn shrink(&mut self) {
        self.keys.shrink_to_fit();
        match &mut self.offsets {
            Offsets::Narrow(offsets) => offsets.shrink_to_fit(),
            Offsets::Wide(offsets) => offsets.shrink_to_fit(),
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<&[u8]> {
        let (from, to) = match &self.offsets {
            Offsets::Narrow(offsets) => {
                let &[from, to] = offsets.get(at..)?.first_chunk::<2>()?;
                (from as usize, to as usize)
            }
            Offsets::Wide(offsets) => {
                let &[from, to] = offsets.get(at..)?.first_chunk::<2>()?;
                (from, to)
            }
        };
        self.keys.get(from..to)
    }

    pub(super) fn last(&self) -> Option<&[u8]> {
        self.get(self.len().checked_sub(1)?)
    }

    /// The first key, truncated to `len` bytes.
    #[inline]
    pub(super) fn prefix(&self, len: usize) -> &[u8] {
        self.keys.get(..len).unwrap_or_default()
    }

    pub(super) fn memory(&self) -> usize {
        let offsets = match &self.offsets {
            Offsets::Narrow(offsets) => size_of_val(&offsets[..]),
            Offsets::Wide(offsets) => size_of_val(&offsets[..]),
        };
        self.keys.len() + offsets
    }
}

impl Offsets {
    #[inline]
    fn len(&self) -> usize {
        match self {
            Offsets::Narrow(offsets) => offsets.len(),
            Offsets::Wide(offsets) => offsets.len(),
        }
    }

    #[inline]
    fn push(&mut self, at: usize) {
        match (self, u32::try_from(at)) {
            (Offsets::Narrow(offsets), Ok(at)) => offsets.push(at),
            (Offsets::Wide(offsets), _) => offsets.push(at),
            (narrow, Err(_)) => narrow.widen(at),
        }
    }

    #[cold]
    fn widen(&mut self, at: usize) {
        if let Offsets::Narrow(offsets) = self {
            let known = offsets.iter().map(|&offset| offset as usize);
            *self = Offsets::Wide(known.chain([at]).collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_widen_beyond_4_gb_of_keys() {
        let mut offsets = Offsets::default();
        for at in [0, 5, u32::MAX as usize, 1 << 32, 1 << 33] {
            offsets.push(at);
        }
        assert!(
            matches!(&offsets, Offsets::Wide(all) if all[..] == [0, 5, u32::MAX as usize, 1 << 32, 1 << 33])
        );
        assert_eq!(offsets.len(), 5);
    }
}
