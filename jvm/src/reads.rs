//! `RocksDB`: get, multiGet, keyMayExist.

use cairn_db::{Family, MayExist, Value};
use cairn_types::Error;
use jni_sys::{jint, jlong};

use crate::db::{Database, family_or_default};
use crate::env::{ByteArray, ByteBuffer, Env, IntArray, LongArray, Object, ObjectArray, Outcome};
use crate::handle::{Ref, of};
use crate::options::ReadOptions;

/// The result for a missing key of methods that return a length.
pub const NOT_FOUND: jint = -1;

/// The number of keys that are looked up together.
const PART: usize = 4096;

/// Calls `work` with the options behind a handle, or the default.
#[inline]
fn with_options<T>(
    options: jlong,
    work: impl FnOnce(&cairn_options::ReadOptions) -> Outcome<T>,
) -> Outcome<T> {
    match options {
        0 => work(&cairn_options::ReadOptions::default()),
        handle => work(&of::<ReadOptions>(handle)?.for_lookup()),
    }
}

#[inline]
fn find(db: &Database, options: jlong, family: jlong, key: &[u8]) -> Outcome<Option<Value>> {
    with_options(options, |options| {
        Ok(family_or_default(db, family)?.get_with(key, options)?)
    })
}

macro_rules! gets {
    ($($name:ident($($before:ident),*)($($after:ident),*);)+) => {$(
        pub fn $name(
            env: Env, db: Ref<Database>, $($before: jlong,)* key: ByteArray, at: jint, len: jint $(, $after: jlong)*
        ) -> Outcome<ByteArray> {
            let key = env.bytes(key, at, len)?;
            let value = find(db.0, 0 $(+ $before)*, 0 $(+ $after)*, &key)?;
            env.maybe_byte_array(value.as_deref())
        }
    )+};
}

gets! {
    get()();
    get_family()(family);
    get_options(options)();
    get_both(options)(family);
}

macro_rules! gets_into {
    ($($name:ident($($before:ident),*)($($after:ident),*);)+) => {$(
        pub fn $name(
            env: Env, db: Ref<Database>, $($before: jlong,)*
            key: ByteArray, at: jint, len: jint, value: ByteArray, value_at: jint, value_len: jint
            $(, $after: jlong)*
        ) -> Outcome<jint> {
            let key = env.bytes(key, at, len)?;
            match find(db.0, 0 $(+ $before)*, 0 $(+ $after)*, &key)? {
                None => Ok(NOT_FOUND),
                Some(found) => env.fill_array(value, value_at, value_len, &found),
            }
        }
    )+};
}

gets_into! {
    get_into()();
    get_into_family()(family);
    get_into_options(options)();
    get_into_both(options)(family);
}

pub fn get_direct(
    env: Env,
    db: Ref<Database>,
    options: jlong,
    key: ByteBuffer,
    at: jint,
    len: jint,
    value: ByteBuffer,
    value_at: jint,
    value_len: jint,
    family: jlong,
) -> Outcome<jint> {
    let key = env.direct(key, at, len, "key")?;
    match find(db.0, options, family, key)? {
        None => Ok(NOT_FOUND),
        Some(found) => env.fill_direct(value, value_at, value_len, &found, "value"),
    }
}

/// The keys of a `byte[][]` with offsets and lengths.
fn keys(env: Env, keys: ObjectArray, offsets: IntArray, lens: IntArray) -> Outcome<Vec<Vec<u8>>> {
    let (offsets, lens) = (env.ints(offsets)?, env.ints(lens)?);
    let count = usize::try_from(env.len(Object(keys.0))?).unwrap_or(0);
    let mut all = Vec::with_capacity(count);
    for (at, (offset, len)) in offsets.iter().zip(&lens).enumerate().take(count) {
        let key = env.element(keys, at)?;
        all.push(env.bytes(ByteArray(key.0), *offset, *len)?.to_vec());
        env.forget(key);
    }
    Ok(all)
}

