//! Options of RocksDB that have no effect in Cairn: a setter keeps the value, and the getter returns it.
//!
//! They inform RocksDB's file systems (activities, request ids, lifetimes, checksums), tune files that a program opens
//! through RocksDB's own environment, or set priorities of threads that Cairn does not have. Their values are stored
//! beside the options that Cairn knows.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_uchar};

use cairn_options::enums::Temperature;

use super::{rocksdb_options_t, rocksdb_readoptions_t, rocksdb_writeoptions_t};
use crate::backup::{rocksdb_backup_engine_options_t, rocksdb_create_backup_options_t};
use crate::compact_files::rocksdb_compaction_options_t;
use crate::env::rocksdb_envoptions_t;
use crate::error::{maybe_bytes, store};
use crate::handle::{of, of_mut};

/// Values without effect.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    numbers: BTreeMap<&'static str, i64>,
    request_id: Option<Vec<u8>>,
}

impl Kept {
    fn set(&mut self, option: &'static str, value: i64) {
        self.numbers.insert(option, value);
    }

    fn get(&self, option: &str, default: i64) -> i64 {
        self.numbers.get(option).copied().unwrap_or(default)
    }
}

/// Defines a setter and a getter of a value without effect: `setter, getter(C type) = default => option;`.
macro_rules! c_kept {
    ($handle:ty: $($set:ident, $get:ident($type:ty) = $default:literal => $option:literal;)+) => {
        c_functions! {$(
            #[doc = concat!(" Keeps `", $option, "`, which has no effect.")]
            fn $set(opt: *mut $handle, v: $type) {
                of_mut(opt).kept_mut().set($option, v as i64);
            }
            #[doc = concat!(" The value of `", $option, "`, which has no effect.")]
            fn $get(opt: *mut $handle) -> $type {
                of(opt.cast_const()).kept().get($option, $default) as $type
            }
        )+}
    };
}

c_kept! { rocksdb_readoptions_t:
    rocksdb_readoptions_set_io_activity, rocksdb_readoptions_get_io_activity(c_int) = 0x7f => "io_activity";
}

c_kept! { rocksdb_writeoptions_t:
    rocksdb_writeoptions_set_io_activity, rocksdb_writeoptions_get_io_activity(c_int) = 0x7f => "io_activity";
}

c_kept! { rocksdb_backup_engine_options_t:
    rocksdb_backup_engine_options_set_current_temperatures_override_manifest, rocksdb_backup_engine_options_get_current_temperatures_override_manifest(c_uchar) = 0 => "current_temperatures_override_manifest";
}

c_kept! { rocksdb_create_backup_options_t:
    rocksdb_create_backup_options_set_background_thread_cpu_priority, rocksdb_create_backup_options_get_background_thread_cpu_priority(c_int) = 2 => "background_thread_cpu_priority";
    rocksdb_create_backup_options_set_decrease_background_thread_cpu_priority, rocksdb_create_backup_options_get_decrease_background_thread_cpu_priority(c_uchar) = 0 => "decrease_background_thread_cpu_priority";
}

c_kept! { rocksdb_envoptions_t:
    rocksdb_envoptions_set_allow_fallocate, rocksdb_envoptions_get_allow_fallocate(c_uchar) = 1 => "allow_fallocate";
    rocksdb_envoptions_set_compaction_readahead_size, rocksdb_envoptions_get_compaction_readahead_size(usize) = 0x20_0000 => "compaction_readahead_size";
    rocksdb_envoptions_set_fallocate_with_keep_size, rocksdb_envoptions_get_fallocate_with_keep_size(c_uchar) = 1 => "fallocate_with_keep_size";
    rocksdb_envoptions_set_strict_bytes_per_sync, rocksdb_envoptions_get_strict_bytes_per_sync(c_uchar) = 0 => "strict_bytes_per_sync";
    rocksdb_envoptions_set_use_direct_reads, rocksdb_envoptions_get_use_direct_reads(c_uchar) = 0 => "use_direct_reads";
    rocksdb_envoptions_set_use_direct_writes, rocksdb_envoptions_get_use_direct_writes(c_uchar) = 0 => "use_direct_writes";
    rocksdb_envoptions_set_use_mmap_reads, rocksdb_envoptions_get_use_mmap_reads(c_uchar) = 0 => "use_mmap_reads";
    rocksdb_envoptions_set_use_mmap_writes, rocksdb_envoptions_get_use_mmap_writes(c_uchar) = 0 => "use_mmap_writes";
    rocksdb_envoptions_set_writable_file_max_buffer_size, rocksdb_envoptions_get_writable_file_max_buffer_size(usize) = 0x10_0000 => "writable_file_max_buffer_size";
}

/// Defines the setter and the getter of a temperature: `setter, getter => path.to.field;`. A number that is no temperature
/// is kept for the getter, and counts as unknown.
macro_rules! c_temperatures {
    ($handle:ty: $($set:ident, $get:ident => $($field:ident).+;)+) => {
        c_functions! {$(
            #[doc = concat!(" Sets `", stringify!($($field).+), "`. A number that is no temperature counts as unknown.")]
            fn $set(opt: *mut $handle, v: c_int) {
                let options = of_mut(opt);
                options.kept_mut().set(stringify!($($field).+), v.into());
                options.$($field).+ = temperature(v.into());
            }
            #[doc = concat!(" The value of `", stringify!($($field).+), "`.")]
            fn $get(opt: *mut $handle) -> c_int {
                let options = of(opt.cast_const());
                let now = options.$($field).+;
                let kept = options.kept().get(stringify!($($field).+), now.number().into());
                // The options may also have been changed by text.
                if temperature(kept) == now { kept as c_int } else { now.number().into() }
            }
        )+}
    };
}

