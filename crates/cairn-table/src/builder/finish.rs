//! Finishes a table: filter, index, dictionary, range tombstones, properties, metaindex, footer.

use cairn_compress::Compression;
use cairn_format::block::{BlockBuilder, BlockOptions, IndexBlockBuilder, IndexForm};
use cairn_format::key;
use cairn_format::table::footer::MAX_METAINDEX_V8;
use cairn_format::table::properties::IndexKind;
use cairn_format::table::{Footer, Handle, MetaIndex, meta};
use cairn_memory::CacheRole;
use cairn_types::{Error, Result};

use super::packer::Packer;
use super::{BlockBasedBuilder, TableStats};
use crate::metadata::Tier;

/// The first format version with escaped handles in an index.
const ESCAPES_SINCE: u32 = 8;

/// Encoding of the index blocks, including that of a partitioned filter.
#[derive(Clone, Copy)]
struct IndexCoding {
    user_keys: bool,
    delta_values: bool,
    escaped: bool,
    common_prefix: bool,
    restart_interval: usize,
}

impl IndexCoding {
    fn form(&self, first_keys: bool) -> IndexForm {
        IndexForm {
            user_keys: self.user_keys,
            delta_values: self.delta_values,
            first_keys,
            escaped: self.escaped,
        }
    }

    fn block(&self, first_keys: bool) -> IndexBlockBuilder {
        let builder = IndexBlockBuilder::new(self.form(first_keys), self.restart_interval);
        match self.common_prefix {
            true => builder.with_common_prefix(),
            false => builder,
        }
    }
}

/// A range of data blocks covered by one partition, end exclusive.
type Run = (usize, usize);

impl BlockBasedBuilder {
    /// Writes everything after the data blocks and flushes the buffer. The caller syncs and closes the
    /// file.
    pub(crate) fn finish(mut self) -> Result<TableStats> {
        self.end_block(None)?;
        let (data, mut place) = self.data_and_place();
        data.end_all(&mut place)?;
        let tail_start = self.output.offset();
        self.properties.data_size = tail_start;
        self.properties.tail_start_offset = tail_start;
        self.properties.num_data_blocks = self.data.count;
        self.properties.uncompressed_data_size = self.data.raw_bytes;

        let coding = IndexCoding {
            user_keys: self.params.options.format_version >= 3 && !self.index.needs_internal_keys(),
            delta_values: self.params.options.format_version >= 4
                && !self.params.options.block_align,
            escaped: self.params.options.format_version >= ESCAPES_SINCE,
            common_prefix: self.params.common_prefix_in_index(),
            restart_interval: match self.index_kind {
                // The metadata of a hash index assumes one restart point per block.
                IndexKind::Hash => 1,
                _ => self
                    .params
                    .options
                    .index_block_restart_interval
                    .unsigned_abs()
                    .max(1) as usize,
            },
        };
        let mut parts = MetaIndex::default();
        let runs = self.index_runs();
        self.write_filter(coding, &runs, &mut parts)?;
        let index = self.write_index(coding, &runs, &mut parts)?;
        if let Some(dictionary) = self.data.packer().dictionary() {
            let handle = self
                .output
                .append_block(dictionary.raw(), Compression::None)?;
            parts.insert(meta::COMPRESSION_DICT, handle);
        }
        self.write_tombstones(&mut parts)?;
        self.complete_properties(coding);
        let handle = self
            .output
            .append_block(&self.properties.encode(), Compression::None)?;
        parts.insert(meta::PROPERTIES, handle);
        self.write_footer(parts, index)?;
        self.output.flush()?;
        Ok(TableStats {
            file_size: self.output.offset(),
            tail_size: self.output.offset() - tail_start,
            file_checksum: self.output.take_checksum(),
            properties: self.properties,
        })
    }

    /// Returns the ranges of data blocks of the index partitions; one range without partitions.
    fn index_runs(&self) -> Vec<Run> {
        let blocks = self.index.len();
        if self.index_kind != IndexKind::TwoLevel {
            return vec![(0, blocks)];
        }
        let target = self.params.options.metadata_block_size as usize;
        let (mut runs, mut first, mut size) = (Vec::new(), 0, 0);
        for block in 0..blocks {
            // Size of an entry: a separator with its lengths, a handle, and a restart.
            size += self.index.separator(block, false).len() + 12;
            if size >= target {
                runs.push((first, block + 1));
                (first, size) = (block + 1, 0);
            }
        }
        if first < blocks || runs.is_empty() {
            runs.push((first, blocks));
        }
        runs
    }