fn multi_get_of(
    env: Env,
    db: &Database,
    options: jlong,
    given: &[Vec<u8>],
    families: Option<LongArray>,
) -> Outcome<ObjectArray> {
    let mut chosen: Vec<(&Family, &[u8])> = Vec::with_capacity(given.len());
    match families {
        None => chosen.extend(given.iter().map(|key| (db.db.default_family(), &key[..]))),
        Some(families) => {
            for (family, key) in env.longs(families)?.iter().zip(given) {
                chosen.push((of::<Family>(*family)?, key));
            }
        }
    }
    let array = env.object_array("[B", chosen.len())?;
    with_options(options, |options| {
        let mut options = options.clone();
        // Values pin their blocks, so a large batch is read in parts, all of them at one sequence number. A database
        // that follows another one has no snapshots, and gives a consistent view only of keys that are read together.
        let part_size = match db.db.is_follower() {
            true => chosen.len().max(1),
            false => PART,
        };
        let snapshot =
            (chosen.len() > part_size && options.snapshot.is_none()).then(|| db.db.snapshot());
        options.snapshot = options
            .snapshot
            .or(snapshot.as_ref().map(|snapshot| snapshot.sequence()));
        for (number, part) in chosen.chunks(part_size).enumerate() {
            for (at, value) in db
                .db
                .multi_get_in(part, &options, false)
                .into_iter()
                .enumerate()
            {
                // As in RocksJava, a failed lookup is a null value.
                if let Ok(Some(value)) = value {
                    let value = env.byte_array(&value)?;
                    env.set_element(array, number * part_size + at, Object(value.0))?;
                }
            }
        }
        Ok(())
    })?;
    Ok(array)
}

pub fn multi_get(
    env: Env,
    db: Ref<Database>,
    k: ObjectArray,
    offsets: IntArray,
    lens: IntArray,
) -> Outcome<ObjectArray> {
    multi_get_of(env, db.0, 0, &keys(env, k, offsets, lens)?, None)
}

pub fn multi_get_families(
    env: Env,
    db: Ref<Database>,
    k: ObjectArray,
    offsets: IntArray,
    lens: IntArray,
    families: LongArray,
) -> Outcome<ObjectArray> {
    multi_get_of(env, db.0, 0, &keys(env, k, offsets, lens)?, Some(families))
}

pub fn multi_get_options(
    env: Env,
    db: Ref<Database>,
    options: jlong,
    k: ObjectArray,
    offsets: IntArray,
    lens: IntArray,
) -> Outcome<ObjectArray> {
    multi_get_of(env, db.0, options, &keys(env, k, offsets, lens)?, None)
}

pub fn multi_get_both(
    env: Env,
    db: Ref<Database>,
    options: jlong,
    k: ObjectArray,
    offsets: IntArray,
    lens: IntArray,
    families: LongArray,
) -> Outcome<ObjectArray> {
    multi_get_of(
        env,
        db.0,
        options,
        &keys(env, k, offsets, lens)?,
        Some(families),
    )
}

pub fn multi_get_direct(
    env: Env,
    db: Ref<Database>,
    options: jlong,
    families: LongArray,
    key_buffers: ObjectArray,
    offsets: IntArray,
    lens: IntArray,
    values: ObjectArray,
    sizes: IntArray,
    statuses: ObjectArray,
) -> Outcome<()> {
    let (offsets, lens) = (env.ints(offsets)?, env.ints(lens)?);
    let families = match families.is_null() {
        true => Vec::new(),
        false => env.longs(families)?,
    };
    let mut given: Vec<(&Family, &[u8])> = Vec::new();
    for (at, (offset, len)) in offsets.iter().zip(&lens).enumerate() {
        let family = match families.len() {
            0 => db.0.db.default_family(),
            1 => of::<Family>(families[0])?,
            _ => of::<Family>(
                *families
                    .get(at)
                    .ok_or_else(|| Error::invalid_argument("too few column families"))?,
            )?,
        };
        let buffer = env.element(key_buffers, at)?;
        given.push((
            family,
            env.direct(ByteBuffer(buffer.0), *offset, *len, "key")?,
        ));
        env.forget(buffer);
    }
    let found = with_options(options, |options| {
        Ok(db.db.multi_get_in(&given, options, false))
    })?;
    let mut lengths = vec![0; found.len()];
    for (at, value) in found.into_iter().enumerate() {
        let status = match value {
            Ok(Some(value)) => {
                let buffer = env.element(values, at)?;
                let room = env.capacity(ByteBuffer(buffer.0));
                let room = jint::try_from(room).unwrap_or(jint::MAX);
                lengths[at] = env.fill_direct(ByteBuffer(buffer.0), 0, room, &value, "value")?;
                env.forget(buffer);
                env.status(None)?
            }
            Ok(None) => env.status(Some(&Error::not_found("")))?,
            Err(error) => env.status(Some(&error))?,
        };
        env.set_element(statuses, at, status)?;
    }
    env.set_ints(sizes, &lengths)
}

