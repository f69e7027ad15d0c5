//! Java's modified UTF-8: the encoding in which RocksJava stores strings.
//!
//! ```text
//! unit of UTF-16   bytes
//! 1 to 7f          0xxxxxxx
//! 0, 80 to 7ff     110xxxxx 10xxxxxx
//! 800 to ffff      1110xxxx 10xxxxxx 10xxxxxx
//! ```
//!
//! It differs from UTF-8 in two ways: it has no zero bytes, and a character above ffff has the 6 bytes of its two
//! surrogates.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use cairn_platform::World;

use crate::env::{Env, JString, ObjectArray, Outcome};

impl Env {
    /// The bytes of a string in modified UTF-8.
    pub fn modified_utf8(self, string: JString) -> Outcome<Vec<u8>> {
        Ok(encoded(&self.units(string)?))
    }

    /// The path that a string names. All paths that a program passes are taken with it.
    pub fn path(self, string: JString) -> Outcome<PathBuf> {
        Ok(path_of(&self.units(string)?))
    }

    /// The paths of a `String[]`.
    pub fn paths(self, array: ObjectArray) -> Outcome<Vec<PathBuf>> {
        self.strings_by(array, Env::path)
    }

    /// A string of a path.
    pub fn string_of_path(self, path: &Path) -> Outcome<JString> {
        self.string_of_bytes(path.as_os_str().as_bytes())
    }

    /// A string of bytes that are modified UTF-8 or UTF-8.
    pub fn string_of_bytes(self, bytes: &[u8]) -> Outcome<JString> {
        self.string_of_units(&decoded(bytes))
    }
}

/// The path of `units`: in UTF-8, in which Java itself names files, or in modified UTF-8, in which RocksJava does, if
/// only that exists. A path that does not exist is in the encoding of its last ancestor that exists in one of them.
fn path_of(units: &[u16]) -> PathBuf {
    let plain = String::from_utf16_lossy(units);
    let modified = encoded(units);
    if plain.as_bytes() == modified {
        return PathBuf::from(plain);
    }
    let plain = PathBuf::from(plain);
    let modified = PathBuf::from(OsString::from_vec(modified));
    let mut ancestors = plain.ancestors().zip(modified.ancestors());
    let known = ancestors.find(|(plain, modified)| exists(plain) || exists(modified));
    match known.is_some_and(|(plain, _)| !exists(plain)) {
        true => modified,
        false => plain,
    }
}

/// True for a file, and for a directory that is not empty: programs create the directory of a database, in UTF-8,
/// before RocksJava creates it once more.
fn exists(path: &Path) -> bool {
    let fs = &World::posix().fs;
    match fs.list(path) {
        Ok(names) => !names.is_empty(),
        Err(_) => fs.status(path).is_ok(),
    }
}

fn encoded(units: &[u16]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(units.len());
    for &unit in units {
        let low = 0x80 | (unit & 0x3f) as u8;
        match unit {
            1..=0x7f => bytes.push(unit as u8),
            0 | 0x80..=0x7ff => bytes.extend([0xc0 | (unit >> 6) as u8, low]),
            0x800.. => {
                let middle = 0x80 | ((unit >> 6) & 0x3f) as u8;
                bytes.extend([0xe0 | (unit >> 12) as u8, middle, low]);
            }
        }
    }
    bytes
}

/// Bytes that are in neither encoding become replacement characters.
fn decoded(bytes: &[u8]) -> Vec<u16> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.encode_utf16().collect();
    }
    let bits = |byte: u8, count: u32| u16::from(byte) & ((1 << count) - 1);
    let mut units = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        let (unit, next) = match (*first, after) {
            (0..=0x7f, _) => (u16::from(*first), after),
            (0xc0..=0xdf, [low @ 0x80..=0xbf, after @ ..]) => {
                (bits(*first, 5) << 6 | bits(*low, 6), after)
            }
            (0xe0..=0xef, [middle @ 0x80..=0xbf, low @ 0x80..=0xbf, after @ ..]) => {
                let unit = bits(*first, 4) << 12 | bits(*middle, 6) << 6 | bits(*low, 6);
                (unit, after)
            }
            _ => (0xfffd, after),
        };
        units.push(unit);
        rest = next;
    }
    units
}
