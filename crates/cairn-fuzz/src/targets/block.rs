//! Data and index blocks: every cursor movement, for every encoding.
//!
//! The first byte describes the rest, a whole block without its trailer: bit 0 an index, bit 1 with
//! user keys, bit 2 with delta-encoded handles, bit 3 with first keys; bit 4 a data block of an
//! ingested file; bit 5 a block of format version 8.

use std::cmp::Ordering;

use cairn_format::block::{
    BlockBuilder, BlockChecksums, BlockKind, BlockLayout, BlockOptions, DataCursor, DataWords,
    EntryForm, HashHit, IndexCursor, IndexForm, KeyWords, expand, hash_lookup,
};
use cairn_format::key;
use cairn_format::protection::EntryChecksum;
use cairn_types::{KeyOrder, SequenceNumber};

/// Iterates and seeks.
pub fn run(data: &[u8]) {
    let Some((&form, bytes)) = data.split_first() else {
        return;
    };
    let is_newer = form & 32 != 0;
    let index = IndexForm {
        user_keys: form & 2 != 0,
        delta_values: form & 4 != 0,
        first_keys: form & 8 != 0,
        escaped: is_newer,
    };
    let entries = match form & 1 {
        0 => EntryForm::Data,
        _ => EntryForm::Index(index),
    };
    let expanded = match is_newer.then(|| expand(bytes, entries)) {
        Some(Err(_)) => return,
        Some(Ok(expanded)) => expanded,
        None => None,
    };
    let block = expanded.as_deref().unwrap_or(bytes);
    if expanded.is_some() {
        let again = expand(block, entries).expect("what was expanded is a block");
        assert_eq!(again, None, "a block has one common prefix");
    }
    let global = (form & 16 != 0).then_some(SequenceNumber(77));
    match entries {
        // The expanded block takes most of the memory limit.
        EntryForm::Data => data_block(block, global, expanded.is_none()),
        EntryForm::Index(form) => index_block(block, form),
    }
    let _ = BlockLayout::parse(bytes, BlockKind::Meta);
    if let Some(sums) = BlockChecksums::parse(bytes) {
        let _ = sums.verify(usize::from(form), EntryChecksum::new(bytes, bytes));
    }
}

/// The largest block whose checksums are computed: they may take more memory than the block.
const MOST_CHECKED: usize = 4096;

/// Every entry of a block has the checksum that was computed for it.
fn checksums(bytes: &[u8], layout: &BlockLayout) {
    if bytes.len() > MOST_CHECKED {
        return;
    }
    let tail = BlockChecksums::of_data(bytes, layout, 4);
    let sums = BlockChecksums::parse(&tail).expect("checksums can be parsed");
    let mut cursor = DataCursor::new();
    let mut moved = cursor.first(bytes, layout);
    while moved.is_ok() && cursor.valid() {
        sums.verify(cursor.at(), cursor.checksum(bytes))
            .expect("the block has not changed");
        moved = cursor.next(bytes, layout);
    }
}

/// Maximum number of entries visited; their keys are used as seek targets.
const MOST: usize = 4096;

fn data_block(bytes: &[u8], global: Option<SequenceNumber>, rebuild: bool) {
    let Ok(layout) = BlockLayout::parse(bytes, BlockKind::Data) else {
        return;
    };
    let mut cursor = DataCursor::new().with_global_seqno(global);
    let mut sought = Vec::new();
    let mut moved = cursor.first(bytes, &layout);
    let mut count = 0;
    let mut sorted = true;
    let mut last: Vec<u8> = Vec::new();
    while moved.is_ok() && cursor.valid() && count < MOST {
        assert!(cursor.value_range().end <= bytes.len());
        let key = cursor.key(bytes);
        sorted &= count == 0 || key::compare(&KeyOrder::Bytewise, &last, key) == Ordering::Less;
        last.clear();
        last.extend_from_slice(key);
        if sought.len() < 8 && count % 5 == 0 {
            sought.push(key[..key.len().min(512)].to_vec());
        }
        count += 1;
        moved = cursor.next(bytes, &layout);
    }
    let whole = moved.is_ok() && !cursor.valid();
    checksums(bytes, &layout);
    // Invalid restarts make iteration backwards, and seeks, skip entries.
    let sound = whole && sorted && layout.restarts() == 1 && layout.restart(bytes, 0) == 0;
    backwards(bytes, &layout, &mut cursor, sound, count);
    for key in &sought {
        seeks(bytes, &layout, &mut cursor, key, sound && global.is_none());
    }
    if rebuild && whole && sorted && count < 256 && global.is_none() {
        rebuilt(bytes, &layout);
    }
}

/// Checks that a valid block has the same entries backwards.
fn backwards(
    bytes: &[u8],
    layout: &BlockLayout,
    cursor: &mut DataCursor,
    sound: bool,
    count: usize,
) {
    let mut moved = cursor.last(bytes, layout);
    let mut met = 0;
    while moved.is_ok() && cursor.valid() && met < 64 {
        met += 1;
        moved = cursor.prev(bytes, layout);
    }
    if sound && moved.is_ok() && met < 64 {
        assert_eq!(met, count, "as many entries backwards as forwards");
    }
}

