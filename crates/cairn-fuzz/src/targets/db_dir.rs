//! A whole database directory: opened read-only, listed, iterated both ways, read.
//!
//! An input is an archive: for each file the length of its name (one byte), the name, the length of its
//! content (four bytes, little-endian), the content. A truncated archive has fewer files.

use std::path::Path;

use cairn_db::{Db, Iter, OpenRequest, list_families, open};
use cairn_format::names::FileName;
use cairn_options::{DbOptions, FamilyOptions};
use cairn_platform::World;
use cairn_platform::fs::FileMode;

use crate::fix_checksums;
use crate::memory_limit::Bound;

/// Memory of memtables, open tables and codecs.
pub const BOUND: Bound = Bound {
    base: 64 << 20,
    factor: 64,
};

/// Maximum number of iterator steps.
const MOST: usize = 2000;
/// Maximum number of column families read.
const MOST_FAMILIES: usize = 8;

/// The ranges of name and content of a file in the archive.
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

/// Fixes the checksums of logs, MANIFESTs and tables.
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

/// Opens and reads the database. Errors are expected, panics are not.
pub fn run(data: &[u8]) {
    let world = World::in_memory();
    let dir = Path::new("/db");
    if unpack(data, &world, dir).is_err() {
        return;
    }
    let before = world.fs.list(dir);
    // Families may be listed even if the database does not open.
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

/// Iterates up to the limit and returns some of the keys.
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
