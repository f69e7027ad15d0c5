//! Builder of tables without blocks: PlainTable and CuckooTable.
//!
//! The entries of a PlainTable are written as they come; its index and its Bloom filter, which are optional, are built
//! from the offsets and hashes of the keys. A CuckooTable keeps all entries until it is finished.

use std::sync::Arc;

use cairn_format::checksum::ChecksumKind;
use cairn_format::flat::cuckoo::{CuckooBuilder, CuckooHash, CuckooOptions, Unhashable};
use cairn_format::flat::plain::{self, PlainBloom, PlainEncoder, PlainEncoding, Unencodable};
use cairn_format::flat::{FlatFooter, FlatFormat};
use cairn_format::hash::hash32;
use cairn_format::key;
use cairn_format::table::{Handle, MetaIndex, Properties, meta};
use cairn_memory::{CacheCharge, MemoryUse};
use cairn_options::{CuckooTableOptions, PlainEncodingType, PlainTableOptions, TableFormat};
use cairn_platform::WritableFile;
use cairn_types::{Error, Malformed, Result, ValueKind};

use super::file_writer::{BUFFER_BYTES, FileWriter, FileWriterOptions};
use super::params::BuildParams;
use super::{TableStats, table_builder::Counts};

/// Builder of a table without blocks.
pub(super) struct FlatBuilder {
    output: FileWriter,
    body: Body,
    pub(super) properties: Properties,
    last_key: Vec<u8>,
    pub(super) counts: Counts,
    charge: Option<CacheCharge>,
}

/// The entries of a table.
enum Body {
    Plain(Box<PlainBody>),
    Cuckoo(Box<CuckooBuilder>),
}

/// The entries of a PlainTable, which are in the file, and its index.
struct PlainBody {
    encoder: PlainEncoder,
    options: PlainTableOptions,
    has_prefixes: bool,
    has_locality: bool,
    index: Option<plain::PlainIndexBuilder>,
    /// The hash of the prefix of each key, or of the key without a prefix extractor.
    hashes: Vec<u32>,
    entry: Vec<u8>,
}

impl PlainBody {
    fn new(
        options: &PlainTableOptions,
        bloom_locality: u32,
        params: &BuildParams,
    ) -> Result<PlainBody> {
        let extractor = params.prefix_extractor.clone();
        let encoding = match options.encoding_type {
            PlainEncodingType::Plain => PlainEncoding::Plain,
            PlainEncodingType::Prefix => PlainEncoding::Prefix,
        };
        if extractor.is_none() && encoding == PlainEncoding::Prefix {
            return Err(Error::invalid_argument(
                "encoding_type=kPrefix of a PlainTable requires a prefix extractor",
            ));
        }
        // RocksDB does not open such a table with these options.
        if extractor.is_none() && options.hash_table_ratio != 0.0 {
            return Err(Error::not_supported(
                "PlainTable requires a prefix extractor enable prefix hash mode.",
            ));
        }
        Ok(PlainBody {
            has_prefixes: extractor.is_some(),
            encoder: PlainEncoder::new(
                encoding,
                options.user_key_len,
                extractor,
                options.index_sparseness,
            ),
            has_locality: bloom_locality > 0,
            index: options
                .store_index_in_file
                .then(|| plain::PlainIndexBuilder::new(options.index_sparseness)),
            options: options.clone(),
            hashes: Vec::new(),
            entry: Vec::new(),
        })
    }

    /// Writes an entry.
    fn add(&mut self, internal: &[u8], value: &[u8], output: &mut FileWriter) -> Result<()> {
        let refused = |error: Unencodable| {
            Error::not_supported(match error {
                Unencodable::KeyLength(len) => format!(
                    "a user key of {len} bytes in a PlainTable with user_key_len {}",
                    self.options.user_key_len
                ),
                Unencodable::NoPrefix => {
                    "a key in a PlainTable that is outside of the domain of the prefix extractor"
                        .to_owned()
                }
                Unencodable::ValueLength(len) => format!("a value of {len} bytes in a PlainTable"),
            })
        };
        let user = key::user_key(internal);
        let prefix = self.encoder.prefix_of(user).map_err(refused)?;
        let at = u32::try_from(output.offset()).unwrap_or(u32::MAX);
        let hashed = if self.has_prefixes { prefix } else { user };
        let hash = self
            .index
            .as_ref()
            .map(|_| hash32(hashed, plain::HASH_SEED));
        if let Some(index) = &mut self.index {
            index.add(prefix, at);
        }
        self.hashes.extend(hash);
        self.entry.clear();
        self.encoder
            .append(internal, value, &mut self.entry)
            .map_err(refused)?;
        let end = output.offset() + self.entry.len() as u64;
        if end > plain::MAX_FILE_LEN {
            return Err(Error::not_supported(format!(
                "a PlainTable of {end} bytes: expected at most {}",
                plain::MAX_FILE_LEN
            )));
        }
        output.append(&self.entry)
    }

