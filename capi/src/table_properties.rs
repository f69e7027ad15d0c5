//! Properties of tables, as listeners and reports of jobs show them.
//!
//! A pointer to properties belongs to what it was asked of, and is good as long as that. The filter of read
//! options, which is asked about properties, stands here too.

use std::ffi::{c_char, c_uchar, c_void};

use cairn_format::table::properties::Properties;
use cairn_options::TableFilter;

use crate::callbacks::{Destructor, State};
use crate::error::store;
use crate::handle::{misuse, of, of_mut};
use crate::options::rocksdb_readoptions_t;

/// The properties of a table.
pub struct rocksdb_table_properties_t(());

/// A pointer for C to something that lives in what it is asked of.
pub fn shown<T, V>(part: &T) -> *const V {
    std::ptr::from_ref(part).cast()
}

/// What a pointer from [`shown`] points to.
///
/// # Safety
///
/// The pointer is null or came from [`shown`] of a `T` that still lives.
pub unsafe fn seen<'a, T, V>(part: *const V) -> &'a T {
    if part.is_null() {
        misuse("a null pointer was passed where a part of a report is needed");
    }
    // SAFETY: the caller's promise.
    unsafe { &*part.cast() }
}

/// The properties behind a pointer.
///
/// # Safety
///
/// That of [`seen`].
unsafe fn of_table<'a>(props: *const rocksdb_table_properties_t) -> &'a Properties {
    // SAFETY: the caller's promise.
    unsafe { seen(props) }
}

/// Bytes for C: where they lie, and their number at `size`. None are not null.
///
/// # Safety
///
/// `size` is null or may be written to.
pub unsafe fn words(bytes: &[u8], size: *mut usize) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { store(size, bytes.len()) };
    bytes.as_ptr().cast()
}

/// [`words`] of a place in a list; null and 0 behind its end.
///
/// # Safety
///
/// That of [`words`].
pub unsafe fn words_at(bytes: Option<&[u8]>, size: *mut usize) -> *const c_char {
    // SAFETY: the caller's promise.
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

/// Defines getters of properties that are one number: `name => field;`.
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

/// Defines getters of properties that are one text: `name => field;`.
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
    /// The number under which the file was created.
    rocksdb_table_properties_orig_file_number => original_file_number;
    /// Bytes of all data blocks, as they are stored.
    rocksdb_table_properties_data_size => data_size;
    /// Bytes of the index.
    rocksdb_table_properties_index_size => index_size;
    /// Index partitions.
    rocksdb_table_properties_index_partitions => index_partitions;
    /// Bytes of the top-level index.
    rocksdb_table_properties_top_level_index_size => top_level_index_size;
    /// True if index keys are user keys.
    rocksdb_table_properties_index_key_is_user_key => index_key_is_user_key;
    /// True if handles in the index are coded as differences.
    rocksdb_table_properties_index_value_is_delta_encoded => index_value_is_delta_encoded;
    /// True if a user's index is to be read first.
    rocksdb_table_properties_udi_is_primary_index => udi_is_primary_index;
    /// Bytes of the filter.
    rocksdb_table_properties_filter_size => filter_size;
    /// Bytes of all keys, with the 8 bytes that the engine adds to each.
    rocksdb_table_properties_raw_key_size => raw_key_size;
    /// Bytes of all values.
    rocksdb_table_properties_raw_value_size => raw_value_size;
    /// Data blocks.
    rocksdb_table_properties_num_data_blocks => num_data_blocks;
    /// Data blocks that did not shrink enough.
    rocksdb_table_properties_num_data_blocks_compression_rejected => num_compression_rejected;
    /// Data blocks that compression was not tried on.
    rocksdb_table_properties_num_data_blocks_compression_bypassed => num_compression_bypassed;
    /// Index blocks whose keys are spread evenly.
    rocksdb_table_properties_num_uniform_blocks => num_uniform_blocks;
    /// Entries, range tombstones included.
    rocksdb_table_properties_num_entries => num_entries;
    /// Keys and prefixes in the filter.
    rocksdb_table_properties_num_filter_entries => num_filter_entries;
    /// Deletions of every kind, range tombstones included.
    rocksdb_table_properties_num_deletions => num_deletions;
    /// Merge operands.
    rocksdb_table_properties_num_merge_operands => num_merge_operands;
    /// Range tombstones.
    rocksdb_table_properties_num_range_deletions => num_range_deletions;
    /// The format version, in files that say it.
    rocksdb_table_properties_format_version => format_version;
    /// Length of all keys, or 0 if they differ.
    rocksdb_table_properties_fixed_key_len => fixed_key_len;
    /// The family's id.
    rocksdb_table_properties_column_family_id => column_family_id;
    /// When the oldest data in the file was written first, in seconds since 1970.
    rocksdb_table_properties_creation_time => creation_time;
    /// The same, by its newer name.
    rocksdb_table_properties_oldest_ancestor_time => creation_time;
    /// Where the file was made: the level in bits 0 to 7 (255: unknown); in bits 8 and 9 1 for a tree, 2 for
    /// the bottom of one, 3 for an external file.
    rocksdb_table_properties_lsm_info_at_creation => lsm_info_at_creation;
    /// When the oldest key was written, in seconds since 1970.
    rocksdb_table_properties_oldest_key_time => oldest_key_time;
    /// When the newest key was written, in seconds since 1970.
    rocksdb_table_properties_newest_key_time => newest_key_time;
    /// When the file was written, in seconds since 1970.
    rocksdb_table_properties_file_creation_time => file_creation_time;
    /// The size of the data by a slow codec, estimated from samples.
    rocksdb_table_properties_slow_compression_estimated_data_size => slow_compression_estimate;
    /// The size of the data by a fast codec, estimated from samples.
    rocksdb_table_properties_fast_compression_estimated_data_size => fast_compression_estimate;
    /// Offset of the first byte behind the data blocks.
    rocksdb_table_properties_tail_start_offset => tail_start_offset;
    /// Restart interval of data blocks.
    rocksdb_table_properties_data_block_restart_interval => data_block_restart_interval;
    /// Restart interval of index blocks.
    rocksdb_table_properties_index_block_restart_interval => index_block_restart_interval;
    /// True if keys and values of data blocks lie apart.
    rocksdb_table_properties_separate_key_value_in_data_block => separate_key_value_in_data_block;
}

