//! The layout of a block, decoded from its footer.

use cairn_types::{Decoded, Malformed};

/// The maximum size of a block in which bit 31 of the footer denotes a hash index.
pub const MAX_HASHED_BLOCK_LEN: usize = 1 << 16;

/// The kind of a block, which determines the valid footers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// A data block.
    Data,
    /// An index block, or a partition or top-level block of an index or filter.
    Index,
    /// A metaindex, properties or range tombstone block.
    Meta,
}

pub(super) const HASHED: u32 = 1 << 31;
const RESERVED: u32 = 1 << 30;
pub(super) const UNIFORM: u32 = 1 << 29;
pub(super) const SEPARATED: u32 = 1 << 28;
const COUNT: u32 = SEPARATED - 1;

/// The layout of a block. Cheap to create and copy; valid for the bytes it was decoded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLayout {
    /// The end of the entries, or of the keys alone if values are stored separately.
    pub(super) entries_end: u32,
    pub(super) restarts_at: u32,
    pub(super) restarts: u32,
    pub(super) buckets_at: u32,
    /// 0 if there is no hash index.
    pub(super) buckets: u16,
    pub(super) separated: bool,
    uniform: bool,
}

fn fixed32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl BlockLayout {
    /// Decodes the layout of `bytes`, a whole block without its trailer.
    ///
    /// # Errors
    ///
    /// If the parts do not fit into the block, or the footer has bits that are invalid for `kind`.
    #[inline]
    pub fn parse(bytes: &[u8], kind: BlockKind) -> Decoded<BlockLayout> {
        let Some((_, footer)) = bytes.split_last_chunk::<4>() else {
            return Err(Malformed::at(0, "block is too short for its footer"));
        };
        let footer = u32::from_le_bytes(*footer);
        // Most blocks only have entries and restart points.
        let room = bytes.len() - 4;
        if footer & !COUNT == 0 && footer > 0 {
            let size = footer as usize * 4;
            if size <= room && room <= u32::MAX as usize {
                let restarts_at = (room - size) as u32;
                return Ok(BlockLayout {
                    entries_end: restarts_at,
                    restarts_at,
                    restarts: footer,
                    buckets_at: 0,
                    buckets: 0,
                    separated: false,
                    uniform: false,
                });
            }
        }
        BlockLayout::parse_flags(bytes, kind, footer)
    }

    #[cold]
    fn parse_flags(bytes: &[u8], kind: BlockKind, footer: u32) -> Decoded<BlockLayout> {
        let mut end = bytes.len() - 4;
        if u32::try_from(end).is_err() {
            return Err(Malformed::at(0, "block has 4 GiB or more"));
        }
        if footer & RESERVED != 0 {
            return Err(Malformed::at(end, "block footer has its reserved bit set"));
        }
        let hashed = footer & HASHED != 0;
        let separated = footer & SEPARATED != 0;
        // In larger blocks the bit would be part of a count, which no block of that size can have.
        if hashed && (bytes.len() > MAX_HASHED_BLOCK_LEN || kind != BlockKind::Data) {
            return Err(Malformed::at(end, "block cannot have a hash index"));
        }
        if separated && kind != BlockKind::Data {
            return Err(Malformed::at(
                end,
                "only data blocks store values separately",
            ));
        }
        let mut values_at = None;
        if separated {
            end = end.checked_sub(4).ok_or_else(|| cut_short(end))?;
            values_at = fixed32(bytes, end);
        }
        let (mut buckets_at, mut buckets) = (0, 0);
        if hashed {
            end = end.checked_sub(2).ok_or_else(|| cut_short(end))?;
            buckets = u16::from_le_bytes([bytes[end], bytes[end + 1]]);
            if buckets == 0 {
                return Err(Malformed::at(end, "hash index has no buckets"));
            }
            end = end
                .checked_sub(usize::from(buckets))
                .ok_or_else(|| cut_short(end))?;
            buckets_at = end as u32;
        }
        let restarts = footer & COUNT;
        if restarts == 0 {
            return Err(Malformed::at(bytes.len() - 4, "block has no restarts"));
        }
        let restarts_at = end
            .checked_sub(restarts as usize * 4)
            .ok_or_else(|| cut_short(end))? as u32;
        let entries_end = values_at.unwrap_or(restarts_at);
        if entries_end > restarts_at {
            return Err(Malformed::mismatch(
                bytes.len() - 8,
                "start of the values",
                format_args!("at most {restarts_at}"),
                entries_end,
            ));
        }
        Ok(BlockLayout {
            entries_end,
            restarts_at,
            restarts,
            buckets_at,
            buckets,
            separated,
            uniform: footer & UNIFORM != 0,
        })
    }

    /// The number of restart points, at least one.
    #[inline]
    #[must_use]
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    /// The offset of the restart points, which follow keys and values.
    #[must_use]
    pub fn restarts_at(&self) -> usize {
        self.restarts_at as usize
    }

    /// True if all values follow all keys.
    #[inline]
    #[must_use]
    pub fn has_separate_values(&self) -> bool {
        self.separated
    }

    /// True if the block has no entries.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries_end == 0
    }

    /// True if the writer marked the keys as uniformly distributed; a hint that is not used here.
    #[must_use]
    pub fn is_uniform(&self) -> bool {
        self.uniform
    }

    /// True if the block has a hash index.
    #[inline]
    #[must_use]
    pub fn is_hashed(&self) -> bool {
        self.buckets != 0
    }

    /// The hash index with its number of buckets; empty if there is none.
    pub(super) fn hash_index<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let len = match self.buckets {
            0 => 0,
            buckets => usize::from(buckets) + 2,
        };
        bytes
            .get(self.buckets_at as usize..)
            .map_or(&[], |rest| &rest[..len])
    }

    /// The end of the entries.
    #[inline]
    pub(super) fn end(&self) -> usize {
        self.entries_end as usize
    }

    /// True if values are stored separately.
    #[must_use]
    pub fn is_separated(&self) -> bool {
        self.separated
    }

    /// The offset of restart point `i`; an offset past all entries if it does not exist.
    #[inline]
    #[must_use]
    pub fn restart(&self, bytes: &[u8], i: u32) -> u32 {
        if i >= self.restarts {
            return u32::MAX;
        }
        fixed32(bytes, self.restarts_at as usize + i as usize * 4).unwrap_or(u32::MAX)
    }

    /// The number of restart points before offset `at`.
    pub(super) fn restarts_before(&self, bytes: &[u8], at: usize) -> u32 {
        let (mut low, mut high) = (0, self.restarts);
        while low < high {
            let mid = low + (high - low) / 2;
            if (self.restart(bytes, mid) as usize) < at {
                low = mid + 1;
            } else {
                high = mid;
            }
        }
        low
    }
}

