//! Telling an append that a power cut cut short from damage.
//!
//! A disk writes sectors, in any order. Of an append that was not synced some sectors may be there
//! and others not, and where the file already has its length the missing ones read as zeros. Such
//! an append was never acknowledged, so the MANIFEST ends before it. Damage to what was synced
//! looks different: bits are wrong in sectors that are not zero, or records stand behind it. The
//! one must be forgiven and the other not, for what is not in the MANIFEST is deleted. The records
//! of an atomic group are one append: those that follow others say so.

use cairn_format::checksum::{crc32c, unmask};
use cairn_format::manifest::is_later_in_group;
use cairn_platform::RandomAccessFile;
use cairn_types::Result;

/// The unit that a disk writes at once.
const SECTOR: u64 = 512;
/// An append that is longer than this was not cut short, it is damaged.
pub(super) const MAX_APPEND: u64 = 256 << 10;
/// So many bytes are checksummed in looking for records at most.
const MAX_CHECKSUMMED: usize = 16 << 20;

/// Blocks, headers and the types of records that begin something, as in every log.
const BLOCK: usize = 32 << 10;
const HEADER: usize = 7;
const FULL: u8 = 1;
const FIRST: u8 = 2;

/// Whether what begins at `offset`, which is no record, is the rest of an append that was cut
/// short: the file ends within it (`ends_within`) or a sector of it is missing, and nothing was appended
/// behind it. A length that is wrong may point beyond the end of the file, too.
pub(super) fn is_cut_short(
    file: &dyn RandomAccessFile,
    offset: u64,
    ends_within: bool,
) -> Result<bool> {
    let len = file.len()?.saturating_sub(offset);
    if len > MAX_APPEND {
        // A length that is wrong points no further than a block.
        return Ok(ends_within);
    }
    let mut rest = vec![0; usize::try_from(len).unwrap_or(0)];
    let got = file.read_up_to_end(offset, &mut rest)?;
    rest.truncate(got);
    let lacks = ends_within || lacks_a_sector(file, offset, rest.len())?;
    Ok(lacks && !has_a_record(&rest, offset))
}

/// Whether one of the sectors that the `len` bytes at `offset` lie in is missing, as far as they reach.
fn lacks_a_sector(file: &dyn RandomAccessFile, offset: u64, len: usize) -> Result<bool> {
    let end = offset + len as u64;
    let mut at = offset;
    while at < end {
        let next = end.min(at - at % SECTOR + SECTOR);
        if file.is_blank(at, (next - at) as usize)? {
            return Ok(true);
        }
        at = next;
    }
    Ok(false)
}

/// True if a record of another append, or the first piece of one, stands anywhere in `rest`. Later
/// pieces may be those of the record that was cut short, and later records of a group may belong to
/// the append that was.
fn has_a_record(rest: &[u8], offset: u64) -> bool {
    let mut checksummed = 0;
    (0..rest.len()).any(|at| {
        let in_block = ((offset + at as u64) % BLOCK as u64) as usize;
        let Some((header, body)) = rest[at..].split_first_chunk::<HEADER>() else {
            return false;
        };
        let [c0, c1, c2, c3, l0, l1, kind] = *header;
        let len = usize::from(u16::from_le_bytes([l0, l1]));
        if !matches!(kind, FULL | FIRST) || len > body.len() || in_block + HEADER + len > BLOCK {
            return false;
        }
        checksummed += len;
        let covered = &rest[at + HEADER - 1..at + HEADER + len];
        checksummed > MAX_CHECKSUMMED
            || unmask(u32::from_le_bytes([c0, c1, c2, c3])) == crc32c(covered)
                && !is_later_in_group(&covered[1..])
    })
}
