//! The JNI environment of a thread: arrays, strings, objects, exceptions.
//!
//! This module and `handle` have the unsafe code of the library. Its invariants:
//!
//! J1. An [`Env`] is the argument of a native method, or belongs to the attached calling thread ([`attached`]). It is
//!     not sent to another thread.
//! J2. References that a native method receives are null or valid until it returns, and have the types of its
//!     descriptor (`build.rs` derives the parameters from it).
//! J3. No function of the environment except those that the specification allows is called while an exception is
//!     pending: each call that may throw is followed by [`Env::check`].
//! J4. A program does not write to a direct buffer while a native method uses it, neither in Java nor through another
//!     native method. A native method does not refer to the content of a buffer after it returns.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::OnceLock;

use cairn_types::{Code, Error};
use jni_sys::{
    JNIEnv, JNINativeInterface_, JavaVM, jclass, jint, jlong, jmethodID, jobject, jsize, jvalue,
};

/// The environment of the calling thread.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Env(*mut JNIEnv);

macro_rules! references {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        #[repr(transparent)]
        pub struct $name(pub jobject);

        impl Default for $name {
            fn default() -> $name {
                $name(null_mut())
            }
        }

    )+};
}

/// Defines the test for null of references that may be null.
macro_rules! nullable {
    ($($name:ident),+) => {$(
        impl $name {
            /// True for a null reference.
            pub fn is_null(self) -> bool {
                self.0.is_null()
            }
        }
    )+};
}

nullable!(Object, JString, ByteArray, LongArray, ByteBuffer);

references! {
    /// An object of any class.
    Object;
    /// A `String`.
    JString;
    /// A `byte[]`.
    ByteArray;
    /// An `int[]`.
    IntArray;
    /// A `long[]`.
    LongArray;
    /// An array of objects.
    ObjectArray;
    /// A `java.nio.ByteBuffer`.
    ByteBuffer;
}

