//! A whole directory: opened without changing it, listed, walked both ways, asked for keys.
//!
//! An input is an archive: for each file the length of its name (one byte), the name, the length
//! of its content (four bytes, little-endian), the content. What is cut off is missing.

use std::path::Path;

use cairn_db::{Db, Iter, OpenRequest, list_families, open};
use cairn_format::names::FileName;
use cairn_options::{DbOptions, FamilyOptions};
use cairn_platform::World;
use cairn_platform::fs::FileMode;

use crate::fix_checksums;
use crate::memory_limit::Bound;

/// Memtables with their first chunks, opened tables, the state of codecs.
pub const BOUND: Bound = Bound {
    base: 64 << 20,
    factor: 64,
};

/// Steps that a walk makes at most.
const MOST: usize = 2000;
/// Column families that are looked at.
const MOST_FAMILIES: usize = 8;

/// One file of an archive: where its name and its content lie.
struct Entry {
    name: std::ops::Range<usize>,
    content: std::ops::Range<usize>,
}

fn entries(data: &[u8]) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut at = 0;
    while let Some(&len) = data.get(at) {
        let name = at + 1..(at + 1 + usize::from(len)).min(data.len());
        let begin = name.end + 4;
        let Some(len) = data.get(name.end..begin) else {
            break;
        };
        let len = u32::from_le_bytes([len[0], len[1], len[2], len[3]]) as usize;
        let content = begin..begin.saturating_add(len).min(data.len());
        at = content.end;
        entries.push(Entry { name, content });
    }
    entries
}

fn name_of(data: &[u8], entry: &Entry) -> Option<FileName> {
    let name = std::str::from_utf8(&data[entry.name.clone()]).ok()?;
    FileName::parse(name)
}

/// Mends the checksums of logs, MANIFESTs and tables.
pub fn repair(data: &mut [u8]) {
    for entry in entries(data) {
        let name = name_of(data, &entry);
        let content = &mut data[entry.content];
        match name {
            Some(FileName::Wal(_) | FileName::Manifest(_)) => fix_checksums::log(content),
            Some(FileName::Table(_)) => fix_checksums::table(content),
            _ => {}
        }
    }
}

/// Opens and reads. Errors are answers; panics are not.
pub fn run(data: &[u8]) {
    let world = World::in_memory();
    let dir = Path::new("/db");
    if unpack(data, &world, dir).is_err() {
        return;
    }
    let before = world.fs.list(dir);
    // Names may be found where the database does not open.
    let _ = list_families(dir, &world);
    let options = DbOptions::default();
    let mut others = FamilyOptions {
        arena_block_size: 4096,
        ..FamilyOptions::default()
    };
    others.table.no_block_cache = true;
    let db = open(&OpenRequest {
        path: dir,
        options: &options,
        families: &[],
        others: Some(&others),
        read_only: true,
        world: world.clone(),
    });
    if let Ok(db) = db {
        read(&db);
    }
    assert_eq!(world.fs.list(dir), before, "a reader changed the directory");
}

fn unpack(data: &[u8], world: &World, dir: &Path) -> cairn_types::Result<()> {
    world.fs.create_dir_all(dir)?;
    for entry in entries(data) {
        let Some(name) = name_of(data, &entry) else {
            continue;
        };
        let file = world
            .fs
            .create(&dir.join(name.to_string()), FileMode::default())?;
        file.append(&data[entry.content])?;
        file.close()?;
    }
    Ok(())
}

fn read(db: &Db) {
    for family in db.families().iter().take(MOST_FAMILIES) {
        let mut iter = family.iter();
        iter.seek_to_first();
        let found = walk(&mut iter, |iter| iter.next());
        iter.seek_to_last();
        walk(&mut iter, |iter| iter.prev());
        for key in &found {
            iter.seek(key);
            let _ = iter.status();
            let _ = family.get(key);
        }
    }
}

/// Walks to the end, or far enough; some of the keys on the way.
fn walk(iter: &mut Iter, step: fn(&mut Iter)) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for count in 0..MOST {
        if !iter.valid() {
            break;
        }
        let _ = iter.value();
        if count % 37 == 0 && found.len() < 8 {
            found.push(iter.key().to_vec());
        }
        step(iter);
    }
    let _ = iter.status();
    found
}
