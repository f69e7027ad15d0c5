//! Tables without blocks: footers, entries, indexes and filters of PlainTables, and the layout of CuckooTables.
//!
//! The first byte selects the part.

use cairn_format::flat::cuckoo::{CuckooBuilder, CuckooHash, CuckooLayout, CuckooOptions};
use cairn_format::flat::plain::{
    PlainBloom, PlainEncoder, PlainEncoding, PlainEntries, PlainForm, PlainIndex,
};
use cairn_format::flat::{FlatFooter, FlatFormat};
use cairn_format::key;
use cairn_format::table::Properties;

use crate::memory_limit::Bound;

/// Memory of a table that is built from a few keys, besides that of the input.
pub const BOUND: Bound = Bound {
    base: 1 << 20,
    factor: 64,
};

/// The bytes of properties in front of the buckets of a CuckooTable.
const LAYOUT_LEN: usize = 16;

/// Decodes the part and, if accepted, decodes its encoding again.
pub fn run(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else {
        return;
    };
    match choice % 5 {
        0 => footer(data),
        1 => entries(data),
        2 => index(data),
        3 => buckets(data),
        _ => built(data),
    }
}

fn footer(data: &[u8]) {
    for len in [data.len() as u64, 1 << 20, u64::MAX] {
        let Ok(footer) = FlatFooter::decode(data, len) else {
            continue;
        };
        assert_eq!(FlatFormat::recognize(data), Some(footer.format));
        let offset = len - footer.len as u64;
        let handle = footer.metaindex;
        assert!(handle.offset + handle.size <= offset);
        let bytes = FlatFooter::encode(footer.format, handle);
        let again = FlatFooter::decode(&bytes, offset + bytes.len() as u64);
        assert_eq!(again.map(|footer| footer.metaindex), Ok(handle));
    }
}

/// The first byte of the rest selects the encoding, the second the length of the keys.
fn entries(data: &[u8]) {
    let [choice, len, data @ ..] = data else {
        return;
    };
    let form = PlainForm {
        encoding: match choice % 2 {
            0 => PlainEncoding::Plain,
            _ => PlainEncoding::Prefix,
        },
        user_key_len: u32::from(*len),
        data_size: data.len() as u64,
    };
    let mut decoder = PlainEntries::new(form, data);
    // Without prefixes, the encoder writes what the decoder reads.
    let plain = PlainForm {
        encoding: PlainEncoding::Plain,
        ..form
    };
    let user_key_len = match form.encoding {
        PlainEncoding::Plain => form.user_key_len,
        PlainEncoding::Prefix => 0,
    };
    let mut encoder = PlainEncoder::new(PlainEncoding::Plain, user_key_len, None, 0);
    let mut bytes = Vec::new();
    loop {
        let at = decoder.at();
        assert!(at <= data.len() as u64);
        let Ok(Some((key, value))) = decoder.next_entry() else {
            return;
        };
        // A key may have gathered a prefix from each of its predecessors.
        if key.len() > 1 << 12 {
            return;
        }
        bytes.clear();
        assert_eq!(encoder.append(key, value, &mut bytes), Ok(()));
        let form = PlainForm {
            user_key_len,
            ..plain
        };
        let mut again = PlainEntries::new(form, &bytes);
        assert_eq!(again.next_entry(), Ok(Some((key, value))));
    }
}

fn index(data: &[u8]) {
    if let Ok(index) = PlainIndex::decode(data) {
        for prefix in [&b""[..], b"a", b"key1"] {
            if let Ok(offsets) = index.offsets(prefix) {
                assert!(4 * offsets.len() <= data.len());
            }
        }
    }
    for lines in [0, 1, 3, u32::MAX] {
        if let Some(mut bloom) = PlainBloom::decode(data, lines) {
            bloom.add(b"key1");
            assert!(bloom.may_contain(b"key1"));
        }
    }
}

/// The first bytes are numbers of the properties, the rest are buckets.
fn buckets(data: &[u8]) {
    let Some((head, file)) = data.split_at_checked(LAYOUT_LEN) else {
        return;
    };
    let number = |at: usize| u64::from(head[at]);
    let layout = CuckooLayout {
        hash: CuckooHash {
            identity_first: head[0] & 1 != 0,
            use_module: head[0] & 2 != 0,
        },
        hashes: u32::from(head[1] % 9),
        table_size: number(2) << (head[3] % 58),
        block_size: u32::from(head[4]) << (head[5] % 26),
        is_last_level: head[0] & 4 != 0,
        key_len: usize::from(head[6] % 32),
        value_len: usize::from(head[7]) << (head[8] % 26),
        empty_key: head[9..].repeat(5)[..usize::from(head[6] % 32)].to_vec(),
        entries: number(9),
    };
    let mut properties = Properties {
        num_entries: layout.entries,
        ..Properties::default()
    };
    layout.describe(&mut properties);
    let Ok(layout) = CuckooLayout::of(&properties, file.len() as u64) else {
        return;
    };
    let mut found = Vec::new();
    let visited = layout.visit(file, |at, key, value| {
        assert!(at + layout.bucket_len() <= file.len());
        if found.len() < 8 {
            found.push((key.to_vec(), value.to_vec()));
        }
        Ok(())
    });
    if visited.is_ok() {
        for (key, _) in &found {
            let _ = layout.find(file, key::user_key(key));
        }
    }
}

/// Builds a CuckooTable of keys of two bytes, and finds all of them.
fn built(data: &[u8]) {
    let [choice, block_size, depth, data @ ..] = data else {
        return;
    };
    let mut builder = CuckooBuilder::new(CuckooOptions {
        hash: CuckooHash {
            identity_first: choice & 1 != 0,
            use_module: choice & 2 != 0,
        },
        hash_table_ratio: 0.5 + f64::from(choice >> 4) / 32.0,
        max_search_depth: u32::from(depth % 8),
        block_size: u32::from(block_size % 8),
    });
    let mut users: Vec<&[u8]> = data.chunks_exact(2).take(400).collect();
    users.sort_unstable();
    users.dedup();
    let seq = cairn_types::SequenceNumber(u64::from(choice & 4));
    for user in &users {
        let mut key = Vec::new();
        key::append_internal(&mut key, user, seq, cairn_types::ValueKind::Value);
        builder
            .add(&key, user, false)
            .expect("all sizes are the same");
    }
    let Ok((layout, placed)) = builder.place() else {
        return;
    };
    let mut file = Vec::new();
    for entry in placed {
        builder.bucket(&layout, entry, &mut file);
    }
    for user in users {
        let at = layout.find(&file, user).expect("the table is sound");
        assert_eq!(&file[at.expect("the key was added")..][..2], user);
    }
}
