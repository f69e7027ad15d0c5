//! `Slice` and `DirectSlice`.

use jni_sys::{jint, jlong};

use crate::env::{ByteArray, ByteBuffer, Env, JString, Object, Outcome, illegal};
use crate::handle::{Mut, New, Ref};

/// The object of a slice.
pub enum Slice {
    /// A copy of bytes, and the number of leading ones that have been removed.
    Owned(Vec<u8>, usize),
    /// The memory of a direct buffer, which the Java object keeps alive.
    Direct(*mut u8, usize),
}

impl Slice {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Slice::Owned(bytes, from) => &bytes[*from..],
            // SAFETY: the buffer has this many bytes and lives as long as the Java object of the slice.
            Slice::Direct(data, len) => unsafe { std::slice::from_raw_parts(*data, *len) },
        }
    }
}

pub fn from_string(env: Env, text: JString) -> Outcome<New<Slice>> {
    Ok(New(Slice::Owned(env.modified_utf8(text)?, 0)))
}

pub fn from_array(env: Env, bytes: ByteArray) -> Outcome<New<Slice>> {
    Ok(New(Slice::Owned(env.all_bytes(bytes)?.to_vec(), 0)))
}

pub fn from_array_at(env: Env, bytes: ByteArray, offset: jint) -> Outcome<New<Slice>> {
    let len = env.len(Object(bytes.0))?;
    Ok(New(Slice::Owned(
        env.bytes(bytes, offset, len - offset)?.to_vec(),
        0,
    )))
}

pub fn from_buffer(env: Env, buffer: ByteBuffer) -> Outcome<New<Slice>> {
    let (data, capacity) = env
        .buffer(buffer)
        .ok_or_else(|| illegal("Could not access DirectBuffer"))?;
    // As in RocksJava, the content ends before the first zero.
    let whole = Slice::Direct(data, capacity);
    let len = whole
        .bytes()
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(capacity);
    Ok(New(Slice::Direct(data, len)))
}

pub fn from_buffer_of(env: Env, buffer: ByteBuffer, len: jint) -> Outcome<New<Slice>> {
    let (data, capacity) = env
        .buffer(buffer)
        .ok_or_else(|| illegal("Could not access DirectBuffer"))?;
    Ok(New(Slice::Direct(
        data,
        usize::try_from(len).unwrap_or(capacity).min(capacity),
    )))
}

pub fn size(_env: Env, slice: Ref<Slice>) -> jint {
    slice.bytes().len() as jint
}

pub fn is_empty(_env: Env, slice: Ref<Slice>) -> bool {
    slice.bytes().is_empty()
}

pub fn to_string(env: Env, slice: Ref<Slice>, hex: bool) -> Outcome<JString> {
    match hex {
        false => env.string_of_bytes(slice.bytes()),
        true => env.string(
            &slice
                .bytes()
                .iter()
                .map(|byte| format!("{byte:02X}"))
                .collect::<String>(),
        ),
    }
}

pub fn compare(_env: Env, a: Ref<Slice>, b: Ref<Slice>) -> jint {
    a.bytes().cmp(b.bytes()) as jint
}

pub fn starts_with(_env: Env, slice: Ref<Slice>, prefix: Ref<Slice>) -> bool {
    slice.bytes().starts_with(prefix.bytes())
}

pub fn data(env: Env, slice: Ref<Slice>) -> Outcome<ByteArray> {
    env.byte_array(slice.bytes())
}

pub fn direct_data(env: Env, slice: Ref<Slice>) -> Outcome<ByteBuffer> {
    let bytes = slice.bytes();
    Ok(ByteBuffer(
        env.direct_buffer(bytes.as_ptr().cast_mut(), bytes.len())?.0,
    ))
}

pub fn byte_at(_env: Env, slice: Ref<Slice>, at: jint) -> i8 {
    let at = usize::try_from(at).unwrap_or(usize::MAX);
    slice.bytes().get(at).map_or(0, |byte| *byte as i8)
}

pub fn clear(_env: Env, slice: Mut<Slice>, _internal: bool, _offset: jlong) {
    *slice.0 = Slice::Owned(Vec::new(), 0);
}

pub fn remove_prefix(_env: Env, slice: Mut<Slice>, len: jint) {
    let len = usize::try_from(len).unwrap_or(0).min(slice.bytes().len());
    match slice.0 {
        Slice::Owned(_, from) => *from += len,
        Slice::Direct(data, left) => {
            *data = data.wrapping_add(len);
            *left -= len;
        }
    }
}

pub fn set_length(_env: Env, slice: Mut<Slice>, len: jint) {
    let len = usize::try_from(len).unwrap_or(0).min(slice.bytes().len());
    match slice.0 {
        Slice::Owned(bytes, from) => bytes.truncate(*from + len),
        Slice::Direct(_, left) => *left = len,
    }
}

/// The memory of a copy belongs to the slice.
pub fn free_buffer(_env: Env, _slice: jlong, _offset: jlong) {}

pub fn destroy(env: Env, handle: jlong) -> Outcome<()> {
    crate::handle::destroy::<Slice>(env, handle)
}
