//! Commands on an open database: `get`, `put`, `delete`, `scan`, `load`, `list-families`, `properties`,
//! `compact`, `flush`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use cairn::{Db, Family, Iter, WriteBatch};
use cairn_options::{BottommostLevelCompaction, CompactRangeOptions, ReadOptions, WriteOptions};
use cairn_platform::fs::{FileMode, PathKind};
use cairn_platform::{FileSystem, PosixFileSystem, RandomAccessFile};
use cairn_types::{Error, Result};
use cairn_version::manifest::{self, Recovered};

use crate::args::{
    Compact, Delete, EntryFormat, Flush, Get, KeyForm, ListFamilies, Load, Properties, Put, Scan,
    ValueFormat,
};
use crate::complain;
use crate::load::{self, Format};
use crate::progress::Progress;
use crate::show::{escaped, hex, json_error, json_row, json_text, unhex};
use crate::tables;
use crate::target::{self, Use};

/// Decodes a key from the command line.
fn key_bytes(text: &str, form: KeyForm) -> Result<Vec<u8>> {
    match form.key_hex {
        true => unhex(text),
        false => Ok(text.as_bytes().to_vec()),
    }
}

fn optional_key(text: Option<&str>, form: KeyForm) -> Result<Option<Vec<u8>>> {
    text.map(|text| key_bytes(text, form)).transpose()
}

/// Converts an output error.
fn printed(result: std::io::Result<()>) -> Result<()> {
    result.map_err(|error| Error::io_text(format!("print: {error}")))
}

/// Returns read options for the newest state of a family, with or without timestamps.
fn newest(family: &Family<'_>) -> ReadOptions {
    let size = family.options().comparator.timestamp_size();
    ReadOptions {
        timestamp: (size > 0).then(|| vec![0xff; size]),
        ..ReadOptions::default()
    }
}

/// Prints the value of a key. Returns false if there is none.
pub fn get(flags: &Get, out: &mut dyn Write) -> Result<bool> {
    let key = key_bytes(&flags.key, flags.keys)?;
    let db = target::open(&flags.target, Use::Read)?;
    let family = target::family(&db, &flags.family.family)?;
    let Some(value) = family.get_with(&key, &newest(&family))? else {
        complain(format_args!("key {} does not exist", escaped(&key)));
        return Ok(false);
    };
    printed(match flags.format {
        ValueFormat::Text => writeln!(out, "{}", escaped(&value)),
        ValueFormat::Hex => writeln!(out, "{}", hex(&value)),
        ValueFormat::Raw => out.write_all(&value),
    })?;
    Ok(true)
}

/// Sets the value of a key.
pub fn put(flags: &Put) -> Result<()> {
    let key = key_bytes(&flags.key, flags.keys)?;
    let value = key_bytes(
        &flags.value,
        KeyForm {
            key_hex: flags.value_hex,
        },
    )?;
    let purpose = if flags.create {
        Use::Create
    } else {
        Use::Write
    };
    let db = target::open(&flags.target, purpose)?;
    let family = target::family(&db, &flags.family.family)?;
    let options = WriteOptions {
        sync: flags.sync,
        ..WriteOptions::default()
    };
    family.put_with(&key, &value, &options)?;
    db.close()
}

/// Deletes a key or a range.
pub fn delete(flags: &Delete) -> Result<()> {
    let key = key_bytes(&flags.key, flags.keys)?;
    let end = optional_key(flags.end.as_deref(), flags.keys)?;
    let db = target::open(&flags.target, Use::Write)?;
    let family = target::family(&db, &flags.family.family)?;
    let mut batch = WriteBatch::new();
    match end {
        Some(end) => batch.delete_range_in(&family, &key, &end),
        None => batch.delete_in(&family, &key),
    }
    let options = WriteOptions {
        sync: flags.sync,
        ..WriteOptions::default()
    };
    db.write_with(&batch, &options)?;
    db.close()
}

/// Prints entries.
pub fn scan(flags: &Scan, out: &mut dyn Write) -> Result<()> {
    let range = Range::new(flags)?;
    let jsonl = flags.format == EntryFormat::Jsonl;
    let db = match target::open(&flags.target, Use::Read) {
        Ok(db) => db,
        Err(error) => {
            if jsonl {
                printed(writeln!(
                    out,
                    "{{\"open_error\":{}}}",
                    json_text(&error.to_string())
                ))?;
            }
            return Err(error);
        }
    };
    let families = match flags.all_families {
        true => db.families(),
        false => vec![target::family(&db, &flags.family.family)?],
    };
    let mut failed = None;
    for family in &families {
        let result = scan_family(flags, &range, family, out);
        if let Err(error) = result {
            if jsonl {
                printed(writeln!(out, "{}", json_error(family.name(), &error)))?;
            }
            failed = Some(error);
        }
    }
    failed.map_or(Ok(()), Err)
}