/// A failed native method.
pub enum Fail {
    /// An error, thrown as `RocksDBException`.
    Error(Error),
    /// An exception of the given class with a message.
    Java(&'static str, String),
    /// An exception that is pending already.
    Pending,
}

impl From<Error> for Fail {
    fn from(error: Error) -> Fail {
        Fail::Error(error)
    }
}

/// The result of a native method.
pub type Outcome<T> = Result<T, Fail>;

/// The failure of a method that is not implemented.
#[cold]
pub fn not_built(method: &str) -> Fail {
    Fail::Error(Error::not_supported(format!("Not implemented: {method}")))
}

/// The failure of an invalid argument that RocksJava reports as `IllegalArgumentException`.
#[cold]
pub fn illegal(message: &str) -> Fail {
    Fail::Java("java/lang/IllegalArgumentException", message.to_owned())
}

/// Runs the body of a native method and throws its failure.
#[inline]
pub fn call<T: Default>(env: Env, _this: Object, body: impl FnOnce(Env) -> Outcome<T>) -> T {
    match catch_unwind(AssertUnwindSafe(|| body(env))) {
        Ok(Ok(value)) => value,
        Ok(Err(fail)) => {
            env.throw(&fail);
            T::default()
        }
        Err(panic) => {
            env.throw(&failure(&*panic));
            T::default()
        }
    }
}

/// The failure of a method that panicked: the error of a callback, or a defect.
#[cold]
fn failure(panic: &(dyn Any + Send)) -> Fail {
    if let Some(error) = panic.downcast_ref::<Error>() {
        return Fail::Error(error.clone());
    }
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    let text = text.unwrap_or("no message");
    Fail::Error(Error::aborted(format!("internal error: {text}")))
}

/// Bytes copied from an array: small ones on the stack.
pub struct Bytes {
    len: usize,
    inline: [u8; Bytes::INLINE],
    heap: Vec<u8>,
}

impl Bytes {
    const INLINE: usize = 128;
}

impl std::ops::Deref for Bytes {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match self.len <= Bytes::INLINE {
            true => &self.inline[..self.len],
            false => &self.heap,
        }
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

static VM: OnceLock<usize> = OnceLock::new();

/// Calls a function of the JNI table; returns its result.
macro_rules! jni {
    ($env:expr, $function:ident $(, $argument:expr)*) => {{
        let env: Env = $env;
        // SAFETY: the environment is that of the thread (J1), and the references are valid (J2).
        unsafe { (env.table().$function)(env.0 $(, $argument)*) }
    }};
}

/// Methods that call a method of an object.
macro_rules! calls {
    ($(#[doc = $doc:literal] $name:ident: $function:ident -> $result:ty;)+) => {$(
        #[doc = $doc]
        pub fn $name(self, object: Object, method: Method, arguments: &[jvalue]) -> Outcome<$result> {
            let result = jni!(self, $function, object.0, method.0, arguments.as_ptr());
            self.checked(result)
        }
    )+};
}

#[unsafe(no_mangle)]
extern "system" fn JNI_OnLoad(vm: *mut JavaVM, _reserved: *mut c_void) -> jint {
    VM.get_or_init(|| vm as usize);
    // An exception is thrown by `System.load`.
    attached(|env| {
        if let Err(fail) = crate::versions::check(env) {
            env.throw(&fail);
        }
    });
    jni_sys::JNI_VERSION_1_8
}

thread_local! {
    /// True for a thread that this library attached.
    static IS_OURS: Cell<bool> = const { Cell::new(false) };
    /// The last exception of a callback on this thread of Java, and the text of the error that it became.
    static THROWN: RefCell<Option<Thrown>> = const { RefCell::new(None) };
}

/// An exception as a global reference, which is not released when its thread ends.
struct Thrown {
    exception: jobject,
    text: String,
}

/// Runs `work` with the environment of the calling thread, which is attached to the virtual machine as a daemon on its
/// first call and stays so until it ends. Returns `None` without a virtual machine.
pub fn attached<T>(work: impl FnOnce(Env) -> T) -> Option<T> {
    let vm = *VM.get()? as *mut JavaVM;
    let mut env: *mut c_void = null_mut();
    // SAFETY: the virtual machine passed the pointer to `JNI_OnLoad` and lives as long as the process.
    let found = unsafe { ((*(*vm)).v1_2.GetEnv)(vm, &mut env, jni_sys::JNI_VERSION_1_8) };
    if found != jni_sys::JNI_OK {
        // SAFETY: as above; null arguments select a name and the main thread group.
        let done = unsafe { ((*(*vm)).v1_4.AttachCurrentThreadAsDaemon)(vm, &mut env, null_mut()) };
        if done != jni_sys::JNI_OK {
            return None;
        }
        IS_OURS.set(true);
        thread_local!(static LEAVING: Detach = const { Detach });
        // A thread that is ending already detaches with the virtual machine.
        let _registered = LEAVING.try_with(|_| ());
    }
    Some(work(Env(env.cast())))
}

/// Detaches the thread from the virtual machine when it ends.
struct Detach;

impl Drop for Detach {
    fn drop(&mut self) {
        if let Some(vm) = VM.get() {
            let vm = *vm as *mut JavaVM;
            // SAFETY: as in `attached`; no frame of Java is on the stack of a thread that ends.
            unsafe { ((*(*vm)).v1_2.DetachCurrentThread)(vm) };
        }
    }
}

impl Env {
    #[inline]
    fn table(self) -> &'static jni_sys::JNINativeInterface__1_6 {
        // SAFETY: the table of the environment (J1) is constant.
        let table: &'static JNINativeInterface_ = unsafe { &**self.0 };
        // SAFETY: every supported virtual machine has version 1.6 or later.
        unsafe { &table.v1_6 }
    }

    /// Fails if an exception is pending.
    #[inline]
    pub fn check(self) -> Outcome<()> {
        match jni!(self, ExceptionCheck) {
            false => Ok(()),
            true => Err(Fail::Pending),
        }
    }

    #[inline]
    fn checked<T>(self, value: T) -> Outcome<T> {
        self.check().map(|()| value)
    }

    /// The class `name`. In a callback, RocksJava's classes are those of its loader.
    pub fn class(self, name: &str) -> Outcome<jclass> {
        if let Some(loader) = crate::callee::loader().filter(|_| name.starts_with("org/rocksdb/")) {
            let name = self.string(&name.replace('/', "."))?;
            let arguments = [jvalue { l: name.0 }];
            let class = self.call_object(loader.object, loader.load, &arguments)?;
            self.forget(Object(name.0));
            return Ok(class.0);
        }
        let name = CString::new(name).map_err(|_| Fail::Pending)?;
        let class = jni!(self, FindClass, name.as_ptr());
        self.checked(class)
    }