    /// Writes the Bloom filter and the index.
    fn finish(
        self,
        output: &mut FileWriter,
        properties: &mut Properties,
        parts: &mut MetaIndex,
    ) -> Result<()> {
        let Some(index) = self.index else {
            return Ok(());
        };
        let others = &mut properties.others;
        others.insert(plain::BLOOM_VERSION_PROPERTY.to_vec(), b"1".to_vec());
        if self.hashes.is_empty() {
            return Ok(());
        }
        if let Ok(bits @ 1..) = u32::try_from(self.options.bloom_bits_per_key) {
            let bits = (self.hashes.len() as u32).wrapping_mul(bits).max(1);
            let mut bloom = PlainBloom::new(bits, self.has_locality);
            self.hashes.iter().for_each(|&hash| bloom.add_hash(hash));
            let mut lines = Vec::new();
            cairn_format::coding::put_varint32(&mut lines, bloom.lines());
            others.insert(plain::BLOOM_BLOCKS_PROPERTY.to_vec(), lines);
            properties.filter_size = bloom.bytes().len() as u64;
            parts.insert(plain::BLOOM_BLOCK, append_part(output, bloom.bytes())?);
        }
        let ratio = self.has_prefixes.then_some(self.options.hash_table_ratio);
        let block = index.finish(ratio);
        properties.index_size = block.len() as u64;
        parts.insert(plain::INDEX_BLOCK, append_part(output, &block)?);
        Ok(())
    }

    fn memory_usage(&self) -> usize {
        let index = self.index.as_ref();
        index.map_or(0, plain::PlainIndexBuilder::memory_usage) + 4 * self.hashes.capacity()
    }
}

/// Appends a part without a trailer.
fn append_part(output: &mut FileWriter, part: &[u8]) -> Result<Handle> {
    let handle = Handle {
        offset: output.offset(),
        size: part.len() as u64,
    };
    output.append(part)?;
    Ok(handle)
}

fn cuckoo_body(options: &CuckooTableOptions) -> Result<CuckooBuilder> {
    let ratio = options.hash_table_ratio;
    if !(ratio > 0.0 && ratio <= 1.0) {
        return Err(Error::invalid_argument(format!(
            "hash_table_ratio of a CuckooTable: expected above 0 and up to 1, found {ratio}"
        )));
    }
    Ok(CuckooBuilder::new(CuckooOptions {
        hash: CuckooHash {
            identity_first: options.identity_as_first_hash,
            use_module: options.use_module_hash,
        },
        hash_table_ratio: ratio,
        max_search_depth: options.max_search_depth,
        block_size: options.cuckoo_block_size,
    }))
}

/// Returns the error for entries that a CuckooTable cannot hold, in RocksDB's words.
fn unhashable(error: &Unhashable) -> Error {
    match error {
        Unhashable::KeyLength => Error::not_supported("all keys have to be the same size"),
        Unhashable::ValueLength => Error::not_supported("all values have to be the same size"),
        Unhashable::SameKey => Error::not_supported("Same key is being inserted again."),
        Unhashable::Collisions => Error::not_supported("Too many collisions. Unable to hash."),
        Unhashable::TooMany => Error::not_supported("Number of keys in a file must be < 2^32-1"),
        Unhashable::NoUnusedKey => Error::corruption("Unable to find unused key"),
    }
}

impl FlatBuilder {
    /// Creates a builder; `None` for the block-based format.
    pub(super) fn create(
        file: &Arc<dyn WritableFile>,
        params: &BuildParams,
    ) -> Result<Option<FlatBuilder>> {
        let mut properties = params.properties();
        plain_properties(&mut properties);
        let body = match &params.format {
            TableFormat::BlockBased => return Ok(None),
            TableFormat::Plain {
                options,
                bloom_locality,
            } => {
                let encoding = options.encoding_type as u32;
                properties.format_version = u64::from(encoding);
                properties.fixed_key_len = u64::from(options.user_key_len);
                properties.others.insert(
                    plain::ENCODING_PROPERTY.to_vec(),
                    encoding.to_le_bytes().to_vec(),
                );
                Body::Plain(Box::new(PlainBody::new(options, *bloom_locality, params)?))
            }
            TableFormat::Cuckoo(options) => Body::Cuckoo(Box::new(cuckoo_body(options)?)),
        };
        let output = FileWriter::new(
            file.clone(),
            FileWriterOptions {
                checksum: ChecksumKind::None,
                base_context: 0,
                bytes_per_sync: params.bytes_per_sync,
                file_checksum: params.file_checksum.clone(),
                meter: params.meter.clone(),
            },
        );
        Ok(Some(FlatBuilder {
            output,
            body,
            properties,
            last_key: Vec::new(),
            counts: Counts::default(),
            charge: params.charge.charge(MemoryUse::Job, BUFFER_BYTES),
        }))
    }

