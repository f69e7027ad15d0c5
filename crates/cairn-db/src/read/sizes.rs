//! Approximate sizes of key ranges, and checks whether a key may exist, without reading data.

use cairn_format::key::LookupKey;
use cairn_options::{ReadOptions, ReadTier};
use cairn_read::{Value, View};
use cairn_types::{Error, Result, SequenceNumber};
use cairn_version::FileMeta;

use crate::catalog::release::check_held;
use crate::db::handle::Family;
use crate::read::bounds::{Range, compare};

/// Options of `Family::approximate_sizes`.
#[derive(Clone, Copy, Debug)]
pub struct SizeApproximationOptions {
    /// True to include memtables.
    pub include_memtables: bool,
    /// True to include tables.
    pub include_files: bool,
    /// True to include blob files, in proportion to the tables: blobs may be distributed differently.
    pub include_blob_files: bool,
    /// The permitted relative error of the result for files: files at the ends of a range are not opened if
    /// they contribute less than this share. 0 or less gives the most precise result.
    pub files_size_error_margin: f64,
}

impl Default for SizeApproximationOptions {
    fn default() -> SizeApproximationOptions {
        SizeApproximationOptions {
            include_memtables: false,
            include_files: true,
            include_blob_files: false,
            files_size_error_margin: -1.0,
        }
    }
}

/// The existence of a key, as far as it is known without reading a file.
#[derive(Clone, Debug)]
pub enum MayExist {
    /// The key does not exist.
    No,
    /// A file would have to be read.
    Perhaps,
    /// The key exists and has this value.
    Yes(Value),
}

impl Family {
    /// Returns the approximate bytes of tables (and, if included, of memtables and blob files) with the keys of each
    /// of `ranges`, whose ends are exclusive.
    ///
    /// Reads the indexes of up to two files per level and range, and iterates over memtables.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if nothing is included; errors of reading indexes.
    pub fn approximate_sizes(
        &self,
        ranges: &[Range<'_>],
        options: &SizeApproximationOptions,
    ) -> Result<Vec<u64>> {
        if !options.include_memtables && !options.include_files && !options.include_blob_files {
            return Err(Error::invalid_argument(
                "approximate sizes of neither memtables nor files",
            ));
        }
        let view = self.state.view_full();
        check_held(&view)?;
        let blobs_per_byte = match options.include_blob_files {
            true => blobs_per_byte_of_tables(&view),
            false => 0.0,
        };
        let size = |range: &Range<'_>| {
            let mut total = 0;
            if options.include_files || options.include_blob_files {
                let tables = size_in_files(&view, range, options.files_size_error_margin)?;
                total += u64::from(options.include_files) * tables;
                total += (tables as f64 * blobs_per_byte) as u64;
            }
            if options.include_memtables {
                total += stats_in_memtables(&view, range).1;
            }
            Ok(total)
        };
        ranges.iter().map(size).collect()
    }

    /// Returns the approximate number of memtable entries in `range`, and their bytes, by iterating over
    /// them.
    #[must_use]
    pub fn approximate_memtable_stats(&self, range: &Range<'_>) -> (u64, u64) {
        stats_in_memtables(&self.state.view_full(), range)
    }

    /// Returns the existence of `key`, as far as it is known without reading a file: from filters, memtables
    /// and cached blocks. `No` is certain; `Perhaps` is possible for any key.
    #[must_use]
    pub fn key_may_exist(&self, key: &[u8], options: &ReadOptions) -> MayExist {
        let options = ReadOptions {
            read_tier: ReadTier::BlockCache,
            ..options.clone()
        };
        match self.get_with(key, &options) {
            Ok(Some(value)) => MayExist::Yes(value),
            Ok(None) => MayExist::No,
            Err(_) => MayExist::Perhaps,
        }
    }

