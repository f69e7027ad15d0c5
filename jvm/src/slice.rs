//! `Slice` and `DirectSlice`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use jni_sys::{jint, jlong};

use crate::env::{Buffer, ByteArray, ByteBuffer, Env, JString, Object, Outcome, illegal};
use crate::handle::{New, Ref};

/// The object of a slice: a range of some memory. Clones share the memory and the range, so read options see later
/// changes of the slices that were set in them, and keep them after Java has closed them.
#[derive(Clone)]
pub struct Slice(Arc<Content>);

struct Content {
    memory: Memory,
    /// The offset of the first byte.
    from: AtomicUsize,
    /// The offset after the last byte, at most the length of the memory.
    to: AtomicUsize,
}

enum Memory {
    /// A copy of bytes.
    Owned(Vec<u8>),
    /// A direct buffer. Nothing else keeps it alive: neither Java's `DirectSlice` nor its `ReadOptions` refers to it.
    Direct(Buffer),
}

impl Memory {
    fn len(&self) -> usize {
        match self {
            Memory::Owned(bytes) => bytes.len(),
            Memory::Direct(buffer) => buffer.capacity(),
        }
    }
}

impl Slice {
    /// A slice of all of the memory.
    fn new(memory: Memory) -> Slice {
        Slice(Arc::new(Content {
            from: AtomicUsize::new(0),
            to: AtomicUsize::new(memory.len()),
            memory,
        }))
    }

    /// A slice of a copy of bytes.
    pub fn owned(bytes: Vec<u8>) -> Slice {
        Slice::new(Memory::Owned(bytes))
    }

    /// A slice of a direct buffer. `len` computes its length from the bytes up to the capacity of the buffer.
    fn direct(
        env: Env,
        buffer: ByteBuffer,
        len: impl FnOnce(&[u8]) -> usize,
    ) -> Outcome<New<Slice>> {
        let buffer = env
            .buffer(buffer)
            .ok_or_else(|| illegal("Could not access DirectBuffer"))?;
        let slice = Slice::new(Memory::Direct(buffer));
        let len = len(slice.bytes());
        slice.set_len(len);
        Ok(New(slice))
    }

    /// The offsets of the first byte and after the last one, in order even if threads change both concurrently.
    fn range(&self) -> (usize, usize) {
        // Relaxed: both are clamped to the memory; a concurrent change is seen before or after.
        let to = self.0.to.load(Relaxed);
        (self.0.from.load(Relaxed).min(to), to)
    }

    /// The bytes. Valid until the native method returns: then Java may change a direct buffer (J4).
    pub fn bytes(&self) -> &[u8] {
        let (from, to) = self.range();
        match &self.0.memory {
            Memory::Owned(bytes) => &bytes[from..to],
            Memory::Direct(buffer) => buffer.bytes(from, to),
        }
    }

    /// Sets the length, up to the end of the memory.
    fn set_len(&self, len: usize) {
        let (from, _) = self.range();
        let end = self.0.memory.len();
        self.0.to.store(from.saturating_add(len).min(end), Relaxed);
    }

    /// Removes leading bytes.
    fn remove_prefix(&self, len: usize) {
        let (from, to) = self.range();
        self.0.from.store(from.saturating_add(len).min(to), Relaxed);
    }

    /// Makes the slice empty; a later `set_len` has no effect.
    fn clear(&self) {
        let end = self.0.memory.len();
        self.0.from.store(end, Relaxed);
        self.0.to.store(end, Relaxed);
    }
}

pub fn from_string(env: Env, text: JString) -> Outcome<New<Slice>> {
    Ok(New(Slice::owned(env.modified_utf8(text)?)))
}

pub fn from_array(env: Env, bytes: ByteArray) -> Outcome<New<Slice>> {
    Ok(New(Slice::owned(env.all_bytes(bytes)?.to_vec())))
}

pub fn from_array_at(env: Env, bytes: ByteArray, offset: jint) -> Outcome<New<Slice>> {
    // A length that does not fit is longer than any array, which is an error.
    let len = env.len(Object(bytes.0))?.saturating_sub(offset);
    Ok(New(Slice::owned(env.bytes(bytes, offset, len)?.to_vec())))
}

pub fn from_buffer(env: Env, buffer: ByteBuffer) -> Outcome<New<Slice>> {
    // As in RocksJava, the content ends before the first zero.
    Slice::direct(env, buffer, |bytes| {
        let end = bytes.iter().position(|byte| *byte == 0);
        end.unwrap_or(bytes.len())
    })
}

pub fn from_buffer_of(env: Env, buffer: ByteBuffer, len: jint) -> Outcome<New<Slice>> {
    Slice::direct(env, buffer, |bytes| {
        usize::try_from(len).unwrap_or(bytes.len())
    })
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

pub fn clear(_env: Env, slice: Ref<Slice>, _internal: bool, _offset: jlong) {
    slice.clear();
}

pub fn remove_prefix(_env: Env, slice: Ref<Slice>, len: jint) {
    slice.remove_prefix(usize::try_from(len).unwrap_or(0));
}

pub fn set_length(_env: Env, slice: Ref<Slice>, len: jint) {
    slice.set_len(usize::try_from(len).unwrap_or(0));
}

/// The memory of a copy belongs to the slice.
pub fn free_buffer(_env: Env, _slice: jlong, _offset: jlong) {}

pub fn destroy(env: Env, handle: jlong) -> Outcome<()> {
    crate::handle::destroy::<Slice>(env, handle)
}
