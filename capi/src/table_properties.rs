//! Table properties, as listeners and job information expose them, and the table filter of read
//! options.
//!
//! A pointer to properties is valid as long as the object that it came from.

use std::ffi::{c_char, c_uchar, c_void};

use cairn_format::table::properties::Properties;
use cairn_options::TableFilter;

use crate::callbacks::{Destructor, State};
use crate::error::store;
use crate::handle::{misuse, of, of_mut};
use crate::options::rocksdb_readoptions_t;

/// The properties of a table.
pub struct rocksdb_table_properties_t(());

/// A C pointer to a part of a live object.
pub fn shown<T, V>(part: &T) -> *const V {
    std::ptr::from_ref(part).cast()
}

/// The target of a pointer from [`shown`].
///
/// # Safety
///
/// The pointer is null or came from [`shown`] of a `T` that is still live.
pub unsafe fn seen<'a, T, V>(part: *const V) -> &'a T {
    if part.is_null() {
        misuse("null was passed instead of a part of a job's information");
    }
    // SAFETY: guaranteed by the caller.
    unsafe { &*part.cast() }
}

/// The properties behind a pointer.
///
/// # Safety
///
/// That of [`seen`].
unsafe fn of_table<'a>(props: *const rocksdb_table_properties_t) -> &'a Properties {
    // SAFETY: guaranteed by the caller.
    unsafe { seen(props) }
}

/// Returns a pointer to bytes and stores their length. Never null.
///
/// # Safety
///
/// `size` is null or may be written to.
pub unsafe fn words(bytes: &[u8], size: *mut usize) -> *const c_char {
    // SAFETY: guaranteed by the caller.
    unsafe { store(size, bytes.len()) };
    bytes.as_ptr().cast()
}

/// [`words`] of a list element; null and 0 beyond the last.
///
/// # Safety
///
/// That of [`words`].
pub unsafe fn words_at(bytes: Option<&[u8]>, size: *mut usize) -> *const c_char {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match bytes {
            Some(bytes) => words(bytes, size),
            None => {
                store(size, 0);
                std::ptr::null()
            }
        }
    }
}

/// Defines getters of numeric properties: `name => field;`.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident => $field:ident;)+) => {
        c_functions! {$(
            $(#[$doc])*
            fn $name(props: *const rocksdb_table_properties_t) -> u64 {
                of_table(props).$field
            }
        )+}
    };
}

/// Defines getters of string properties: `name => field;`.
macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident => $field:ident;)+) => {
        c_functions! {$(
            $(#[$doc])*
            fn $name(props: *const rocksdb_table_properties_t, size: *mut usize) -> *const c_char {
                words(of_table(props).$field.as_bytes(), size)
            }
        )+}
    };
}