#[cold]
fn cut_short(at: usize) -> Malformed {
    Malformed::at(at, "block is too short for its footer's counts")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(entries: &[u8], middle: &[u8], footer: u32) -> Vec<u8> {
        [entries, middle, &footer.to_le_bytes()].concat()
    }

    #[test]
    fn the_footer_of_a_simple_block_is_a_count() {
        let layout = BlockLayout::parse(&block(b"abc", &[0; 8], 2), BlockKind::Data).unwrap();
        assert_eq!((layout.entries_end, layout.restarts), (3, 2));
        assert!(!layout.is_hashed() && !layout.is_separated() && !layout.is_empty());
        let empty = BlockLayout::parse(&block(b"", &[0; 4], 1), BlockKind::Meta).unwrap();
        assert!(empty.is_empty());
    }

    #[test]
    fn all_parts_are_located() {
        let middle = [
            &[0; 4][..],
            &[255, 0, 254],
            &3u16.to_le_bytes(),
            &2u32.to_le_bytes(),
        ]
        .concat();
        let bytes = block(b"keyvalues", &middle, HASHED | SEPARATED | UNIFORM | 1);
        let layout = BlockLayout::parse(&bytes, BlockKind::Data).unwrap();
        assert_eq!(layout.entries_end, 2);
        assert_eq!(layout.restarts_at, 9);
        assert_eq!((layout.buckets_at, layout.buckets), (13, 3));
        assert!(layout.is_uniform() && layout.is_separated() && layout.is_hashed());
        assert!(BlockLayout::parse(&bytes, BlockKind::Index).is_err());
    }

    #[test]
    fn invalid_footers_are_rejected() {
        for (bytes, kind) in [
            (block(b"", &[], 0), BlockKind::Data),
            (block(b"", &[], 1), BlockKind::Data),
            (block(b"abc", &[0; 4], RESERVED | 1), BlockKind::Data),
            (block(b"abc", &[0; 4], HASHED | 1), BlockKind::Data),
            (block(b"abc", &[0; 4], HASHED | 1), BlockKind::Meta),
            (
                block(b"", &[0, 0, 0, 0, 9, 0, 0, 0], SEPARATED | 1),
                BlockKind::Data,
            ),
            (block(b"", &[], SEPARATED | 1), BlockKind::Data),
            (block(b"", &[9, 0], HASHED | 1), BlockKind::Data),
            (block(&[0; 70_000], &[0; 4], HASHED | 1), BlockKind::Data),
            (vec![1, 0, 0], BlockKind::Data),
        ] {
            assert!(BlockLayout::parse(&bytes, kind).is_err());
        }
    }
}