pub fn key_exists(
    env: Env,
    db: Ref<Database>,
    family: jlong,
    options: jlong,
    key: ByteArray,
    at: jint,
    len: jint,
) -> Outcome<bool> {
    let key = env.bytes(key, at, len)?;
    Ok(find(db.0, options, family, &key)?.is_some())
}

pub fn key_exists_direct(
    env: Env,
    db: Ref<Database>,
    family: jlong,
    options: jlong,
    key: ByteBuffer,
    at: jint,
    len: jint,
) -> Outcome<bool> {
    let key = env.direct(key, at, len, "key")?;
    Ok(find(db.0, options, family, key)?.is_some())
}

fn may_exist(db: &Database, family: jlong, options: jlong, key: &[u8]) -> Outcome<MayExist> {
    with_options(options, |options| {
        Ok(family_or_default(db, family)?.key_may_exist(key, options))
    })
}

pub fn key_may_exist(
    env: Env,
    db: Ref<Database>,
    family: jlong,
    options: jlong,
    key: ByteArray,
    at: jint,
    len: jint,
) -> Outcome<bool> {
    let key = env.bytes(key, at, len)?;
    Ok(!matches!(
        may_exist(db.0, family, options, &key)?,
        MayExist::No
    ))
}

pub fn key_may_exist_value(
    env: Env,
    db: Ref<Database>,
    family: jlong,
    options: jlong,
    key: ByteArray,
    at: jint,
    len: jint,
) -> Outcome<ObjectArray> {
    let key = env.bytes(key, at, len)?;
    // A flag (no, perhaps, yes), and the value.
    match may_exist(db.0, family, options, &key)? {
        MayExist::No => env.byte_arrays([Some(&[0][..])].into_iter()),
        MayExist::Perhaps => env.byte_arrays([Some(&[1][..])].into_iter()),
        MayExist::Yes(value) => env.byte_arrays([Some(&[2][..]), Some(&value[..])].into_iter()),
    }
}

pub fn key_may_exist_direct(
    env: Env,
    db: Ref<Database>,
    family: jlong,
    options: jlong,
    key: ByteBuffer,
    at: jint,
    len: jint,
) -> Outcome<bool> {
    let key = env.direct(key, at, len, "key")?;
    Ok(!matches!(
        may_exist(db.0, family, options, key)?,
        MayExist::No
    ))
}

pub fn key_may_exist_direct_value(
    env: Env,
    db: Ref<Database>,
    family: jlong,
    options: jlong,
    key: ByteBuffer,
    at: jint,
    len: jint,
    value: ByteBuffer,
    value_at: jint,
    value_len: jint,
) -> Outcome<IntArray> {
    let key = env.direct(key, at, len, "key")?;
    // The numbers of `RocksDB.KeyMayExist.KeyMayExistEnum`.
    match may_exist(db.0, family, options, key)? {
        MayExist::No => env.int_array(&[0, 0]),
        MayExist::Perhaps => env.int_array(&[1, 0]),
        MayExist::Yes(found) => {
            let len = env.fill_direct(value, value_at, value_len, &found, "value")?;
            env.int_array(&[2, len])
        }
    }
}