texts! {
    /// Id of the database that wrote the file.
    rocksdb_table_properties_db_id => db_id;
    /// Id of the session that wrote the file.
    rocksdb_table_properties_db_session_id => db_session_id;
    /// Name of the host that wrote the file.
    rocksdb_table_properties_db_host_id => db_host_id;
    /// The family's name.
    rocksdb_table_properties_column_family_name => column_family_name;
    /// Name of the filter policy.
    rocksdb_table_properties_filter_policy_name => filter_policy;
    /// Name of the key order.
    rocksdb_table_properties_comparator_name => comparator;
    /// Name of the merge operator, or `nullptr`.
    rocksdb_table_properties_merge_operator_name => merge_operator;
    /// Name of the prefix extractor, or `nullptr`.
    rocksdb_table_properties_prefix_extractor_name => prefix_extractor;
    /// Names of the property collectors, as a list in brackets.
    rocksdb_table_properties_property_collectors_names => property_collectors;
    /// Name of the codec.
    rocksdb_table_properties_compression_name => compression;
    /// The parameters of the codec.
    rocksdb_table_properties_compression_options => compression_options;
}

/// A sequence number of the keys; without keys there is none.
fn of_keys(properties: &Properties, seqno: u64) -> u64 {
    match properties.num_entries {
        0 => u64::MAX,
        _ => seqno,
    }
}

/// True if an iterator looks into the table with these properties.
pub type rocksdb_readoptions_table_filter_cb =
    Option<unsafe extern "C" fn(*mut c_void, *const rocksdb_table_properties_t) -> c_uchar>;

c_functions! {
    /// Has iterators look only into the tables for which `table_filter` returns a number that is not 0; it
    /// is called from any thread. Without a function they look into all. `destructor` is called with
    /// `state` when the function is not used any more.
    fn rocksdb_readoptions_set_table_filter(
        opt: *mut rocksdb_readoptions_t,
        state: *mut c_void,
        destructor: Destructor,
        table_filter: rocksdb_readoptions_table_filter_cb,
    ) {
        let state = State::new(state, destructor);
        of_mut(opt).table_filter = match table_filter {
            None => TableFilter::default(),
            // SAFETY: the program's function reads what it is shown, during the call.
            Some(chooses) => TableFilter::new(move |table| unsafe { chooses(state.pointer(), shown(table)) } != 0),
        };
    }
    /// Has iterators look into all tables.
    fn rocksdb_readoptions_clear_table_filter(opt: *mut rocksdb_readoptions_t) {
        of_mut(opt).table_filter = TableFilter::default();
    }
    /// True if there is a function that chooses tables.
    fn rocksdb_readoptions_has_table_filter(opt: *const rocksdb_readoptions_t) -> c_uchar {
        of(opt).table_filter.is_some().into()
    }

    /// True if keys have their timestamps.
    fn rocksdb_table_properties_user_defined_timestamps_persisted(props: *const rocksdb_table_properties_t) -> u64 {
        u64::from(!of_table(props).timestamps_stripped)
    }
    /// The largest sequence number in the file; the largest `uint64_t` without any.
    fn rocksdb_table_properties_key_largest_seqno(props: *const rocksdb_table_properties_t) -> u64 {
        of_keys(of_table(props), of_table(props).key_largest_seqno)
    }
    /// The smallest sequence number in the file; the largest `uint64_t` without any.
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
    /// When which sequence numbers were given out, encoded.
    fn rocksdb_table_properties_seqno_to_time_mapping(props: *const rocksdb_table_properties_t, size: *mut usize) -> *const c_char {
        words(&of_table(props).seqno_time_map, size)
    }
    /// How many properties there are that the engine does not know by name: those of collectors.
    fn rocksdb_table_properties_user_collected_properties_count(props: *const rocksdb_table_properties_t) -> usize {
        of_table(props).others.len()
    }
    /// The name of such a property, in the order of names; null behind the last.
    fn rocksdb_table_properties_user_collected_properties_key_at(
        props: *const rocksdb_table_properties_t,
        pos: usize,
        key_len: *mut usize,
    ) -> *const c_char {
        words_at(of_table(props).others.keys().nth(pos).map(Vec::as_slice), key_len)
    }
    /// Its value; null behind the last.
    fn rocksdb_table_properties_user_collected_properties_value_at(
        props: *const rocksdb_table_properties_t,
        pos: usize,
        value_len: *mut usize,
    ) -> *const c_char {
        words_at(of_table(props).others.values().nth(pos).map(Vec::as_slice), value_len)
    }
}