numbers! {
    /// The file number at creation.
    rocksdb_table_properties_orig_file_number => original_file_number;
    /// The compressed size of all data blocks.
    rocksdb_table_properties_data_size => data_size;
    /// The size of all data blocks before their compression; 0 if the table does not record it.
    rocksdb_table_properties_uncompressed_data_size => uncompressed_data_size;
    /// The size of the index.
    rocksdb_table_properties_index_size => index_size;
    /// The number of index partitions.
    rocksdb_table_properties_index_partitions => index_partitions;
    /// The size of the top-level index.
    rocksdb_table_properties_top_level_index_size => top_level_index_size;
    /// True if index keys are user keys.
    rocksdb_table_properties_index_key_is_user_key => index_key_is_user_key;
    /// True if block handles in the index are delta-encoded.
    rocksdb_table_properties_index_value_is_delta_encoded => index_value_is_delta_encoded;
    /// True if a user-defined index is the primary index.
    rocksdb_table_properties_udi_is_primary_index => udi_is_primary_index;
    /// The size of the filter.
    rocksdb_table_properties_filter_size => filter_size;
    /// The size of all internal keys, each of which has 8 bytes in addition to the user key.
    rocksdb_table_properties_raw_key_size => raw_key_size;
    /// The size of all values.
    rocksdb_table_properties_raw_value_size => raw_value_size;
    /// The number of data blocks.
    rocksdb_table_properties_num_data_blocks => num_data_blocks;
    /// The number of data blocks whose compression was rejected because of its ratio.
    rocksdb_table_properties_num_data_blocks_compression_rejected => num_compression_rejected;
    /// The number of data blocks whose compression was bypassed.
    rocksdb_table_properties_num_data_blocks_compression_bypassed => num_compression_bypassed;
    /// The number of index blocks with uniformly distributed keys.
    rocksdb_table_properties_num_uniform_blocks => num_uniform_blocks;
    /// The number of entries, including range tombstones.
    rocksdb_table_properties_num_entries => num_entries;
    /// The number of keys and prefixes in the filter.
    rocksdb_table_properties_num_filter_entries => num_filter_entries;
    /// The number of deletions of all kinds, including range tombstones.
    rocksdb_table_properties_num_deletions => num_deletions;
    /// The number of merge operands.
    rocksdb_table_properties_num_merge_operands => num_merge_operands;
    /// The number of range tombstones.
    rocksdb_table_properties_num_range_deletions => num_range_deletions;
    /// The format version, if the file records it.
    rocksdb_table_properties_format_version => format_version;
    /// The length of all keys, or 0 if they differ.
    rocksdb_table_properties_fixed_key_len => fixed_key_len;
    /// The family's id.
    rocksdb_table_properties_column_family_id => column_family_id;
    /// The time when the oldest data in the file was first written, in seconds since 1970.
    rocksdb_table_properties_creation_time => creation_time;
    /// The same, under its newer name.
    rocksdb_table_properties_oldest_ancestor_time => creation_time;
    /// The origin of the file: the level in bits 0 to 7 (255 if unknown); in bits 8 and 9, 1 for an
    /// LSM tree, 2 for its bottommost level, 3 for an external file.
    rocksdb_table_properties_lsm_info_at_creation => lsm_info_at_creation;
    /// The time when the oldest key was written, in seconds since 1970.
    rocksdb_table_properties_oldest_key_time => oldest_key_time;
    /// The time when the newest key was written, in seconds since 1970.
    rocksdb_table_properties_newest_key_time => newest_key_time;
    /// The time when the file was written, in seconds since 1970.
    rocksdb_table_properties_file_creation_time => file_creation_time;
    /// The size of the data with a slow codec, estimated from samples.
    rocksdb_table_properties_slow_compression_estimated_data_size => slow_compression_estimate;
    /// The size of the data with a fast codec, estimated from samples.
    rocksdb_table_properties_fast_compression_estimated_data_size => fast_compression_estimate;
    /// The offset of the first byte after the data blocks.
    rocksdb_table_properties_tail_start_offset => tail_start_offset;
    /// The restart interval of data blocks.
    rocksdb_table_properties_data_block_restart_interval => data_block_restart_interval;
    /// The restart interval of index blocks.
    rocksdb_table_properties_index_block_restart_interval => index_block_restart_interval;
    /// True if data blocks store keys and values separately.
    rocksdb_table_properties_separate_key_value_in_data_block => separate_key_value_in_data_block;
}

texts! {
    /// The id of the database that wrote the file.
    rocksdb_table_properties_db_id => db_id;
    /// The id of the session that wrote the file.
    rocksdb_table_properties_db_session_id => db_session_id;
    /// The host id of the writer.
    rocksdb_table_properties_db_host_id => db_host_id;
    /// The family's name.
    rocksdb_table_properties_column_family_name => column_family_name;
    /// The name of the filter policy.
    rocksdb_table_properties_filter_policy_name => filter_policy;
    /// The name of the comparator.
    rocksdb_table_properties_comparator_name => comparator;
    /// The name of the merge operator, or `nullptr`.
    rocksdb_table_properties_merge_operator_name => merge_operator;
    /// The name of the prefix extractor, or `nullptr`.
    rocksdb_table_properties_prefix_extractor_name => prefix_extractor;
    /// The names of the property collectors, as a list in brackets.
    rocksdb_table_properties_property_collectors_names => property_collectors;
    /// The name of the codec.
    rocksdb_table_properties_compression_name => compression;
    /// The parameters of the codec.
    rocksdb_table_properties_compression_options => compression_options;
}

/// A sequence number; the maximum if it is unknown.
fn of_keys(properties: &Properties, seqno: u64) -> u64 {
    match properties.num_entries {
        0 => u64::MAX,
        _ => seqno,
    }
}

/// Returns true if an iterator should read the table with these properties.
pub type rocksdb_readoptions_table_filter_cb =
    Option<unsafe extern "C" fn(*mut c_void, *const rocksdb_table_properties_t) -> c_uchar>;

