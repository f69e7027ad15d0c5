//! Opens tables without blocks, PlainTable and CuckooTable: as an image of sorted blocks in memory.
//!
//! RocksDB maps such a file and builds the indexes that it lacks in memory: of a PlainTable when it is opened, of a
//! CuckooTable for each iterator. Here the whole file is read when it is opened, its entries are sorted if they are not,
//! and written to data blocks with an index and a filter, all of which the open table holds. Every read finds its blocks
//! there, in any order, without I/O; the file is read again only to verify it.

use std::path::Path;
use std::sync::Arc;

use cairn_compress::Compression;
use cairn_format::filter::FilterPolicy;
use cairn_format::flat::cuckoo::CuckooLayout;
use cairn_format::flat::plain::{PlainEntries, PlainForm};
use cairn_format::flat::{FlatFooter, FlatFormat};
use cairn_format::key;
use cairn_format::table::{Handle, MetaIndex, Properties, meta};
use cairn_memory::{CacheRole, MemoryUse};
use cairn_options::{ChecksumKind, TableOptions};
use cairn_platform::fs::FileMode;
use cairn_platform::mem::MemFileSystem;
use cairn_platform::{Buffer, FileSystem, Io, RandomAccessFile, ReadRequest};
use cairn_types::{Decoded, Error, Malformed, Result};

use super::open::{OpenParams, cache_file, check_unique_id, global_seqno};
use super::table::{Blocks, MissingBlock, Table};
use crate::builder::{BlockBasedBuilder, BuildParams};
use crate::metadata::unique_id;

/// The number of bytes read at once.
const PIECE: usize = 8 << 20;
/// The maximum size of an image, as a multiple of the size of the file and a number of bytes more. A hostile PlainTable
/// can repeat a long prefix in every key.
const MAX_GROWTH: u64 = 16;
const MAX_EXTRA: u64 = 1 << 20;

/// The blocks of a table that has none in its file.
pub(crate) struct Image {
    format: FlatFormat,
    /// The length of the file.
    len: u64,
    /// The data blocks with their search words, by offset in the image.
    blocks: Blocks,
    /// The end of the data blocks in the image.
    data_end: u64,
}

impl Image {
    /// Returns the data block at `handle`.
    #[cold]
    pub(super) fn find(&self, handle: Handle) -> Option<Buffer> {
        let at = self
            .blocks
            .binary_search_by_key(&handle.offset, |block| block.0);
        Some(self.blocks[at.ok()?].1.clone())
    }

    /// The end of the data blocks.
    pub(super) fn data_end(&self) -> u64 {
        self.data_end
    }

    /// The format of the file.
    pub(super) fn format(&self) -> FlatFormat {
        self.format
    }

    /// The memory of the blocks, in bytes.
    pub(super) fn memory_usage(&self) -> usize {
        let each = self.blocks.iter().map(|(_, block)| block.memory_usage());
        each.sum::<usize>() + self.blocks.capacity() * size_of::<(u64, Buffer)>()
    }

    /// Reads the file again and checks that its entries can be decoded, and are those of the open table in number.
    pub(super) fn verify(&self, table: &Table, io: &Io) -> Result<()> {
        let file = Flat::read(&table.file, self.len, io)?;
        let mut found = 0;
        file.visit(&table.params, |_, _| {
            found += 1;
            Ok(())
        })?;
        let expected = table.properties.num_entries;
        match found == expected {
            true => Ok(()),
            false => Err(wrong_count(table.file.path(), expected, found)),
        }
    }
}

/// The parts of a table without blocks.
struct FlatParts {
    footer: FlatFooter,
    parts: MetaIndex,
    properties: Properties,
}

impl FlatParts {
    /// Decodes the parts with the end of the file, `tail`. `read` returns the bytes at a handle.
    fn decode(
        path: &Path,
        tail: &[u8],
        len: u64,
        read: &impl Fn(Handle) -> Result<Buffer>,
    ) -> Result<FlatParts> {
        let footer = FlatFooter::decode(tail, len)
            .map_err(|error| error.in_file(path.display(), len - tail.len() as u64))?;
        let limit = len - footer.len as u64;
        let at = footer.metaindex.offset;
        let parts = MetaIndex::decode(&read(footer.metaindex)?, limit)
            .map_err(|error| error.in_file(path.display(), at))?;
        let handle = parts.find(meta::PROPERTIES).ok_or_else(|| {
            Malformed::at(0, "metaindex without a properties block").in_file(path.display(), at)
        })?;
        let properties = Properties::decode(&read(handle)?)
            .map_err(|error| error.in_file(path.display(), handle.offset))?;
        Ok(FlatParts {
            footer,
            parts,
            properties,
        })
    }
}