    /// Like [`Family::get_with`], into the caller's `buffer`, which receives as much of the value as fits.
    /// Returns the length of the value.
    ///
    /// # Errors
    ///
    /// Those of [`Family::get_with`].
    pub fn get_into(
        &self,
        key: &[u8],
        buffer: &mut [u8],
        options: &ReadOptions,
    ) -> Result<Option<usize>> {
        let value = self.get_with(key, options)?;
        Ok(value.map(|value| {
            let fits = value.len().min(buffer.len());
            buffer[..fits].copy_from_slice(&value[..fits]);
            value.len()
        }))
    }
}

/// The bytes of blob files for each byte of tables.
fn blobs_per_byte_of_tables(view: &View) -> f64 {
    let tables = view.version.files().map(|(_, file)| file.size);
    let tables = tables.fold(0, u64::saturating_add);
    let blobs = view.version.blob_files().values();
    let blobs = blobs.map(|file| file.file_size());
    let blobs = blobs.fold(0, u64::saturating_add);
    blobs as f64 / tables.max(1) as f64
}

/// Returns the internal key that sorts before all versions of `user`.
fn before(view: &View, user: &[u8]) -> LookupKey {
    let size = view.family.order.timestamp_size();
    LookupKey::new(&[user, &vec![0xff; size]].concat(), SequenceNumber::MAX)
}

fn size_in_files(view: &View, range: &Range<'_>, margin: f64) -> Result<u64> {
    let order = &view.family.order;
    if compare(order, range.begin, range.end).is_ge() {
        return Ok(0);
    }
    let (mut whole, mut partial) = (0_u64, Vec::new());
    for (level, file) in view.version.files() {
        let starts_within =
            compare(order, plain(view, file.smallest.user_key()), range.begin).is_ge();
        let ends_within = compare(order, plain(view, file.largest.user_key()), range.end).is_lt();
        let apart = compare(order, plain(view, file.smallest.user_key()), range.end).is_ge()
            || compare(order, plain(view, file.largest.user_key()), range.begin).is_lt();
        match (apart, starts_within && ends_within) {
            (true, _) => {}
            (false, true) => whole = whole.saturating_add(file.size),
            (false, false) => partial.push((level, file)),
        }
    }
    // Half the size of small files at the ends of the range is counted.
    let at_ends = partial.iter().map(|(_, file)| file.size);
    let at_ends = at_ends.fold(0, u64::saturating_add);
    if margin > 0.0 && (at_ends as f64) < margin * whole.saturating_add(at_ends) as f64 {
        return Ok(whole.saturating_add(at_ends / 2));
    }
    for (level, file) in partial {
        whole = whole.saturating_add(size_in_file(view, level, file, range)?);
    }
    Ok(whole)
}

fn size_in_file(
    view: &View,
    level: usize,
    file: &std::sync::Arc<FileMeta>,
    range: &Range<'_>,
) -> Result<u64> {
    let reading = &view.family;
    let table = reading.tables.open(file, level, &reading.io)?;
    let offset = |user| table.approximate_offset_of(before(view, user).internal(), &reading.io);
    let data = offset(range.end)?.saturating_sub(offset(range.begin)?);
    // Index and filter are attributed in proportion to the data.
    let all = table.data_size().max(1);
    let share = u128::from(data) * u128::from(file.size) / u128::from(all);
    Ok(u64::try_from(share).unwrap_or(file.size).min(file.size))
}

/// Returns the entries and bytes of memtables between the ends of `range`.
fn stats_in_memtables(view: &View, range: &Range<'_>) -> (u64, u64) {
    let order = &view.family.order;
    let (mut entries, mut bytes) = (0, 0);
    for memtable in view.memtables() {
        let mut iter = memtable.iter();
        iter.seek(before(view, range.begin).internal());
        while iter.valid() {
            let key = iter.key();
            let user = cairn_format::key::user_key(key);
            if compare(order, plain(view, user), range.end).is_ge() {
                break;
            }
            entries += 1;
            bytes += (key.len() + iter.value().len()) as u64;
            iter.next();
        }
    }
    (entries, bytes)
}

fn plain<'k>(view: &View, user: &'k [u8]) -> &'k [u8] {
    cairn_format::key::strip_timestamp(user, view.family.order.timestamp_size())
}