    /// A method of a class.
    pub fn method(self, class: jclass, name: &str, descriptor: &str) -> Outcome<Method> {
        let (name, descriptor) = (terminated(name), terminated(descriptor));
        let method = jni!(self, GetMethodID, class, name.as_ptr(), descriptor.as_ptr());
        self.checked(Method(method))
    }

    /// A method of the class of `object`.
    pub fn method_of(self, object: Object, name: &str, descriptor: &str) -> Outcome<Method> {
        let class = jni!(self, GetObjectClass, object.0);
        let method = self.method(class, name, descriptor);
        self.forget(Object(class));
        method
    }

    /// True if the class has the method, static or not.
    pub fn has_method(self, class: jclass, name: &str, descriptor: &str) -> bool {
        let found = self.method(class, name, descriptor);
        let found = found.or_else(|_| {
            jni!(self, ExceptionClear);
            self.static_method(class, name, descriptor)
        });
        if found.is_err() {
            jni!(self, ExceptionClear);
        }
        found.is_ok()
    }

    /// Creates an object.
    pub fn create(self, class: &str, descriptor: &str, arguments: &[jvalue]) -> Outcome<Object> {
        let class = self.class(class)?;
        let constructor = self.method(class, "<init>", descriptor)?;
        let object = jni!(self, NewObjectA, class, constructor.0, arguments.as_ptr());
        self.forget(Object(class));
        self.checked(Object(object))
    }

    /// Calls a method that returns an object.
    pub fn call_object(
        self,
        object: Object,
        method: Method,
        arguments: &[jvalue],
    ) -> Outcome<Object> {
        let result = jni!(
            self,
            CallObjectMethodA,
            object.0,
            method.0,
            arguments.as_ptr()
        );
        self.checked(Object(result))
    }

    /// Calls a method without a result.
    pub fn call_void(self, object: Object, method: Method, arguments: &[jvalue]) -> Outcome<()> {
        jni!(
            self,
            CallVoidMethodA,
            object.0,
            method.0,
            arguments.as_ptr()
        );
        self.check()
    }

    calls! {
        /// Calls a method that returns an int.
        call_int: CallIntMethodA -> jint;
        /// Calls a method that returns a long.
        call_long: CallLongMethodA -> jlong;
        /// Calls a method that returns a boolean.
        call_bool: CallBooleanMethodA -> bool;
        /// Calls a method that returns a short.
        call_short: CallShortMethodA -> i16;
        /// Calls a method that returns a byte.
        call_byte: CallByteMethodA -> i8;
    }

    /// A static method of a class.
    pub fn static_method(self, class: jclass, name: &str, descriptor: &str) -> Outcome<Method> {
        let (name, descriptor) = (terminated(name), terminated(descriptor));
        let method = jni!(
            self,
            GetStaticMethodID,
            class,
            name.as_ptr(),
            descriptor.as_ptr()
        );
        self.checked(Method(method))
    }

    /// Calls a static method that returns an object.
    pub fn call_static_object(
        self,
        class: Object,
        method: Method,
        arguments: &[jvalue],
    ) -> Outcome<Object> {
        let result = jni!(
            self,
            CallStaticObjectMethodA,
            class.0,
            method.0,
            arguments.as_ptr()
        );
        self.checked(Object(result))
    }

    /// Calls a static method that returns an int.
    pub fn call_static_int(
        self,
        class: Object,
        method: Method,
        arguments: &[jvalue],
    ) -> Outcome<jint> {
        let result = jni!(
            self,
            CallStaticIntMethodA,
            class.0,
            method.0,
            arguments.as_ptr()
        );
        self.checked(result)
    }

    /// A static field of a class: a constant of an enumeration.
    pub fn constant(self, class: &str, name: &str, descriptor: &str) -> Outcome<Object> {
        let class = self.class(class)?;
        let (name, descriptor) = (terminated(name), terminated(descriptor));
        let field = jni!(
            self,
            GetStaticFieldID,
            class,
            name.as_ptr(),
            descriptor.as_ptr()
        );
        self.check()?;
        let value = jni!(self, GetStaticObjectField, class, field);
        self.checked(Object(value))
    }

