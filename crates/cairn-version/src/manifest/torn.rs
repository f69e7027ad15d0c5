//! Distinguishes torn appends from damage.
//!
//! A disk writes sectors in any order. After a power failure, some sectors of an unsynced append
//! may be missing; if the file already has its new size, they read as zeros. Such an append was
//! never acknowledged, so the MANIFEST ends before it. Damage to synced data looks different:
//! non-zero sectors contain wrong bits, or valid records follow. A torn append must be ignored and
//! damage must be reported, because files that are not in the MANIFEST are deleted. The records of
//! an atomic group form one append; all but the first are marked as later records. A missing sector
//! may also have what another file, since deleted, had there: the records of a write-ahead log have
//! the same form, but are no edits.

use cairn_format::checksum::{crc32c, unmask};
use cairn_format::manifest::{VersionEdit, is_later_in_group};
use cairn_platform::RandomAccessFile;
use cairn_types::Result;

/// Atomic write unit of a disk, in bytes.
const SECTOR: u64 = 512;
/// Maximum size of a torn append; a longer one is damage.
pub(super) const MAX_APPEND: u64 = 256 << 10;
/// Maximum number of bytes checksummed when searching for a record.
const MAX_CHECKSUMMED: usize = 16 << 20;

/// Block and header sizes, and the record types that start a record, as in every log.
const BLOCK: usize = 32 << 10;
const HEADER: usize = 7;
const FULL: u8 = 1;
const FIRST: u8 = 2;

/// True if the invalid data at `offset` is a torn append: the file ends within it (`ends_within`) or
/// one of its sectors is missing, and no other append follows. A corrupt length may also point beyond
/// the end of the file.
pub(super) fn is_torn_append(
    file: &dyn RandomAccessFile,
    offset: u64,
    ends_within: bool,
) -> Result<bool> {
    let len = file.len()?.saturating_sub(offset);
    if len > MAX_APPEND {
        // A corrupt length points at most one block ahead.
        return Ok(ends_within);
    }
    let mut rest = vec![0; usize::try_from(len).unwrap_or(0)];
    let got = file.read_up_to_end(offset, &mut rest)?;
    rest.truncate(got);
    let lacks = ends_within || lacks_a_sector(file, offset, rest.len())?;
    Ok(lacks && !has_a_record(&rest, offset))
}

/// True if one of the sectors that overlap the `len` bytes at `offset` is missing.
fn lacks_a_sector(file: &dyn RandomAccessFile, offset: u64, len: usize) -> Result<bool> {
    let end = offset + len as u64;
    let mut at = offset;
    while at < end {
        let next = end.min(at - at % SECTOR + SECTOR);
        debug_assert!(at < next && next - at <= SECTOR, "one sector at a time");
        if file.is_blank(at, (next - at) as usize)? {
            return Ok(true);
        }
        at = next;
    }
    Ok(false)
}

/// True if a record of another append, or its first fragment, is found anywhere in `rest`. Later
/// fragments may belong to the torn record, and later records of a group to the torn append.
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
        // Whether a first fragment begins an edit is not known without the others.
        checksummed > MAX_CHECKSUMMED
            || unmask(u32::from_le_bytes([c0, c1, c2, c3])) == crc32c(covered)
                && !is_later_in_group(&covered[1..])
                && (kind == FIRST || VersionEdit::decode(&covered[1..]).is_ok())
    })
}