    fn write_index(
        &mut self,
        coding: IndexCoding,
        runs: &[Run],
        parts: &mut MetaIndex,
    ) -> Result<Handle> {
        let start = self.output.offset();
        let compression = self.params.options.enable_index_compression;
        let mut params = self.params.clone();
        if !compression {
            params.compression = Compression::None;
        }
        params.compression_options.auto_skip = false;
        let mut packer = Packer::new(&params, None)?;
        if let Some((prefixes, metadata)) = self.prefixes.take().and_then(|rows| rows.finish()) {
            let (stored, kind) = packer.pack(&prefixes)?;
            parts.insert(
                meta::HASH_INDEX_PREFIXES,
                self.output.append_block(stored, kind)?,
            );
            let (stored, kind) = packer.pack(&metadata)?;
            parts.insert(
                meta::HASH_INDEX_METADATA,
                self.output.append_block(stored, kind)?,
            );
        } else if self.index_kind == IndexKind::Hash {
            self.index_kind = IndexKind::Binary;
        }
        let first_keys = self.index_kind == IndexKind::FirstKey;
        let tier = match self.index_kind {
            IndexKind::TwoLevel => Tier::Partition,
            _ => Tier::Whole,
        };
        let mut handles = Vec::with_capacity(runs.len());
        for &(first, end) in runs {
            let mut block = coding.block(first_keys);
            for row in first..end {
                let separator = self.index.separator(row, coding.user_keys);
                block.add(separator, self.index.handle(row), self.index.first_key(row));
            }
            let raw = block.finish();
            let (stored, kind) = packer.pack(raw)?;
            let handle = self.output.append_block(stored, kind)?;
            let form = Some(coding.form(first_keys));
            self.warm((CacheRole::Index, tier), handle, raw, form)?;
            handles.push(handle);
        }
        let mut root = handles[0];
        if self.index_kind == IndexKind::TwoLevel {
            self.properties.index_partitions = runs.len() as u64;
            let raw = self.top_level(coding, runs, &handles);
            let (stored, kind) = packer.pack(&raw)?;
            root = self.output.append_block(stored, kind)?;
            let form = Some(coding.form(false));
            self.warm((CacheRole::Index, Tier::TopLevel), root, &raw, form)?;
            self.properties.top_level_index_size = root.size + 5;
        }
        self.index_is_packed = packer.used;
        self.properties.index_size = self.output.offset() - start;
        if self.params.options.format_version >= 6 {
            parts.insert(meta::INDEX, root);
        }
        Ok(root)
    }

    /// Returns the top-level index, which lists each partition under the separator of its last data
    /// block.
    fn top_level(&self, coding: IndexCoding, runs: &[Run], handles: &[Handle]) -> Vec<u8> {
        let mut block = coding.block(false);
        for (&(_, end), &handle) in runs.iter().zip(handles) {
            if let Some(last) = end.checked_sub(1) {
                block.add(self.index.separator(last, coding.user_keys), handle, None);
            }
        }
        block.finish().to_vec()
    }