    /// Releases a local reference.
    #[inline]
    pub fn forget(self, object: Object) {
        jni!(self, DeleteLocalRef, object.0);
    }

    /// A local reference to the same object.
    pub fn local(self, object: Object) -> Object {
        Object(jni!(self, NewLocalRef, object.0))
    }

    /// A global reference.
    pub fn global(self, object: Object) -> Global {
        Global(jni!(self, NewGlobalRef, object.0) as usize)
    }

    /// Clears the pending exception and returns the text of its error. A thread of Java keeps the exception, for the
    /// native method that it is in.
    pub fn keep_exception(self, name: &str) -> String {
        let thrown = jni!(self, ExceptionOccurred);
        let text = format!("{name}: {}", self.take_exception());
        if !thrown.is_null() && !IS_OURS.get() {
            let exception = jni!(self, NewGlobalRef, thrown);
            let text = text.clone();
            let before = THROWN.replace(Some(Thrown { exception, text }));
            if let Some(before) = before {
                jni!(self, DeleteGlobalRef, before.exception);
            }
        }
        text
    }

    /// Throws the exception of a callback that became `error`; returns false if there is none.
    fn rethrow(self, error: &Error) -> bool {
        let thrown = THROWN.take();
        let Some(thrown) = thrown else { return false };
        let is_cause = error.text().contains(&thrown.text);
        if is_cause {
            jni!(self, Throw, thrown.exception);
        }
        jni!(self, DeleteGlobalRef, thrown.exception);
        is_cause
    }

    /// Clears the pending exception and returns its text.
    pub fn take_exception(self) -> String {
        let thrown = jni!(self, ExceptionOccurred);
        jni!(self, ExceptionClear);
        if thrown.is_null() {
            return "no exception".to_owned();
        }
        let text = self.method_of(Object(thrown), "toString", "()Ljava/lang/String;");
        let text = text.and_then(|method| self.call_object(Object(thrown), method, &[]));
        let text = text.and_then(|text| self.text(JString(text.0)));
        text.unwrap_or_else(|_| {
            jni!(self, ExceptionClear);
            "an exception without a text".to_owned()
        })
    }

    /// Throws a failure, unless an exception is pending.
    #[cold]
    #[inline(never)]
    pub fn throw(self, fail: &Fail) {
        let thrown = match fail {
            Fail::Pending => return,
            Fail::Java(class, message) => {
                let Ok(class) = self.class(class) else { return };
                let message = terminated(message);
                jni!(self, ThrowNew, class, message.as_ptr());
                return;
            }
            Fail::Error(error) if self.rethrow(error) => return,
            Fail::Error(error) => self.exception(error),
        };
        if let Ok(exception) = thrown {
            self.raise(exception);
        }
    }

    /// Throws `exception`.
    pub fn raise(self, exception: Object) -> Fail {
        jni!(self, Throw, exception.0);
        Fail::Pending
    }

    /// A `RocksDBException` with the status of `error`.
    pub fn exception(self, error: &Error) -> Outcome<Object> {
        let status = self.status(Some(error))?;
        self.create(
            "org/rocksdb/RocksDBException",
            "(Lorg/rocksdb/Status;)V",
            &[jvalue { l: status.0 }],
        )
    }

    /// A `Status`; that of success without an error.
    pub fn status(self, error: Option<&Error>) -> Outcome<Object> {
        let code = error.map_or(0, |error| java_code(error.code()));
        let subcode = error.map_or(0, |error| error.subcode() as i8);
        // RocksJava knows the subcodes up to the one below; the others are "undefined".
        let subcode = if subcode > 7 { 0x7f } else { subcode };
        let state = match error {
            Some(error) if !error.text().is_empty() => self.string(error.text())?,
            _ => JString::default(),
        };
        self.create(
            "org/rocksdb/Status",
            "(BBLjava/lang/String;)V",
            &[
                jvalue { b: code },
                jvalue { b: subcode },
                jvalue { l: state.0 },
            ],
        )
    }

    /// A new string.
    pub fn string(self, text: &str) -> Outcome<JString> {
        let units: Vec<u16> = text.encode_utf16().collect();
        self.string_of_units(&units)
    }

