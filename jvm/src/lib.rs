//! The native half of RocksJava: `librocksdbjni.so`, for the classes of `org.rocksdb:rocksdbjni` and
//! `com.ververica:frocksdbjni`.
//!
//! `methods.txt` is the table of all native methods; `build.rs` generates an exported function for each, which
//! converts its arguments, calls the function named in the table, and throws its error. The modules have these
//! functions, by the Java classes that declare them. `env` has the JNI, `handle` the objects behind `long` handles.
//!
//! Ownership is that of RocksJava: each handle is freed by the method `disposeInternal` of its class, and options
//! share the objects that are set in them.

#![allow(
    clippy::too_many_arguments,
    reason = "the arguments of native methods are those of the Java classes"
)]

mod arguments;
mod batch;
mod callbacks;
mod callee;
mod collections;
mod compaction_info;
mod db;
mod env;
mod files;
mod handle;
mod iterator;
mod listener;
mod modified_utf8;
mod objects;
mod older;
mod options;
mod reads;
mod scalar;
mod slice;
mod task_limiter;
mod test_natives;
mod threads;
mod tickers;
mod trace;
mod transaction_db;
mod transactions;
mod txn;
mod versions;
mod wal_filter;
mod writes;

pub(crate) use cairn_backup::BackupEngineOptions;
pub(crate) use cairn_observe::listener::{CompactionJobInfo, CompactionJobStats};
pub(crate) use cairn_options::struct_options::CompressionOptions;
pub(crate) use cairn_options::{
    CompactRangeOptions, FifoCompactionOptions, FlushOptions, IngestExternalFileOptions,
    UniversalCompactionOptions, WriteOptions,
};
pub(crate) use cairn_options::{CompactionOptions, ImportColumnFamilyOptions};
pub(crate) use cairn_txn::{
    OptimisticTransactionOptions, TransactionDbOptions, TransactionOptions,
};
pub(crate) use callbacks::ComparatorOptions;
pub(crate) use files::EnvOptions;
pub(crate) use options::{AllOptions, ReadOptions};

/// The exported functions.
mod natives {
    #![allow(non_snake_case, reason = "the names are those of the JNI")]
    #![allow(clippy::all, reason = "generated")]

    use jni_sys::{jbyte, jchar, jint, jlong};

    use crate::arguments::{IntoOutcome, arg};
    use crate::env::{
        ByteArray, ByteBuffer, Env, IntArray, JString, LongArray, Object, ObjectArray,
    };

    include!(concat!(env!("OUT_DIR"), "/natives.rs"));
}