c_functions! {
    /// Makes iterators read the entries of only those tables for which `table_filter` returns non-zero. Range tombstones of
    /// the others still apply. The function may be called from any thread. Null means all tables. `destructor` is called
    /// with `state` when the function is no longer used.
    fn rocksdb_readoptions_set_table_filter(
        opt: *mut rocksdb_readoptions_t,
        state: *mut c_void,
        destructor: Destructor,
        table_filter: rocksdb_readoptions_table_filter_cb,
    ) {
        let state = State::new(state, destructor);
        of_mut(opt).table_filter = match table_filter {
            None => TableFilter::default(),
            // SAFETY: the program's function only reads the properties, during the call.
            Some(chooses) => TableFilter::new(move |table| unsafe { chooses(state.pointer(), shown(table)) } != 0),
        };
    }
    /// Removes the table filter.
    fn rocksdb_readoptions_clear_table_filter(opt: *mut rocksdb_readoptions_t) {
        of_mut(opt).table_filter = TableFilter::default();
    }
    /// True if there is a table filter.
    fn rocksdb_readoptions_has_table_filter(opt: *const rocksdb_readoptions_t) -> c_uchar {
        of(opt).table_filter.is_some().into()
    }

    /// True if keys include their timestamps.
    fn rocksdb_table_properties_user_defined_timestamps_persisted(props: *const rocksdb_table_properties_t) -> u64 {
        u64::from(!of_table(props).timestamps_stripped)
    }
    /// Returns the largest sequence number in the file; the maximum of `uint64_t` if unknown.
    fn rocksdb_table_properties_key_largest_seqno(props: *const rocksdb_table_properties_t) -> u64 {
        of_keys(of_table(props), of_table(props).key_largest_seqno)
    }
    /// Returns the smallest sequence number in the file; the maximum of `uint64_t` if unknown.
    fn rocksdb_table_properties_key_smallest_seqno(props: *const rocksdb_table_properties_t) -> u64 {
        of_keys(of_table(props), of_table(props).key_smallest_seqno)
    }
    /// True if the largest sequence number is known.
    fn rocksdb_table_properties_has_key_largest_seqno(props: *const rocksdb_table_properties_t) -> c_uchar {
        (rocksdb_table_properties_key_largest_seqno(props) != u64::MAX).into()
    }
    /// True if the smallest sequence number is known.
    fn rocksdb_table_properties_has_key_smallest_seqno(props: *const rocksdb_table_properties_t) -> c_uchar {
        (rocksdb_table_properties_key_smallest_seqno(props) != u64::MAX).into()
    }
    /// The encoded mapping of sequence numbers to times.
    fn rocksdb_table_properties_seqno_to_time_mapping(props: *const rocksdb_table_properties_t, size: *mut usize) -> *const c_char {
        words(&of_table(props).seqno_time_map, size)
    }
    /// Returns the number of readable properties: 0, since no collector of the C interface has any.
    fn rocksdb_table_properties_readable_properties_count(props: *const rocksdb_table_properties_t) -> usize {
        let _ = of_table(props);
        0
    }
    /// Returns the name of a readable property: null, beyond the last.
    fn rocksdb_table_properties_readable_properties_key_at(
        props: *const rocksdb_table_properties_t,
        _pos: usize,
        key_len: *mut usize,
    ) -> *const c_char {
        let _ = of_table(props);
        words_at(None, key_len)
    }
    /// Returns the value of a readable property: null, beyond the last.
    fn rocksdb_table_properties_readable_properties_value_at(
        props: *const rocksdb_table_properties_t,
        _pos: usize,
        value_len: *mut usize,
    ) -> *const c_char {
        let _ = of_table(props);
        words_at(None, value_len)
    }
    /// Returns the number of user-collected properties.
    fn rocksdb_table_properties_user_collected_properties_count(props: *const rocksdb_table_properties_t) -> usize {
        of_table(props).others.len()
    }
    /// Returns the name of a user-collected property, in sorted order; null beyond the last.
    fn rocksdb_table_properties_user_collected_properties_key_at(
        props: *const rocksdb_table_properties_t,
        pos: usize,
        key_len: *mut usize,
    ) -> *const c_char {
        words_at(of_table(props).others.keys().nth(pos).map(Vec::as_slice), key_len)
    }
    /// Returns its value; null beyond the last.
    fn rocksdb_table_properties_user_collected_properties_value_at(
        props: *const rocksdb_table_properties_t,
        pos: usize,
        value_len: *mut usize,
    ) -> *const c_char {
        words_at(of_table(props).others.values().nth(pos).map(Vec::as_slice), value_len)
    }
}
