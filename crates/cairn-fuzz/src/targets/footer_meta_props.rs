//! Table metadata: footer, metaindex, properties, ids.
//!
//! The first byte selects the part.

use cairn_format::id::{SessionId, UniqueId};
use cairn_format::seqno_times::{MAX_IN_TABLE, SeqnoTimes};
use cairn_format::table::footer::Footer;
use cairn_format::table::meta::MetaIndex;
use cairn_format::table::properties::Properties;
use cairn_types::SequenceNumber;

/// Decodes the part and, if accepted, decodes its encoding again.
pub fn run(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else {
        return;
    };
    match choice % 4 {
        0 => footer(data),
        1 => metaindex(data),
        2 => properties(data),
        _ => ids(data),
    }
}

fn footer(data: &[u8]) {
    for len in [data.len() as u64, 1 << 20, u64::MAX] {
        let Ok(footer) = Footer::decode(data, len) else {
            continue;
        };
        assert!(footer.metaindex.end() <= len);
        assert!(footer.index.is_none_or(|index| index.end() <= len));
        // The encoder leaves no gap after the metaindex.
        let offset = match footer.index {
            Some(_) => len - footer.encoded_len() as u64,
            None => footer.metaindex.end(),
        };
        let len = offset + footer.encoded_len() as u64;
        let mut bytes = Vec::new();
        footer.encode(offset, &mut bytes);
        assert_eq!(Footer::decode(&bytes, len).ok(), Some(footer));
    }
}

fn metaindex(data: &[u8]) {
    let Ok(meta) = MetaIndex::decode(data, 1 << 30) else {
        return;
    };
    for (name, handle) in meta.iter() {
        assert!(handle.end() <= 1 << 30);
        assert!(meta.find(name).is_some());
    }
}

fn seqno_times(data: &[u8]) {
    let Ok(times) = SeqnoTimes::decode(data) else {
        return;
    };
    let again = SeqnoTimes::decode(&times.encode());
    assert_eq!(again.expect("encoded samples can be decoded"), times);
    let table = times.for_table(SequenceNumber(1), SequenceNumber::MAX);
    assert!(table.samples().len() <= MAX_IN_TABLE);
}

fn properties(data: &[u8]) {
    seqno_times(data);
    let _ = Properties::find_global_seqno(data);
    let Ok(properties) = Properties::decode(data) else {
        return;
    };
    seqno_times(&properties.seqno_time_map);
    let again = Properties::decode(&properties.encode()).expect("encoded metadata can be decoded");
    assert_eq!(again.encode(), properties.encode());
    let _ = properties.rows();
}

fn ids(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Some(session) = SessionId::parse(text) {
        assert_eq!(SessionId::parse(&session.to_string()), Some(session));
    }
    if let Some(id) = UniqueId::of_table("db", text, 7) {
        let _ = (id.short(), id.external());
    }
}