    pub(super) fn add(&mut self, internal: &[u8], value: &[u8]) -> Result<()> {
        let parsed = key::parse(internal);
        let parsed = parsed.map_err(|error: Malformed| Error::corruption(error.to_string()))?;
        match &mut self.body {
            Body::Plain(body) => body.add(internal, value, &mut self.output)?,
            Body::Cuckoo(builder) => {
                if !matches!(parsed.kind, ValueKind::Value | ValueKind::Deletion) {
                    let kind = parsed.kind as u8;
                    return Err(Error::not_supported(format!("Unsupported key type {kind}")));
                }
                let is_deletion = parsed.kind == ValueKind::Deletion;
                let added = builder.add(internal, value, is_deletion);
                added.map_err(|error| unhashable(&error))?;
            }
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(internal);
        self.counts.count(&mut self.properties, internal, value);
        if let Some(charge) = &mut self.charge {
            let body = match &self.body {
                Body::Plain(body) => body.memory_usage(),
                Body::Cuckoo(builder) => builder.memory_usage(),
            };
            charge.follow(BUFFER_BYTES + body);
        }
        Ok(())
    }

    pub(super) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// The size of the entries so far.
    pub(super) fn file_size(&self) -> u64 {
        match &self.body {
            Body::Plain(_) => self.output.offset(),
            Body::Cuckoo(builder) => builder.estimated_size(),
        }
    }

    pub(super) fn finish(self) -> Result<TableStats> {
        let FlatBuilder {
            mut output,
            body,
            mut properties,
            ..
        } = self;
        let mut parts = MetaIndex::default();
        properties.num_data_blocks = 1;
        let format = match body {
            Body::Plain(body) => {
                properties.data_size = output.offset();
                body.finish(&mut output, &mut properties, &mut parts)?;
                FlatFormat::Plain
            }
            Body::Cuckoo(builder) => {
                write_buckets(&builder, &mut output, &mut properties)?;
                FlatFormat::Cuckoo
            }
        };
        let tail_start = properties.data_size;
        let handle = append_part(&mut output, &properties.encode())?;
        parts.insert(meta::PROPERTIES, handle);
        let metaindex = append_part(&mut output, &parts.encode())?;
        output.append(&FlatFooter::encode(format, metaindex))?;
        output.flush()?;
        Ok(TableStats {
            file_size: output.offset(),
            tail_size: output.offset() - tail_start,
            file_checksum: output.take_checksum(),
            properties,
        })
    }
}

/// Writes the buckets of a CuckooTable.
fn write_buckets(
    builder: &CuckooBuilder,
    output: &mut FileWriter,
    properties: &mut Properties,
) -> Result<()> {
    let placed = builder.place();
    let (layout, buckets) = placed.map_err(|error| unhashable(&error))?;
    let mut bytes = Vec::new();
    for entry in buckets {
        bytes.clear();
        builder.bucket(&layout, entry, &mut bytes);
        output.append(&bytes)?;
    }
    layout.describe(properties);
    properties.data_size = output.offset();
    properties.raw_key_size = layout.entries * layout.key_len as u64;
    properties.raw_value_size = layout.entries * layout.value_len as u64;
    // RocksDB has no such properties in a CuckooTable, which it does not ingest.
    properties.external_version = None;
    properties.global_seqno = None;
    Ok(())
}

/// Resets the properties that describe blocks.
fn plain_properties(properties: &mut Properties) {
    properties.format_version = 0;
    properties.merge_operator = "".into();
    properties.property_collectors = "".into();
    properties.filter_policy = "".into();
    properties.compression_options = "".into();
    properties.data_block_restart_interval = 0;
    properties.index_block_restart_interval = 0;
    properties.separate_key_value_in_data_block = 0;
    properties.whole_key_filtering = None;
    properties.prefix_filtering = None;
    properties.decoupled_partitioned_filters = None;
    properties.timestamps_stripped = false;
}