fn seeks(bytes: &[u8], layout: &BlockLayout, cursor: &mut DataCursor, key: &[u8], sound: bool) {
    let order = KeyOrder::Bytewise;
    if cursor.seek(bytes, layout, &order, key).is_ok() && sound && key.len() >= 8 && key.len() < 512
    {
        assert_eq!(cursor.key(bytes), key, "a key of a sound block is found");
    }
    let tail = DataWords::encode(bytes, layout, &order);
    let words = DataWords::parse(&tail);
    let sought = cursor.seek_with(words, bytes, layout, &order, key);
    if sought.is_ok() && sound && key.len() >= 8 && key.len() < 512 {
        assert_eq!(
            cursor.key(bytes),
            key,
            "a key of a sound block is found by words"
        );
    }
    if cursor.valid() {
        let _ = cursor.prev_with(words, bytes, layout);
    }
    let _ = cursor.last_with(words, bytes, layout);
    let foreign = DataWords::parse(key);
    let _ = cursor.seek_with(foreign, bytes, layout, &order, key);
    if cursor.valid() {
        let _ = cursor.prev_with(foreign, bytes, layout);
    }
    let _ = cursor.last_with(foreign, bytes, layout);
    let _ = cursor.seek_for_prev(bytes, layout, &order, key);
    let timestamped = KeyOrder::BytewiseU64Ts;
    let tail = DataWords::encode(bytes, layout, &timestamped);
    for words in [None, DataWords::parse(&tail), foreign] {
        let _ = cursor.seek_for_prev_with(words, bytes, layout, &timestamped, key);
    }
    let _ = cursor.seek_bytes(bytes, layout, key);
    let _ = cursor.seek_point(bytes, layout, &order, key);
    let _ = cursor.prev(bytes, layout);
    if let HashHit::Restart(restart) = hash_lookup(bytes, layout, key::user_key(key)) {
        let _ = layout.restart(bytes, restart);
    }
}

/// Checks that a block rebuilt from the entries has the same entries, with and without a common prefix.
fn rebuilt(bytes: &[u8], layout: &BlockLayout) {
    for common_prefix in [false, true] {
        rebuilt_as(bytes, layout, common_prefix);
    }
}

fn rebuilt_as(bytes: &[u8], layout: &BlockLayout, common_prefix: bool) {
    let mut builder = BlockBuilder::new(BlockOptions {
        common_prefix,
        ..BlockOptions::default()
    });
    let mut cursor = DataCursor::new();
    let mut moved = cursor.first(bytes, layout);
    while moved.is_ok() && cursor.valid() {
        builder.add(cursor.key(bytes), cursor.value(bytes));
        moved = cursor.next(bytes, layout);
    }
    let stored = builder.finish();
    let expanded = expand(stored, EntryForm::Data).expect("what we build we read");
    let block = expanded.as_deref().unwrap_or(stored);
    let again = BlockLayout::parse(block, BlockKind::Data).expect("what we build we read");
    let mut other = DataCursor::new();
    other.first(block, &again).expect("what we build we read");
    cursor.first(bytes, layout).expect("it was walked before");
    while cursor.valid() {
        assert_eq!(other.key(block), cursor.key(bytes));
        assert_eq!(other.value(block), cursor.value(bytes));
        other.next(block, &again).expect("what we build we read");
        cursor.next(bytes, layout).expect("it was walked before");
    }
    assert!(!other.valid());
}

fn index_block(bytes: &[u8], form: IndexForm) {
    let Ok(layout) = BlockLayout::parse(bytes, BlockKind::Index) else {
        return;
    };
    let mut cursor = IndexCursor::new(form);
    let mut sought = Vec::new();
    let mut moved = cursor.first(bytes, &layout);
    let mut count = 0;
    while moved.is_ok() && cursor.valid() && count < MOST {
        let entry = cursor.entry(bytes);
        if sought.len() < 8 && count % 5 == 0 {
            sought.push(entry.key[..entry.key.len().min(512)].to_vec());
        }
        let _ = (entry.handle, entry.first_key, cursor.user_key(bytes).len());
        count += 1;
        moved = cursor.next(bytes, &layout);
    }
    let mut back = cursor.last(bytes, &layout);
    for _ in 0..64 {
        if back.is_err() || !cursor.valid() {
            break;
        }
        back = cursor.prev(bytes, &layout);
    }
    for order in [KeyOrder::Bytewise, KeyOrder::BytewiseU64Ts] {
        let words = KeyWords::of_index(bytes, &layout, form, &order);
        for key in &sought {
            let _ = cursor.seek(bytes, &layout, &order, key);
            if let Some(words) = &words {
                let _ = cursor.seek_with(words, bytes, &layout, &order, key);
            }
            if cursor.valid() {
                let _ = cursor.is_before(bytes, &order, key);
            }
        }
    }
}