/// The temperature with this number.
fn temperature(number: i64) -> Temperature {
    Temperature::from_number(u8::try_from(number).unwrap_or(0))
}

c_temperatures! { rocksdb_options_t:
    rocksdb_options_set_default_temperature, rocksdb_options_get_default_temperature => family.default_temperature;
    rocksdb_options_set_default_write_temperature, rocksdb_options_get_default_write_temperature => family.default_write_temperature;
    rocksdb_options_set_last_level_temperature, rocksdb_options_get_last_level_temperature => family.last_level_temperature;
    rocksdb_options_set_metadata_write_temperature, rocksdb_options_get_metadata_write_temperature => db.metadata_write_temperature;
    rocksdb_options_set_wal_write_temperature, rocksdb_options_get_wal_write_temperature => db.wal_write_temperature;
}

c_temperatures! { rocksdb_compaction_options_t:
    rocksdb_compaction_options_set_output_temperature_override, rocksdb_compaction_options_get_output_temperature_override => output_temperature_override;
}

/// The number of elements of an enumeration that a set can hold.
const MOST_ELEMENTS: c_int = 63;

/// Defines the functions of a set of enumeration values without effect, a bit each.
macro_rules! c_kept_sets {
    ($($add:ident, $remove:ident, $contains:ident, $count:ident, $clear:ident = $default:literal => $option:literal;)+) => {
        c_functions! {$(
            #[doc = concat!(" Adds to `", $option, "`, which has no effect.")]
            fn $add(opt: *mut rocksdb_options_t, v: c_int) {
                let options = of_mut(opt);
                match bit(v) {
                    Some(bit) => {
                        let old = options.kept().get($option, $default);
                        options.kept_mut().set($option, old | bit);
                    }
                    None => options.refuse_number($option, stringify!($add), v.into()),
                }
            }
            #[doc = concat!(" Removes from `", $option, "`, which has no effect.")]
            fn $remove(opt: *mut rocksdb_options_t, v: c_int) {
                let options = of_mut(opt);
                let old = options.kept().get($option, $default);
                options.kept_mut().set($option, old & !bit(v).unwrap_or(0));
            }
            #[doc = concat!(" True if `", $option, "`, which has no effect, contains a number.")]
            fn $contains(opt: *mut rocksdb_options_t, v: c_int) -> c_uchar {
                let all = of(opt.cast_const()).kept().get($option, $default);
                c_uchar::from(all & bit(v).unwrap_or(0) != 0)
            }
            #[doc = concat!(" The number of elements of `", $option, "`, which has no effect.")]
            fn $count(opt: *mut rocksdb_options_t) -> usize {
                of(opt.cast_const()).kept().get($option, $default).count_ones() as usize
            }
            #[doc = concat!(" Empties `", $option, "`, which has no effect.")]
            fn $clear(opt: *mut rocksdb_options_t) {
                let options = of_mut(opt);
                options.accept($option);
                options.kept_mut().set($option, 0);
            }
        )+}
    };
}

/// The bit of an element; `None` for a number that no enumeration has.
fn bit(element: c_int) -> Option<i64> {
    (0..MOST_ELEMENTS)
        .contains(&element)
        .then(|| 1_i64 << element)
}

c_kept_sets! {
    rocksdb_options_calculate_sst_write_lifetime_hint_set_add, rocksdb_options_calculate_sst_write_lifetime_hint_set_remove, rocksdb_options_calculate_sst_write_lifetime_hint_set_contains, rocksdb_options_calculate_sst_write_lifetime_hint_set_count, rocksdb_options_calculate_sst_write_lifetime_hint_set_clear = 1 => "calculate_sst_write_lifetime_hint_set";
    rocksdb_options_checksum_handoff_file_types_add, rocksdb_options_checksum_handoff_file_types_remove, rocksdb_options_checksum_handoff_file_types_contains, rocksdb_options_checksum_handoff_file_types_count, rocksdb_options_checksum_handoff_file_types_clear = 0 => "checksum_handoff_file_types";
}

c_functions! {
    /// Keeps a name of the request, which has no effect. Copied; null removes it.
    fn rocksdb_readoptions_set_request_id(opt: *mut rocksdb_readoptions_t, request_id: *const c_char, request_id_len: usize) {
        let name = maybe_bytes(request_id, request_id_len).map(<[u8]>::to_vec);
        of_mut(opt).kept_mut().request_id = name;
    }
    /// Removes the name of the request.
    fn rocksdb_readoptions_clear_request_id(opt: *mut rocksdb_readoptions_t) {
        of_mut(opt).kept_mut().request_id = None;
    }
    /// Returns the name of the request, which is valid until it is changed, or null.
    fn rocksdb_readoptions_get_request_id(opt: *mut rocksdb_readoptions_t, request_id_len: *mut usize) -> *const c_char {
        let name = of(opt.cast_const()).kept().request_id.as_deref();
        store(request_id_len, name.map_or(0, <[u8]>::len));
        name.map_or(std::ptr::null(), |name| name.as_ptr().cast())
    }
}
