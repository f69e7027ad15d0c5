//! Options of the table formats without blocks: PlainTable and CuckooTable.

use std::ffi::{c_char, c_int, c_uchar};

use cairn_options::{CuckooTableOptions, PlainEncodingType, PlainTableOptions, TableKind};

use crate::handle::{create, maybe, of, of_mut};
use crate::options::{TABLE_FACTORY, rocksdb_options_t};

handles! {
    /// Options of CuckooTable files.
    rocksdb_cuckoo_table_options_t = CuckooTableOptions;
}

c_destructors! {
    /// Frees options.
    rocksdb_cuckoo_options_destroy(rocksdb_cuckoo_table_options_t);
}

c_functions! {
    /// Lets new tables be PlainTable files. The page size is ignored; tables are read in any mode, also with
    /// `full_scan_mode`.
    fn rocksdb_options_set_plain_table_factory(
        opt: *mut rocksdb_options_t,
        user_key_len: u32,
        bloom_bits_per_key: c_int,
        hash_table_ratio: f64,
        index_sparseness: usize,
        huge_page_tlb_size: usize,
        encoding_type: c_char,
        full_scan_mode: c_uchar,
        store_index_in_file: c_uchar,
    ) {
        let options = of_mut(opt);
        let encoding_type = match encoding_type {
            0 => PlainEncodingType::Plain,
            1 => PlainEncodingType::Prefix,
            other => {
                let name = "rocksdb_options_set_plain_table_factory";
                return options.refuse_number(TABLE_FACTORY, name, other.into());
            }
        };
        options.accept(TABLE_FACTORY);
        options.set_table_kind(TableKind::Plain);
        options.family.plain_table = PlainTableOptions {
            user_key_len,
            bloom_bits_per_key,
            hash_table_ratio,
            index_sparseness: index_sparseness as u64,
            huge_page_tlb_size: huge_page_tlb_size as u64,
            encoding_type,
            full_scan_mode: full_scan_mode != 0,
            store_index_in_file: store_index_in_file != 0,
        };
    }
    /// Creates options of CuckooTable files.
    fn rocksdb_cuckoo_options_create() -> *mut rocksdb_cuckoo_table_options_t {
        create(CuckooTableOptions::default())
    }
    /// Sets `hash_table_ratio`.
    fn rocksdb_cuckoo_options_set_hash_ratio(options: *mut rocksdb_cuckoo_table_options_t, v: f64) {
        of_mut(options).hash_table_ratio = v;
    }
    /// Sets `hash_table_ratio`.
    fn rocksdb_cuckoo_options_set_hash_table_ratio(opt: *mut rocksdb_cuckoo_table_options_t, v: f64) {
        of_mut(opt).hash_table_ratio = v;
    }
    /// The value of `hash_table_ratio`.
    fn rocksdb_cuckoo_options_get_hash_table_ratio(opt: *mut rocksdb_cuckoo_table_options_t) -> f64 {
        of(opt.cast_const()).hash_table_ratio
    }
    /// Sets `max_search_depth`.
    fn rocksdb_cuckoo_options_set_max_search_depth(options: *mut rocksdb_cuckoo_table_options_t, v: u32) {
        of_mut(options).max_search_depth = v;
    }
    /// The value of `max_search_depth`.
    fn rocksdb_cuckoo_options_get_max_search_depth(opt: *mut rocksdb_cuckoo_table_options_t) -> u32 {
        of(opt.cast_const()).max_search_depth
    }
    /// Sets `cuckoo_block_size`.
    fn rocksdb_cuckoo_options_set_cuckoo_block_size(options: *mut rocksdb_cuckoo_table_options_t, v: u32) {
        of_mut(options).cuckoo_block_size = v;
    }
    /// The value of `cuckoo_block_size`.
    fn rocksdb_cuckoo_options_get_cuckoo_block_size(opt: *mut rocksdb_cuckoo_table_options_t) -> u32 {
        of(opt.cast_const()).cuckoo_block_size
    }
    /// Sets `identity_as_first_hash`.
    fn rocksdb_cuckoo_options_set_identity_as_first_hash(options: *mut rocksdb_cuckoo_table_options_t, v: c_uchar) {
        of_mut(options).identity_as_first_hash = v != 0;
    }
    /// The value of `identity_as_first_hash`.
    fn rocksdb_cuckoo_options_get_identity_as_first_hash(opt: *mut rocksdb_cuckoo_table_options_t) -> c_uchar {
        of(opt.cast_const()).identity_as_first_hash.into()
    }
    /// Sets `use_module_hash`.
    fn rocksdb_cuckoo_options_set_use_module_hash(options: *mut rocksdb_cuckoo_table_options_t, v: c_uchar) {
        of_mut(options).use_module_hash = v != 0;
    }
    /// The value of `use_module_hash`.
    fn rocksdb_cuckoo_options_get_use_module_hash(opt: *mut rocksdb_cuckoo_table_options_t) -> c_uchar {
        of(opt.cast_const()).use_module_hash.into()
    }
    /// Lets new tables be CuckooTable files with these options, which are copied. Null is ignored.
    fn rocksdb_options_set_cuckoo_table_factory(
        opt: *mut rocksdb_options_t,
        table_options: *mut rocksdb_cuckoo_table_options_t,
    ) {
        if let Some(table) = maybe(table_options.cast_const()) {
            let options = of_mut(opt);
            options.accept(TABLE_FACTORY);
            options.set_table_kind(TableKind::Cuckoo);
            options.family.cuckoo_table = table.clone();
        }
    }
}