/// The range of a scan.
struct Range {
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    prefix: Option<Vec<u8>>,
}

impl Range {
    fn new(flags: &Scan) -> Result<Range> {
        Ok(Range {
            from: optional_key(flags.from.as_deref(), flags.keys)?,
            to: optional_key(flags.to.as_deref(), flags.keys)?,
            prefix: optional_key(flags.prefix.as_deref(), flags.keys)?,
        })
    }

    /// Returns read options with the range as bounds of an iterator over `family`.
    ///
    /// A prefix can be expressed as bounds only in bytewise order; with other orders, every key is
    /// visited.
    fn options(&self, family: &Family<'_>) -> ReadOptions {
        let mut options = ReadOptions {
            iterate_lower_bound: self.from.clone(),
            iterate_upper_bound: self.to.clone(),
            total_order_seek: true,
            fill_cache: false,
            ..newest(family)
        };
        if let Some(prefix) = &self.prefix
            && family.options().comparator.is_bytewise()
        {
            options.iterate_lower_bound = Some(prefix.clone());
            options.iterate_upper_bound = after_prefix(prefix);
        }
        options
    }

    fn shows(&self, key: &[u8]) -> bool {
        self.prefix
            .as_deref()
            .is_none_or(|prefix| key.starts_with(prefix))
    }
}

/// Returns the first key after all keys with `prefix`, if there is one.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

fn scan_family(
    flags: &Scan,
    range: &Range,
    family: &Family<'_>,
    out: &mut dyn Write,
) -> Result<()> {
    let mut iter = family.iter_with(&range.options(family));
    match flags.reverse {
        true => iter.seek_to_last(),
        false => iter.seek_to_first(),
    }
    let limit = flags.limit.unwrap_or(u64::MAX);
    let mut shown = 0;
    while iter.valid() && shown < limit {
        if range.shows(iter.key()) {
            shown += 1;
            if !flags.count {
                printed(print_row(flags, family.name(), &iter, out))?;
            }
        }
        match flags.reverse {
            true => iter.prev(),
            false => iter.next(),
        }
    }
    if flags.count {
        printed(match flags.all_families {
            true => writeln!(out, "{}: {shown}", escaped(family.name().as_bytes())),
            false => writeln!(out, "{shown}"),
        })?;
    }
    iter.status()
}

fn print_row(
    flags: &Scan,
    family: &str,
    iter: &Iter<'_>,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let show = match flags.format {
        EntryFormat::Jsonl => {
            let columns = iter.columns();
            let columns: Vec<(&[u8], &[u8])> = columns
                .as_ref()
                .map(|columns| columns.iter().collect())
                .unwrap_or_default();
            let row = json_row(family, iter.key(), iter.value(), &columns, iter.timestamp());
            return writeln!(out, "{row}");
        }
        EntryFormat::Text => escaped,
        EntryFormat::Hex => hex,
    };
    match flags.keys_only {
        true => writeln!(out, "{}", show(iter.key())),
        false => writeln!(out, "{} : {}", show(iter.key()), show(iter.value())),
    }
}

/// The size in bytes from which `load` writes a batch, whatever its number of entries.
const BATCH_BYTES: usize = 4 << 20;

/// Loads a file into a database.
pub fn load(flags: &Load, out: &mut dyn Write) -> Result<()> {
    let format = flags.format.unwrap_or_else(|| Format::of_name(&flags.file));
    let input = input_of(&flags.file)?;
    let db = target::open(&flags.target, Use::Create)?;
    let default = target::family(&db, &flags.family.family)?;
    let options = WriteOptions {
        disable_wal: flags.disable_wal,
        ..WriteOptions::default()
    };
    let progress = Progress::items("load", None);
    let mut batch = WriteBatch::new();
    let (mut entries, mut bytes) = (0u64, 0u64);
    let mut named: Vec<Family<'_>> = Vec::new();
    for entry in load::entries(input, format, flags.header) {
        let entry = entry.map_err(|error| error.context(flags.file.display()))?;
        let family = match entry.family.as_deref() {
            None => &default,
            Some(name) => family_for(&db, &mut named, name)?,
        };
        batch.put_in(family, &entry.key, &entry.value);
        entries += 1;
        bytes += (entry.key.len() + entry.value.len()) as u64;
        if batch.count() as usize >= flags.batch.max(1) || batch.data().len() >= BATCH_BYTES {
            db.write_with(&batch, &options)?;
            progress.advance(u64::from(batch.count()));
            batch.clear();
        }
    }
    db.write_with(&batch, &options)?;
    if flags.disable_wal {
        db.flush()?;
    }
    progress.finish();
    db.close()?;
    printed(writeln!(out, "{entries} entries, {bytes} bytes"))
}