/// Returns the properties of the table without blocks that ends with `tail`.
pub(super) fn read_properties(
    file: &Arc<dyn RandomAccessFile>,
    tail: &[u8],
    len: u64,
    io: &Io,
) -> Result<Properties> {
    let read = |handle: Handle| {
        let size = usize::try_from(handle.size).unwrap_or(usize::MAX);
        io.read_now(&ReadRequest::new(file.clone(), handle.offset, size))
    };
    Ok(FlatParts::decode(file.path(), tail, len, &read)?.properties)
}

/// A whole file in memory.
struct Flat<'f> {
    path: &'f Path,
    bytes: Vec<u8>,
    parts: FlatParts,
}

impl<'f> Flat<'f> {
    fn read(file: &'f Arc<dyn RandomAccessFile>, len: u64, io: &Io) -> Result<Flat<'f>> {
        let path = file.path();
        let mut bytes = Vec::new();
        let mut at = 0;
        while at < len {
            let piece = (len - at).min(PIECE as u64) as usize;
            let read = io.read_now(&ReadRequest::new(file.clone(), at, piece))?;
            if read.len() != piece {
                return Err(Error::corruption(format!(
                    "{} is shorter than its length of {len} bytes",
                    path.display()
                )));
            }
            bytes.extend_from_slice(&read);
            at += piece as u64;
        }
        let part = |handle: Handle| {
            let start = usize::try_from(handle.offset).unwrap_or(usize::MAX);
            let size = usize::try_from(handle.size).unwrap_or(usize::MAX);
            let part = bytes.get(start..start.saturating_add(size));
            part.map(Buffer::from).ok_or_else(|| {
                Malformed::at(0, "part outside of the file").in_file(path.display(), handle.offset)
            })
        };
        let parts = FlatParts::decode(path, &bytes, len, &part)?;
        Ok(Flat { path, bytes, parts })
    }

    fn bad(&self, error: Malformed) -> Error {
        error.in_file(self.path.display(), 0)
    }

    /// Calls `visit` with the entries in internal-key order.
    fn visit(
        &self,
        params: &OpenParams,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut last: Vec<u8> = Vec::new();
        let mut visit_next = |at: u64, key: &[u8], value: &[u8]| {
            if !last.is_empty() && key::compare(&params.order, &last, key).is_ge() {
                let disorder = Malformed::at(0, "keys are not in order");
                return Err(disorder.in_file(self.path.display(), at));
            }
            last.clear();
            last.extend_from_slice(key);
            visit(key, value)
        };
        let (properties, len) = (&self.parts.properties, self.bytes.len() as u64);
        match self.parts.footer.format {
            FlatFormat::Plain => {
                let form = PlainForm::of(properties, len).map_err(|error| self.bad(error))?;
                let entries = &self.bytes[..form.data_size as usize];
                let mut entries = PlainEntries::new(form, entries);
                loop {
                    let at = entries.at();
                    match entries.next_entry().map_err(|error| self.bad(error))? {
                        Some((key, value)) => visit_next(at, key, value)?,
                        None => return Ok(()),
                    }
                }
            }
            FlatFormat::Cuckoo => {
                let rows = sorted_rows(properties, &self.bytes, params);
                let (keys, rows) = rows.map_err(|error| self.bad(error))?;
                for Row { at, key, value } in rows {
                    visit_next(at as u64, &keys[key.0..key.1], value)?;
                }
                Ok(())
            }
        }
    }
}

/// An entry of a CuckooTable.
struct Row<'f> {
    /// The offset of the bucket.
    at: usize,
    /// The start and the end of the internal key.
    key: (usize, usize),
    value: &'f [u8],
}

/// Returns the internal keys of a CuckooTable, and its entries in their order.
fn sorted_rows<'f>(
    properties: &Properties,
    bytes: &'f [u8],
    params: &OpenParams,
) -> Decoded<(Vec<u8>, Vec<Row<'f>>)> {
    let layout = CuckooLayout::of(properties, bytes.len() as u64)?;
    let (mut keys, mut rows) = (Vec::new(), Vec::new());
    layout.visit(bytes, |at, key, value| {
        let start = keys.len();
        keys.extend_from_slice(key);
        rows.push(Row {
            at,
            key: (start, keys.len()),
            value,
        });
        Ok(())
    })?;
    rows.sort_by(|a, b| {
        let (a, b) = (&keys[a.key.0..a.key.1], &keys[b.key.0..b.key.1]);
        key::compare(&params.order, a, b)
    });
    Ok((keys, rows))
}