    fn write_filter(
        &mut self,
        coding: IndexCoding,
        index_runs: &[Run],
        parts: &mut MetaIndex,
    ) -> Result<()> {
        let Some(filter) = self.filter.take() else {
            return Ok(());
        };
        self.properties.num_filter_entries = filter.len() as u64;
        if filter.is_empty() {
            return Ok(());
        }
        let options = self.params.options.clone();
        let Some(builder) = self.params.filter_builder() else {
            return Ok(());
        };
        let start = self.output.offset();
        if let Some(charge) = &mut self.charges.filter {
            // The largest partition is not larger than a filter of all keys.
            let fits = builder.keys_that_fit(options.metadata_block_size as usize);
            let keys = match options.partition_filters {
                true => filter.len().min(fits),
                false => filter.len(),
            };
            charge.set(filter.memory_usage() + builder.memory_to_build(keys));
        }
        if !options.partition_filters {
            let bits = builder.build(filter.all());
            filter.verify_filter(&bits, filter.all())?;
            filter.verify_hashes()?;
            let handle = self.output.append_block(&bits, Compression::None)?;
            self.warm((CacheRole::Filter, Tier::Whole), handle, &bits, None)?;
            parts.insert(&[meta::FULL_FILTER, meta::BUILTIN_FILTER].concat(), handle);
            self.properties.filter_size = self.output.offset() - start;
            return Ok(());
        }
        let runs = if options.decouple_partitioned_filters {
            let wanted = builder.keys_that_fit(options.metadata_block_size as usize);
            let (mut runs, mut first, mut keys) = (Vec::new(), 0, 0);
            for block in 0..self.index.len() {
                keys += filter.len_of(block);
                if keys >= wanted || block + 1 == self.index.len() {
                    runs.push((first, block + 1));
                    (first, keys) = (block + 1, 0);
                }
            }
            runs
        } else {
            index_runs.to_vec()
        };
        let mut handles = Vec::with_capacity(runs.len());
        for &(first, end) in &runs {
            let bits = builder.build(filter.run(first, end));
            filter.verify_filter(&bits, filter.run(first, end))?;
            let handle = self.output.append_block(&bits, Compression::None)?;
            self.warm((CacheRole::Filter, Tier::Partition), handle, &bits, None)?;
            handles.push(handle);
        }
        // After the last use of the hashes.
        filter.verify_hashes()?;
        let raw = self.top_level(coding, &runs, &handles);
        let handle = self.output.append_block(&raw, Compression::None)?;
        let form = Some(coding.form(false));
        self.warm((CacheRole::FilterMeta, Tier::TopLevel), handle, &raw, form)?;
        parts.insert(
            &[meta::PARTITIONED_FILTER, meta::BUILTIN_FILTER].concat(),
            handle,
        );
        self.properties.filter_size = self.output.offset() - start;
        Ok(())
    }

    /// Inserts a metadata block into the block cache if the table is to be warm.
    fn warm(
        &self,
        kind: (CacheRole, Tier),
        handle: Handle,
        raw: &[u8],
        form: Option<IndexForm>,
    ) -> Result<()> {
        match &self.warmer {
            Some(warmer) => warmer.metadata(kind, handle, raw, form),
            None => Ok(()),
        }
    }

    fn write_tombstones(&mut self, parts: &mut MetaIndex) -> Result<()> {
        if self.tombstones.is_empty() {
            return Ok(());
        }
        let order = self.order.clone();
        self.tombstones
            .sort_by(|a, b| key::compare(&order, &a.0, &b.0).then_with(|| a.1.cmp(&b.1)));
        let mut block = BlockBuilder::new(BlockOptions::whole_keys());
        for (start, end) in &self.tombstones {
            block.add(start, end);
        }
        let handle = self
            .output
            .append_block(block.finish(), Compression::None)?;
        parts.insert(meta::RANGE_DEL, handle);
        Ok(())
    }

    fn complete_properties(&mut self, coding: IndexCoding) {
        let packer = self.data.packer();
        let (used, rejected, bypassed) = (packer.used, packer.rejected, packer.bypassed());
        let compression = self.params.compression;
        let properties = &mut self.properties;
        properties.index_kind = Some(self.index_kind);
        properties.index_key_is_user_key = coding.user_keys.into();
        properties.index_value_is_delta_encoded = coding.delta_values.into();
        properties.num_compression_rejected = rejected;
        properties.num_compression_bypassed = bypassed;
        (properties.key_smallest_seqno, properties.key_largest_seqno) =
            self.counts.seqs.unwrap_or_default();
        properties.compression = if self.params.options.format_version < 7 {
            compression.property_name().into()
        } else if compression == Compression::None {
            ";;".into()
        } else if used || self.index_is_packed {
            format!("BuiltinV2;{:02X};", compression as u8).into()
        } else {
            "BuiltinV2;;".into()
        };
    }

    fn write_footer(&mut self, parts: MetaIndex, index: Handle) -> Result<()> {
        let metaindex = self
            .output
            .append_block(&parts.encode(), Compression::None)?;
        let version = self.params.options.format_version;
        if version >= ESCAPES_SINCE && metaindex.size > MAX_METAINDEX_V8 {
            return Err(Error::not_supported(format!(
                "a metaindex of {} bytes in format_version {version}: expected at most {MAX_METAINDEX_V8}",
                metaindex.size
            )));
        }
        let footer = Footer {
            version,
            checksum: self.output.checksum_kind(),
            metaindex,
            index: (version < 6).then_some(index),
            base_context: self.base_context,
        };
        let mut bytes = Vec::new();
        footer.encode(self.output.offset(), &mut bytes);
        self.output.append(&bytes)
    }
}