/// Returns the family `name`, creating it if it does not exist, so that a dump of several families is
/// restored.
fn family_for<'a, 'db>(
    db: &'db Db,
    named: &'a mut Vec<Family<'db>>,
    name: &str,
) -> Result<&'a Family<'db>> {
    if let Some(at) = named.iter().position(|family| family.name() == name) {
        return Ok(&named[at]);
    }
    let family = match db.family(name) {
        Some(family) => family,
        None => db.create_family(name, &db.default_family().options())?,
    };
    named.push(family);
    Ok(named.last().expect("just pushed"))
}

/// Opens the file or standard input.
fn input_of(path: &Path) -> Result<Box<dyn BufRead>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(BufReader::new(std::io::stdin())));
    }
    if PosixFileSystem
        .status(path)
        .is_ok_and(|status| status.kind == PathKind::Other)
    {
        // A pipe has no offsets.
        let pipe = std::fs::File::open(path).map_err(|error| Error::io("open", path, error))?;
        return Ok(Box::new(BufReader::with_capacity(1 << 20, pipe)));
    }
    let file = PosixFileSystem.open(path, FileMode::default())?;
    Ok(Box::new(BufReader::with_capacity(
        1 << 20,
        InOrder { file, at: 0 },
    )))
}

/// A file read sequentially.
struct InOrder {
    file: std::sync::Arc<dyn RandomAccessFile>,
    at: u64,
}

impl std::io::Read for InOrder {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let got = self
            .file
            .read_at(self.at, buf)
            .map_err(std::io::Error::other)?;
        self.at += got as u64;
        Ok(got)
    }
}

/// Returns the state that the MANIFEST of the database `dir` describes.
///
/// # Errors
///
/// `InvalidArgument` if there is no database; errors of reading it.
pub fn recovered(dir: &Path) -> Result<Recovered> {
    let number = manifest::current(&PosixFileSystem, dir)?.ok_or_else(|| {
        Error::invalid_argument(format!(
            "{} is not a database: CURRENT is missing",
            dir.display()
        ))
    })?;
    let order = |_: &str, name: &str| Ok(tables::order_named(name));
    manifest::replay(&PosixFileSystem, dir, number, &order)
}

/// Lists the column families.
pub fn list_families(flags: &ListFamilies, out: &mut dyn Write) -> Result<()> {
    let recovered = recovered(&flags.db)?;
    for family in &recovered.families {
        let name = escaped(family.name.as_bytes());
        printed(match flags.long {
            false => writeln!(out, "{name}"),
            true => {
                let files = family.version.files().count();
                let sizes = family.version.files().map(|(_, file)| file.size);
                let bytes = sizes.fold(0, u64::saturating_add);
                writeln!(
                    out,
                    "{name}: id {}, {}, {files} tables, {bytes} bytes, {} blob files",
                    family.id,
                    family.version.order().name(),
                    family.version.blob_files().len()
                )
            }
        })?;
    }
    Ok(())
}

/// Prints properties.
pub fn properties(flags: &Properties, out: &mut dyn Write) -> Result<()> {
    let db = target::open(&flags.target, Use::Read)?;
    let family = target::family(&db, &flags.family.family)?;
    let all: Vec<String> = match flags.names.is_empty() {
        true => Db::property_names().map(str::to_owned).collect(),
        false => flags.names.clone(),
    };
    for name in all {
        match family.property(&name) {
            Some(value) if value.contains('\n') => {
                printed(writeln!(out, "{name}:\n{}", value.trim_end()))?;
            }
            Some(value) => printed(writeln!(out, "{name}: {value}"))?,
            None if flags.names.is_empty() => {}
            None => {
                return Err(Error::invalid_argument(format!("unknown property {name}")));
            }
        }
    }
    Ok(())
}

/// Compacts.
pub fn compact(flags: &Compact) -> Result<()> {
    let from = optional_key(flags.from.as_deref(), flags.keys)?;
    let to = optional_key(flags.to.as_deref(), flags.keys)?;
    let db = target::open(&flags.target, Use::Write)?;
    let families = match flags.all_families {
        true => db.families(),
        false => vec![target::family(&db, &flags.family.family)?],
    };
    let mut options = CompactRangeOptions::default();
    if flags.bottommost {
        options.bottommost_level_compaction = BottommostLevelCompaction::Force;
    }
    for family in families {
        family.compact_range(from.as_deref(), to.as_deref(), &options)?;
    }
    db.close()
}

/// Flushes all families.
pub fn flush(flags: &Flush) -> Result<()> {
    let db = target::open(&flags.target, Use::Write)?;
    db.flush()?;
    db.close()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_is_after_all_its_keys() {
        assert_eq!(after_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(after_prefix(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(after_prefix(b"\xff"), None);
        assert_eq!(after_prefix(b""), None);
    }
}
