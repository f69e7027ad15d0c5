//! The versions of the Java classes that the library serves.
//!
//! The classes have no version number of their own. The constructor of a table format takes one argument per option of
//! tables, so that its descriptor differs between releases.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

use cairn_observe::StallCondition;
use cairn_options::ChecksumKind;

use crate::env::{Env, Fail, JString, Object, Outcome};

/// A native method whose descriptor tells the releases that the library serves.
const CLASS: &str = "org/rocksdb/BlockBasedTableConfig";
const METHOD: &str = "newTableFactoryHandle";
/// The descriptors, and true if all releases that have it read format version 7 of tables.
const DESCRIPTORS: [(&str, bool); 5] = [
    // 11.1 to 11.8.
    ("(ZZZZBBDBZJJJIIIJZZZJZZIIZDZZJJBBJI)J", true),
    // 11.0.
    ("(ZZZZBBDBZJJJIIIJZZZJZZIIZZZJJBBJI)J", true),
    // 10.10.
    ("(ZZZZBBDBZJJJIIIJZZZJZZIIZZJJBJI)J", true),
    // 8.0 to 10.6, and Flink's 8.10.
    ("(ZZZZBBDBZJJJIIIJZZZJZZIIZZBJI)J", false),
    // 7, 6.29, and Flink's 6.20.
    ("(ZZZZBBDBZJJJJIIIJZZZJZZIIZZBJIJI)J", false),
];

/// Bits of [`LOADED`]: tickers and histograms have the numbers of release 9 and later.
const NEW_STATISTICS: u8 = 1;
/// Write stalls have the numbers of release 8 and later.
const NEW_STALLS: u8 = 2;
/// RocksDB's library of the classes reads format version 7 of tables.
const NEW_TABLES: u8 = 4;
/// The classes know the checksum XXH3.
const NEW_CHECKSUM: u8 = 8;

/// What is known of the classes that were loaded last; those of the newest release if there are none.
static LOADED: AtomicU8 = AtomicU8::new(NEW_STATISTICS | NEW_STALLS | NEW_TABLES | NEW_CHECKSUM);

fn is_loaded(bit: u8) -> bool {
    LOADED.load(Relaxed) & bit != 0
}

/// Returns true if tickers and histograms have the numbers of release 9 and later.
pub fn has_new_statistics() -> bool {
    is_loaded(NEW_STATISTICS)
}

/// Returns the number of a `WriteStallCondition` in Java.
pub fn stall_number(condition: StallCondition) -> i8 {
    let number = condition.number() as i8;
    match is_loaded(NEW_STALLS) {
        true => number,
        // The condition without a stall, which is the last one since, came first.
        false => (number + 1) % 3,
    }
}

/// Returns the default format version of tables, which RocksDB's library of these classes can read.
pub fn format_version() -> u32 {
    match (is_loaded(NEW_TABLES), is_loaded(NEW_STATISTICS)) {
        (true, _) => 7,
        // RocksDB 8.6 reads it.
        (false, true) => 6,
        (false, false) => 5,
    }
}

/// Returns the default checksum of tables, which RocksDB's library of these classes can verify.
pub fn checksum() -> ChecksumKind {
    match is_loaded(NEW_CHECKSUM) {
        true => ChecksumKind::Xxh3,
        // RocksDB before 6.27 does not read XXH3. RocksDB 6.29 and 7.1 do, although their classes do not know it.
        false => ChecksumKind::Crc32c,
    }
}

/// Checks that the classes of the loading class loader are those of a release that the library serves, and finds out
/// what their numbers mean.
///
/// # Errors
///
/// An `IllegalStateException` that names the jar. It ends the search for libraries, which would find that of the jar.
pub fn check(env: Env) -> Outcome<()> {
    let Ok(class) = env.class(CLASS) else {
        // A program may leave out classes that it does not use.
        env.take_exception();
        return Ok(());
    };
    let found = DESCRIPTORS
        .iter()
        .find(|(descriptor, _)| env.has_method(class, METHOD, descriptor));
    if let Some((_, has_new_tables)) = found {
        // A constant of each enumeration that has another number in earlier releases.
        let has_new_statistics = is_number(env, "TickerType", "BLOB_DB_BLOB_FILE_SYNCED", -9);
        let has_new_stalls = is_number(env, "WriteStallCondition", "NORMAL", 2);
        let bit = |is: bool, bit: u8| if is { bit } else { 0 };
        let bits = bit(has_new_statistics, NEW_STATISTICS)
            | bit(has_new_stalls, NEW_STALLS)
            | bit(*has_new_tables, NEW_TABLES)
            | bit(has_constant(env, "ChecksumType", "kXXH3"), NEW_CHECKSUM);
        LOADED.store(bits, Relaxed);
        return Ok(());
    }
    let origin = origin(env, Object(class)).unwrap_or_else(|_| {
        env.take_exception();
        "an unknown jar".to_owned()
    });
    Err(Fail::Java(
        "java/lang/IllegalStateException",
        format!(
            "the classes of RocksJava in {origin} do not fit this library (Cairn), which is for \
             org.rocksdb:rocksdbjni:6.29 to 11.8, and com.ververica:frocksdbjni:6.20 and 8.10"
        ),
    ))
}

/// Returns true if a constant of an enumeration has the number `expected`, or does not exist.
fn is_number(env: Env, class: &str, name: &str, expected: i8) -> bool {
    let number = || {
        let constant = constant(env, class, name)?;
        let get = env.method_of(constant, "getValue", "()B")?;
        env.call_byte(constant, get, &[])
    };
    number().map_or_else(
        |_: Fail| {
            env.take_exception();
            true
        },
        |number| number == expected,
    )
}

/// Returns true if an enumeration has a constant.
fn has_constant(env: Env, class: &str, name: &str) -> bool {
    let found = constant(env, class, name).is_ok();
    if !found {
        env.take_exception();
    }
    found
}

/// A constant of an enumeration.
fn constant(env: Env, class: &str, name: &str) -> Outcome<Object> {
    let class = format!("org/rocksdb/{class}");
    env.constant(&class, name, &format!("L{class};"))
}

/// The location of the jar of a class.
fn origin(env: Env, class: Object) -> Outcome<String> {
    let get = |object: Object, name: &str, descriptor: &str| {
        let method = env.method_of(object, name, descriptor)?;
        env.call_object(object, method, &[])
    };
    let domain = get(
        class,
        "getProtectionDomain",
        "()Ljava/security/ProtectionDomain;",
    )?;
    let source = get(domain, "getCodeSource", "()Ljava/security/CodeSource;")?;
    if source.is_null() {
        return Ok("an unknown jar".to_owned());
    }
    let location = get(source, "getLocation", "()Ljava/net/URL;")?;
    let text = get(location, "toString", "()Ljava/lang/String;")?;
    env.text(JString(text.0))
}
