//! Recomputes the checksums of a table: those of the blocks reachable from the footer, metaindex
//! and index, and that of the footer.

use cairn_format::block::{BlockKind, BlockLayout, EntryForm, IndexCursor, IndexForm, expand};
use cairn_format::checksum::{ChecksumKind, block_checksum, buffer_checksum, context_modifier};
use cairn_format::table::footer::Footer;
use cairn_format::table::handle::Handle;
use cairn_format::table::meta::MetaIndex;
use cairn_format::table::properties::{IndexKind, Properties};

/// Fixes the checksums of all reachable blocks and of the footer.
pub fn table(file: &mut [u8]) {
    mend_footer(file);
    let Ok(footer) = Footer::decode(file, file.len() as u64) else {
        return;
    };
    let block = |file: &[u8], handle: Handle| {
        let start = usize::try_from(handle.offset).ok()?;
        let end = start.checked_add(usize::try_from(handle.size).ok()?)?;
        file.get(start..end).map(<[u8]>::to_vec)
    };
    mend(file, &footer, footer.metaindex);
    let meta = block(file, footer.metaindex);
    let meta = meta.and_then(|meta| MetaIndex::decode(&meta, file.len() as u64).ok());
    let Some(meta) = meta else { return };
    for (_, handle) in meta.iter() {
        mend(file, &footer, handle);
    }
    let index = footer.index.or_else(|| meta.find(b"rocksdb.index"));
    let properties = meta
        .find(b"rocksdb.properties")
        .and_then(|handle| block(file, handle));
    let properties = properties.and_then(|block| Properties::decode(&block).ok());
    let (Some(index), Some(properties)) = (index, properties) else {
        return;
    };
    mend(file, &footer, index);
    let form = IndexForm {
        user_keys: properties.index_key_is_user_key != 0,
        delta_values: properties.index_value_is_delta_encoded != 0,
        first_keys: properties.index_kind == Some(IndexKind::FirstKey),
        escaped: footer.version >= 8,
    };
    let Some(bytes) = block(file, index) else {
        return;
    };
    let bytes = match expand(&bytes, EntryForm::Index(form)) {
        Ok(expanded) => expanded.unwrap_or(bytes),
        Err(_) => return,
    };
    let Ok(layout) = BlockLayout::parse(&bytes, BlockKind::Index) else {
        return;
    };
    let mut cursor = IndexCursor::new(form);
    let mut moved = cursor.first(&bytes, &layout);
    while moved.is_ok() && cursor.valid() {
        mend(file, &footer, cursor.handle());
        moved = cursor.next(&bytes, &layout);
    }
}

/// Writes the checksum of a block to its trailer.
fn mend(file: &mut [u8], footer: &Footer, handle: Handle) {
    let Ok(start) = usize::try_from(handle.offset) else {
        return;
    };
    let Some(end) = usize::try_from(handle.size)
        .ok()
        .and_then(|size| start.checked_add(size))
    else {
        return;
    };
    if end.checked_add(5).is_none_or(|end| end > file.len()) {
        return;
    }
    let checksum = block_checksum(footer.checksum, &file[start..end], file[end])
        .wrapping_add(context_modifier(footer.base_context, handle.offset));
    file[end + 1..end + 5].copy_from_slice(&checksum.to_le_bytes());
}

/// Fixes the footer checksum of format version 6 and later.
fn mend_footer(file: &mut [u8]) {
    let Some(at) = file.len().checked_sub(53) else {
        return;
    };
    let footer = &mut file[at..];
    if footer[1..5] != [0x3e, 0, 0x7a, 0] {
        return;
    }
    let Some(kind) = ChecksumKind::from_u8(footer[0]) else {
        return;
    };
    let base = u32::from_le_bytes([footer[9], footer[10], footer[11], footer[12]]);
    footer[5..9].fill(0);
    let checksum = buffer_checksum(kind, footer).wrapping_add(context_modifier(base, at as u64));
    footer[5..9].copy_from_slice(&checksum.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_checksum_of_a_fixed_table_is_correct() {
        let sound = include_bytes!("../../../../fuzz/corpus/table_whole/v1109_atomic_flush-000009");
        let mut file = sound.to_vec();
        for at in [1, 2, 3, 4] {
            // The checksum follows a block of any kind; zeros are valid for `kNoChecksum`.
            let broken = file.len() / 5 * at;
            file[broken..broken + 2].fill(0);
        }
        let footer = file.len() - 48;
        file[footer..footer + 4].fill(0);
        let mut mended = sound.to_vec();
        mended[footer..footer + 4].fill(0);
        table(&mut mended);
        assert_eq!(mended, sound, "the checksum of the footer is restored");
        let metaindex = Footer::decode(sound, sound.len() as u64)
            .expect("the table is valid")
            .metaindex;
        let checksum = usize::try_from(metaindex.offset + metaindex.size)
            .expect("the offset fits in memory")
            + 1;
        mended[checksum..checksum + 4].fill(0);
        table(&mut mended);
        assert_eq!(mended, sound, "the checksum of a block is restored");
        // Other damage must not cause a panic.
        table(&mut file);
    }
}
