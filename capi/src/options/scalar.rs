//! Conversion of single-valued options between C and Rust.

use std::ffi::{c_char, c_int, c_uchar};

use cairn_backup::RestoreMode;
use cairn_format::backup::Schema;
use cairn_options::enums::{
    BlobGarbageCollectionPolicy, BottommostLevelCompaction, CacheTier, ChecksumKind, CompactionPri,
    CompactionStopStyle, CompactionStyle, Compression, DataBlockIndexType, IndexBlockSearchType,
    IndexShortening, IndexType, InfoLogLevel, IoCharge, IoMode, KeyCommonPrefix, PinningTier,
    PrepopulateBlobCache, PrepopulateBlockCache, ReadTier, WalRecoveryMode,
};
use cairn_txn::{ValidatePolicy, WritePolicy};

/// A value of an option that has the type `C` in the C interface.
pub trait Scalar<C> {
    /// Sets the value from C; returns false if it is invalid.
    fn set(&mut self, value: C) -> bool;
    /// The value for C.
    fn get(&self) -> C;
}

macro_rules! numbers {
    ($($option:ty: $($c:ty),+;)+) => {$($(
        impl Scalar<$c> for $option {
            fn set(&mut self, value: $c) -> bool {
                // Wraps like the casts in RocksDB's setters: -1 is the largest unsigned number.
                *self = value as $option;
                true
            }
            fn get(&self) -> $c {
                *self as $c
            }
        }
    )+)+};
}

numbers! {
    i32: i32;
    u32: u32, i32, usize, u64, u8;
    u64: u64, usize, u32, i32;
    usize: usize, u64;
    i64: i64;
    f64: f64;
}

macro_rules! booleans {
    ($($c:ty),+) => {$(
        impl Scalar<$c> for bool {
            fn set(&mut self, value: $c) -> bool {
                *self = value != 0;
                true
            }
            fn get(&self) -> $c {
                <$c>::from(*self)
            }
        }
    )+};
}

booleans!(c_uchar, c_int);

impl Scalar<bool> for bool {
    fn set(&mut self, value: bool) -> bool {
        *self = value;
        true
    }
    fn get(&self) -> bool {
        *self
    }
}

/// Enumerations whose numbers are their indexes in the table of names.
macro_rules! choices {
    ($($option:ty: $($c:ty),+;)+) => {$($(
        impl Scalar<$c> for $option {
            fn set(&mut self, value: $c) -> bool {
                let found = usize::try_from(value).ok().and_then(|n| <$option>::ALL.get(n));
                found.map(|(choice, _)| *self = *choice).is_some()
            }
            fn get(&self) -> $c {
                let place = <$option>::ALL.iter().position(|(choice, _)| choice == self);
                place.unwrap_or(0) as $c
            }
        }
    )+)+};
}

choices! {
    WalRecoveryMode: c_int;
    InfoLogLevel: c_int;
    CompactionStyle: c_int;
    CompactionPri: c_int;
    CompactionStopStyle: c_int;
    PrepopulateBlobCache: c_int;
    PrepopulateBlockCache: c_int;
    IndexType: c_int;
    IndexBlockSearchType: c_int;
    DataBlockIndexType: c_int;
    PinningTier: c_int;
    ReadTier: c_int;
    BottommostLevelCompaction: c_uchar;
    BlobGarbageCollectionPolicy: c_int;
    CacheTier: c_int;
    IndexShortening: c_int;
    KeyCommonPrefix: c_int;
    IoMode: c_int;
    IoCharge: c_int;
}

/// Enumerations without names, in the order of their numbers.
macro_rules! numbered {
    ($($option:ty: $($variant:ident = $number:literal),+;)+) => {$(
        impl Scalar<c_int> for $option {
            fn set(&mut self, value: c_int) -> bool {
                *self = match value {
                    $($number => <$option>::$variant,)+
                    _ => return false,
                };
                true
            }
            fn get(&self) -> c_int {
                match self {
                    $(<$option>::$variant => $number,)+
                }
            }
        }
    )+};
}

numbered! {
    WritePolicy: Committed = 0, Prepared = 1, Unprepared = 2;
    ValidatePolicy: Serial = 0, Parallel = 1;
    RestoreMode: KeepLatestDbSessionIdFiles = 1, VerifyChecksum = 2, PurgeAllFiles = 0xffff;
    Schema: One = 1, Two = 2;
}

impl Scalar<c_int> for Compression {
    fn set(&mut self, value: c_int) -> bool {
        let found = u8::try_from(value).ok().and_then(Compression::from_u8);
        found.map(|kind| *self = kind).is_some()
    }
    fn get(&self) -> c_int {
        *self as c_int
    }
}

/// The number of "no compression" (`kDisableCompressionOption`).
const DISABLED: c_int = 0xff;

impl Scalar<c_int> for Option<Compression> {
    fn set(&mut self, value: c_int) -> bool {
        if value == DISABLED {
            *self = None;
            return true;
        }
        let found = u8::try_from(value).ok().and_then(Compression::from_u8);
        *self = found;
        found.is_some()
    }
    fn get(&self) -> c_int {
        self.map_or(DISABLED, |kind| kind as c_int)
    }
}

macro_rules! checksums {
    ($($c:ty),+) => {$(
        impl Scalar<$c> for ChecksumKind {
            fn set(&mut self, value: $c) -> bool {
                let found = u8::try_from(value).ok().and_then(ChecksumKind::from_u8);
                found.map(|kind| *self = kind).is_some()
            }
            fn get(&self) -> $c {
                *self as $c
            }
        }
    )+};
}

checksums!(c_char, c_int);