    /// A string of units of UTF-16.
    pub fn string_of_units(self, units: &[u16]) -> Outcome<JString> {
        let len = size(units.len())?;
        let string = jni!(self, NewString, units.as_ptr(), len);
        self.checked(JString(string))
    }

    /// The characters of a string.
    pub fn text(self, string: JString) -> Outcome<String> {
        Ok(String::from_utf16_lossy(&self.units(string)?))
    }

    /// The characters of a string in UTF-16.
    pub fn units(self, string: JString) -> Outcome<Vec<u16>> {
        if string.is_null() {
            return Err(null_pointer());
        }
        let len = jni!(self, GetStringLength, string.0);
        let mut units = vec![0u16; usize::try_from(len).unwrap_or(0)];
        jni!(self, GetStringRegion, string.0, 0, len, units.as_mut_ptr());
        self.check()?;
        Ok(units)
    }

    /// The bytes `[offset, offset + len)` of an array.
    #[inline]
    pub fn bytes(self, array: ByteArray, offset: jint, len: jint) -> Outcome<Bytes> {
        if array.is_null() {
            return Err(null_pointer());
        }
        let wanted = usize::try_from(len).map_err(|_| illegal("a length is negative"))?;
        let mut bytes = Bytes {
            len: wanted,
            inline: [0; Bytes::INLINE],
            heap: Vec::new(),
        };
        let to = match wanted <= Bytes::INLINE {
            true => bytes.inline.as_mut_ptr(),
            false => {
                // An impossible length fails before memory is allocated for it.
                if jni!(self, GetArrayLength, array.0) < len {
                    return Err(Fail::Java(
                        "java/lang/ArrayIndexOutOfBoundsException",
                        format!("length {len} of an array that is shorter"),
                    ));
                }
                bytes.heap = vec![0; wanted];
                bytes.heap.as_mut_ptr()
            }
        };
        jni!(self, GetByteArrayRegion, array.0, offset, len, to.cast());
        self.checked(bytes)
    }

    /// All bytes of an array.
    pub fn all_bytes(self, array: ByteArray) -> Outcome<Bytes> {
        let len = self.len(Object(array.0))?;
        self.bytes(array, 0, len)
    }

    /// The length of an array.
    pub fn len(self, array: Object) -> Outcome<jint> {
        match array.is_null() {
            true => Err(null_pointer()),
            false => Ok(jni!(self, GetArrayLength, array.0)),
        }
    }

    /// A new `byte[]`.
    #[inline]
    pub fn byte_array(self, bytes: &[u8]) -> Outcome<ByteArray> {
        let Ok(len) = size(bytes.len()) else {
            return Err(Error::invalid_argument("Requested array size exceeds VM limit").into());
        };
        let array = jni!(self, NewByteArray, len);
        if array.is_null() {
            return Err(Fail::Pending);
        }
        jni!(
            self,
            SetByteArrayRegion,
            array,
            0,
            len,
            bytes.as_ptr().cast()
        );
        Ok(ByteArray(array))
    }

    /// A new `byte[]`, or null.
    #[inline]
    pub fn maybe_byte_array(self, bytes: Option<&[u8]>) -> Outcome<ByteArray> {
        bytes.map_or(Ok(ByteArray::default()), |bytes| self.byte_array(bytes))
    }

    /// Copies as much of `bytes` as fits to `[offset, offset + room)` of an array; returns the whole length.
    #[inline]
    pub fn fill_array(
        self,
        array: ByteArray,
        offset: jint,
        room: jint,
        bytes: &[u8],
    ) -> Outcome<jint> {
        if array.is_null() {
            return Err(null_pointer());
        }
        let len = size(bytes.len())?;
        jni!(
            self,
            SetByteArrayRegion,
            array.0,
            offset,
            len.min(room),
            bytes.as_ptr().cast()
        );
        self.checked(len)
    }