/// Opens the table without blocks in `file`, which has `len` bytes.
pub(super) fn open(
    file: &Arc<dyn RandomAccessFile>,
    len: u64,
    params: OpenParams,
    io: &Io,
) -> Result<Table> {
    let bytes = usize::try_from(len).unwrap_or(usize::MAX);
    let reading = params.charge(MemoryUse::ReadInProgress, bytes);
    let flat = Flat::read(file, len, io)?;
    let properties = &flat.parts.properties;
    let id = unique_id(properties);
    check_unique_id(file, &params, id)?;
    check_order(file, &params, properties)?;
    let global = global_seqno(file, &params, properties)?;
    let mut table = flat.image(&params)?;
    if global.is_some() {
        // Search words are those of the stored keys.
        table.words = 0;
    }
    table.global_seqno = global;
    let blocks = table.read_image()?;
    let Flat { parts, .. } = flat;
    drop(reading);
    table.image = Some(Image {
        format: parts.footer.format,
        len,
        blocks,
        data_end: table.data_end(),
    });
    table.file = file.clone();
    table.cache_file = cache_file(&params, id);
    table.prefix_extractor = params
        .prefix_extractor
        .clone()
        .filter(|extractor| parts.properties.prefix_extractor == *extractor.name());
    table.properties = parts.properties;
    table.parts = parts.parts;
    // The blocks are held, and not cached.
    table.params = OpenParams {
        cache: None,
        ..params
    };
    Ok(table)
}

/// Rejects a table with another key order, if it records one.
fn check_order(
    file: &Arc<dyn RandomAccessFile>,
    params: &OpenParams,
    properties: &Properties,
) -> Result<()> {
    let (ours, theirs) = (params.order.name(), &properties.comparator[..]);
    if theirs.is_empty() || ours == theirs {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "key order of {}: expected {ours}, found {theirs}",
        file.path().display()
    )))
}

/// The options of an image.
fn image_options(filter_bits: u32) -> TableOptions {
    TableOptions {
        filter_policy: (filter_bits > 0).then(|| FilterPolicy::Bloom {
            bits_per_key: f64::from(filter_bits),
        }),
        checksum: ChecksumKind::None,
        ..TableOptions::default()
    }
}

impl Flat<'_> {
    /// Returns a table with the entries, whose blocks are in a file in memory.
    fn image(&self, params: &OpenParams) -> Result<Table> {
        let fs = MemFileSystem::new();
        let path = Path::new("/image");
        let build = BuildParams {
            options: Arc::new(image_options(params.flat_filter_bits)),
            order: params.order.clone(),
            compression: Compression::None,
            prefix_extractor: params.prefix_extractor.clone(),
            ..BuildParams::default()
        };
        let mut builder = BlockBasedBuilder::create(fs.create(path, FileMode::default())?, build)?;
        let most = (self.bytes.len() as u64).saturating_mul(MAX_GROWTH) + MAX_EXTRA;
        self.visit(params, |key, value| {
            if builder.file_size() > most {
                let text = "table whose keys have more than 16 times its size";
                return Err(self.bad(Malformed::unsupported(0, text)));
            }
            builder.add(key, value)
        })?;
        let len = builder.finish()?.file_size;
        let open = OpenParams {
            number: params.number,
            order: params.order.clone(),
            prefix_extractor: params.prefix_extractor.clone(),
            options: Arc::new(image_options(params.flat_filter_bits)),
            ..OpenParams::default()
        };
        let file = fs.open(path, FileMode::default())?;
        let table = Table::open(file, len, open, &Io::blocking())?;
        Ok(Arc::into_inner(table).expect("the table is not shared yet"))
    }
}

impl Table {
    /// The format of a table without blocks; `None` for a block-based one.
    #[must_use]
    pub fn flat_format(&self) -> Option<FlatFormat> {
        self.image.as_ref().map(Image::format)
    }

    /// Reads all data blocks of an image from its file.
    fn read_image(&self) -> Result<Blocks> {
        let io = Io::blocking();
        let root = &self.index.root;
        let held = root.held.as_ref().expect("the index of an image is held");
        let handles = self.handles_in(held, self.index.form, root.handle)?;
        let mut blocks = Vec::with_capacity(handles.len());
        for handle in handles {
            let lack = MissingBlock {
                handle,
                role: CacheRole::Data,
            };
            let block = self.fetch(lack, &io, false)?.block;
            blocks.push((handle.offset, self.with_words(lack, block)));
        }
        Ok(blocks)
    }
}

/// The error of a table at `path` with `found` entries, of which its properties state `expected`.
#[cold]
pub(super) fn wrong_count(path: &Path, expected: u64, found: u64) -> Error {
    Error::corruption(format!(
        "number of entries of {}: expected {expected} as in its properties, found {found}",
        path.display()
    ))
}
