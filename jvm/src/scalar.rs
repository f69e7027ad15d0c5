//! Conversion of single-valued options between Java and Rust.

use cairn_options::enums::{
    BottommostLevelCompaction, CacheTier, CompactionPri, CompactionStopStyle, CompactionStyle,
    Compression, InfoLogLevel, PrepopulateBlobCache, ReadTier, WalRecoveryMode,
};
use cairn_txn::WritePolicy;

use crate::env::{Outcome, illegal};

/// A value of an option that has the type `J` in Java.
pub trait Scalar<J> {
    /// Sets the value; returns false if it is invalid.
    fn set_java(&mut self, value: J) -> bool;
    /// The value for Java.
    fn get_java(&self) -> J;
}

/// Sets an option.
pub fn set<J, T: Scalar<J>>(option: &mut T, value: J, name: &str) -> Outcome<()> {
    match option.set_java(value) {
        true => Ok(()),
        false => Err(illegal(&format!("{name}: no such value"))),
    }
}

/// The value of an option.
pub fn get<J, T: Scalar<J>>(option: &T) -> Outcome<J> {
    Ok(option.get_java())
}

macro_rules! numbers {
    ($($option:ty: $($java:ty),+;)+) => {$($(
        impl Scalar<$java> for $option {
            fn set_java(&mut self, value: $java) -> bool {
                // Wraps like the casts of RocksJava: -1 is the largest unsigned number.
                *self = value as $option;
                true
            }
            fn get_java(&self) -> $java {
                *self as $java
            }
        }
    )+)+};
}

numbers! {
    i32: i32, i64;
    u32: i32, i64, i8;
    u64: i32, i64;
    usize: i32, i64;
    i64: i64, i32;
    f64: f64;
    i8: i8;
}

impl Scalar<bool> for bool {
    fn set_java(&mut self, value: bool) -> bool {
        *self = value;
        true
    }
    fn get_java(&self) -> bool {
        *self
    }
}

/// Enumerations whose numbers in Java are their indexes in the table of names.
macro_rules! choices {
    ($($option:ty: $($java:ty),+;)+) => {$($(
        impl Scalar<$java> for $option {
            fn set_java(&mut self, value: $java) -> bool {
                let found = usize::try_from(value).ok().and_then(|n| <$option>::ALL.get(n));
                found.map(|(choice, _)| *self = *choice).is_some()
            }
            fn get_java(&self) -> $java {
                let place = <$option>::ALL.iter().position(|(choice, _)| choice == self);
                place.unwrap_or(0) as $java
            }
        }
    )+)+};
}

choices! {
    WalRecoveryMode: i8;
    CompactionStyle: i8;
    CompactionPri: i8;
    CompactionStopStyle: i8;
    PrepopulateBlobCache: i8;
    ReadTier: i8;
    CacheTier: i8;
    BottommostLevelCompaction: i32;
}

impl Scalar<i8> for InfoLogLevel {
    fn set_java(&mut self, value: i8) -> bool {
        let number = usize::try_from(value).unwrap_or(usize::MAX);
        // NUM_INFO_LOG_LEVELS is above all levels: only the header is written, as with the last one.
        let number = match number == InfoLogLevel::ALL.len() {
            true => number - 1,
            false => number,
        };
        let found = InfoLogLevel::ALL.get(number);
        found.map(|(level, _)| *self = *level).is_some()
    }
    fn get_java(&self) -> i8 {
        let place = InfoLogLevel::ALL
            .iter()
            .position(|(level, _)| level == self);
        place.unwrap_or(0) as i8
    }
}

impl Scalar<i8> for Compression {
    fn set_java(&mut self, value: i8) -> bool {
        let found = u8::try_from(value).ok().and_then(Compression::from_u8);
        found.map(|kind| *self = kind).is_some()
    }
    fn get_java(&self) -> i8 {
        *self as i8
    }
}

/// The number of `DISABLE_COMPRESSION_OPTION`.
pub const DISABLED: i8 = 0x7f;

impl Scalar<i8> for Option<Compression> {
    fn set_java(&mut self, value: i8) -> bool {
        *self = u8::try_from(value).ok().and_then(Compression::from_u8);
        self.is_some() || value == DISABLED
    }
    fn get_java(&self) -> i8 {
        self.map_or(DISABLED, |kind| kind as i8)
    }
}

impl Scalar<i8> for WritePolicy {
    fn set_java(&mut self, value: i8) -> bool {
        *self = match value {
            0 => WritePolicy::Committed,
            1 => WritePolicy::Prepared,
            2 => WritePolicy::Unprepared,
            _ => return false,
        };
        true
    }
    fn get_java(&self) -> i8 {
        match self {
            WritePolicy::Prepared => 1,
            WritePolicy::Unprepared => 2,
            _ => 0,
        }
    }
}