    /// The bytes `[offset, offset + len)` of a direct buffer. The caller uses them only until the method returns, as
    /// long as the buffer lives.
    #[inline]
    pub fn direct<'a>(
        self,
        buffer: ByteBuffer,
        offset: jint,
        len: jint,
        what: &str,
    ) -> Outcome<&'a [u8]> {
        let (data, len) = self.region(buffer, offset, len, what)?;
        // SAFETY: within the buffer, which the argument keeps alive (J2) and nothing changes until the method returns
        // (J4).
        Ok(unsafe { std::slice::from_raw_parts(data, len) })
    }

    #[inline]
    fn region(
        self,
        buffer: ByteBuffer,
        offset: jint,
        len: jint,
        what: &str,
    ) -> Outcome<(*mut u8, usize)> {
        let Some((data, capacity)) = self.memory(buffer) else {
            return Err(Error::invalid_argument(format!(
                "Invalid {what} argument (argument is not a valid direct ByteBuffer)"
            ))
            .into());
        };
        match (usize::try_from(offset), usize::try_from(len)) {
            (Ok(from), Ok(len)) if from + len <= capacity => {
                // SAFETY: within the capacity.
                Ok((unsafe { data.add(from) }, len))
            }
            _ => Err(Error::invalid_argument(format!(
                "Invalid {what} argument. Capacity is less than requested region (offset + length)."
            ))
            .into()),
        }
    }

    /// Copies as much of `bytes` as fits to a direct buffer; returns the whole length.
    #[inline]
    pub fn fill_direct(
        self,
        buffer: ByteBuffer,
        offset: jint,
        room: jint,
        bytes: &[u8],
        what: &str,
    ) -> Outcome<jint> {
        let (data, room) = self.region(buffer, offset, room, what)?;
        let copied = room.min(bytes.len());
        // SAFETY: the region has `room` bytes, which nothing else uses until the method returns (J4), and the source is
        // memory of this library.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), data, copied) };
        size(bytes.len())
    }

    /// The elements of an `int[]`.
    pub fn ints(self, array: IntArray) -> Outcome<Vec<jint>> {
        let len = self.len(Object(array.0))?;
        let mut ints = vec![0; usize::try_from(len).unwrap_or(0)];
        jni!(self, GetIntArrayRegion, array.0, 0, len, ints.as_mut_ptr());
        self.checked(ints)
    }

    /// The elements of a `long[]`.
    pub fn longs(self, array: LongArray) -> Outcome<Vec<jlong>> {
        let len = self.len(Object(array.0))?;
        let mut longs = vec![0; usize::try_from(len).unwrap_or(0)];
        jni!(
            self,
            GetLongArrayRegion,
            array.0,
            0,
            len,
            longs.as_mut_ptr()
        );
        self.checked(longs)
    }

    /// Stores elements of an `int[]`.
    pub fn set_ints(self, array: IntArray, ints: &[jint]) -> Outcome<()> {
        jni!(
            self,
            SetIntArrayRegion,
            array.0,
            0,
            size(ints.len())?,
            ints.as_ptr()
        );
        self.check()
    }

    /// Stores elements of a `long[]`.
    pub fn set_longs(self, array: LongArray, longs: &[jlong]) -> Outcome<()> {
        jni!(
            self,
            SetLongArrayRegion,
            array.0,
            0,
            size(longs.len())?,
            longs.as_ptr()
        );
        self.check()
    }

    /// A direct buffer; `None` for null and for a buffer of another kind.
    pub fn buffer(self, buffer: ByteBuffer) -> Option<Buffer> {
        self.memory(buffer).map(|(data, capacity)| Buffer {
            data,
            capacity,
            _object: self.global(Object(buffer.0)),
        })
    }

    /// The capacity of a direct buffer; 0 for null and for a buffer of another kind.
    pub fn capacity(self, buffer: ByteBuffer) -> usize {
        self.memory(buffer).map_or(0, |(_, capacity)| capacity)
    }

    /// The memory of a direct buffer; `None` for null and for a buffer of another kind.
    #[inline]
    fn memory(self, buffer: ByteBuffer) -> Option<(*mut u8, usize)> {
        if buffer.is_null() {
            return None;
        }
        let data = jni!(self, GetDirectBufferAddress, buffer.0);
        if data.is_null() {
            return None;
        }
        let capacity = jni!(self, GetDirectBufferCapacity, buffer.0);
        Some((data.cast(), usize::try_from(capacity).unwrap_or(0)))
    }

    /// A new `int[]`.
    pub fn int_array(self, ints: &[jint]) -> Outcome<IntArray> {
        let array = jni!(self, NewIntArray, size(ints.len())?);
        if array.is_null() {
            return Err(Fail::Pending);
        }
        self.set_ints(IntArray(array), ints)?;
        Ok(IntArray(array))
    }

    /// A new `long[]`.
    pub fn long_array(self, longs: &[jlong]) -> Outcome<LongArray> {
        let len = size(longs.len())?;
        let array = jni!(self, NewLongArray, len);
        if array.is_null() {
            return Err(Fail::Pending);
        }
        jni!(self, SetLongArrayRegion, array, 0, len, longs.as_ptr());
        self.checked(LongArray(array))
    }

    /// A new array of `len` null references.
    pub fn object_array(self, class: &str, len: usize) -> Outcome<ObjectArray> {
        let class = self.class(class)?;
        let array = jni!(self, NewObjectArray, size(len)?, class, null_mut());
        self.forget(Object(class));
        self.checked(ObjectArray(array))
    }

    /// An element of an array.
    pub fn element(self, array: ObjectArray, at: usize) -> Outcome<Object> {
        let element = jni!(self, GetObjectArrayElement, array.0, size(at)?);
        self.checked(Object(element))
    }

    /// Stores an element and releases the local reference to it.
    pub fn set_element(self, array: ObjectArray, at: usize, element: Object) -> Outcome<()> {
        jni!(self, SetObjectArrayElement, array.0, size(at)?, element.0);
        self.forget(element);
        self.check()
    }

    /// A direct buffer over `bytes`, read-only by convention, valid as long as they are.
    pub fn direct_buffer(self, data: *mut u8, len: usize) -> Outcome<Object> {
        let buffer = jni!(self, NewDirectByteBuffer, data.cast(), len as jlong);
        self.checked(Object(buffer))
    }

    /// Runs `work`, during which an exception may be pending, and then releases the local references that it created.
    pub fn frame_of_exception(self, work: impl FnOnce()) {
        // Without memory for a frame, the references last until the thread returns to Java.
        let is_pushed = jni!(self, PushLocalFrame, 16) == 0;
        work();
        if is_pushed {
            jni!(self, PopLocalFrame, null_mut());
        }
    }

    /// Runs `work` and then releases the local references that it created.
    pub fn frame<T>(self, work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        if jni!(self, PushLocalFrame, 64) != 0 {
            return Err(Fail::Pending);
        }
        let result = work();
        jni!(self, PopLocalFrame, null_mut());
        result
    }
}

/// A method of a class, valid as long as the class is loaded.
#[derive(Clone, Copy)]
pub struct Method(jmethodID);

// SAFETY: the id of a method may be used by every thread.
unsafe impl Send for Method {}
// SAFETY: as above.
unsafe impl Sync for Method {}

/// A global reference to an object.
pub struct Global(usize);

impl Global {
    /// The object.
    pub fn object(&self) -> Object {
        Object(self.0 as jobject)
    }
}

impl Drop for Global {
    fn drop(&mut self) {
        attached(|env| jni!(env, DeleteGlobalRef, self.0 as jobject));
    }
}

/// A direct `ByteBuffer`, kept alive by a global reference.
pub struct Buffer {
    data: *mut u8,
    capacity: usize,
    _object: Global,
}

// SAFETY: every thread may use the memory of a direct buffer, and J4 is the rule for its content.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// The capacity in bytes.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The bytes `[from, to)`, clamped to the capacity. Valid until the native method returns (J4).
    pub fn bytes(&self, from: usize, to: usize) -> &[u8] {
        let to = to.min(self.capacity);
        let from = from.min(to);
        // SAFETY: within the buffer, which the reference keeps alive and nothing changes until the method returns (J4).
        unsafe { std::slice::from_raw_parts(self.data.add(from), to - from) }
    }
}

#[cold]
fn null_pointer() -> Fail {
    Fail::Java(
        "java/lang/NullPointerException",
        "a reference is null".to_owned(),
    )
}

/// A length as a Java int.
#[inline]
pub fn size(len: usize) -> Outcome<jsize> {
    jsize::try_from(len)
        .map_err(|_| Error::invalid_argument("an array of Java is limited to 2 GiB").into())
}

fn terminated(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).expect("zero bytes were replaced")
}

/// The number of a code in `org.rocksdb.Status.Code`.
fn java_code(code: Code) -> i8 {
    match code {
        Code::ColumnFamilyDropped => 0xe,
        // Java has no such code.
        Code::CompactionTooLarge => 0x7f,
        code => code as i8,
    }
}
