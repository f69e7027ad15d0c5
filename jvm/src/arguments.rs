//! Conversion of arguments and results between the native methods and the functions of the modules.

use jni_sys::{jint, jlong};

use crate::env::{
    ByteArray, ByteBuffer, IntArray, JString, LongArray, Object, ObjectArray, Outcome,
};

/// Conversion of a Java argument to that of a Rust function.
pub trait Argument<J>: Sized {
    /// Converts the argument.
    ///
    /// # Errors
    ///
    /// The argument is invalid.
    fn from_java(argument: J) -> Outcome<Self>;
}

/// Converts an argument.
#[inline]
pub fn arg<J, A: Argument<J>>(argument: J) -> Outcome<A> {
    A::from_java(argument)
}

/// Results of functions: a value, or an [`Outcome`].
pub trait IntoOutcome<T> {
    /// Converts the result.
    fn outcome(self) -> Outcome<T>;
}

impl<T> IntoOutcome<T> for Outcome<T> {
    #[inline]
    fn outcome(self) -> Outcome<T> {
        self
    }
}

macro_rules! same {
    ($($kind:ty),+) => {$(
        impl Argument<$kind> for $kind {
            #[inline]
            fn from_java(argument: $kind) -> Outcome<$kind> {
                Ok(argument)
            }
        }
        impl IntoOutcome<$kind> for $kind {
            #[inline]
            fn outcome(self) -> Outcome<$kind> {
                Ok(self)
            }
        }
    )+};
}

same!(
    jlong,
    jint,
    i8,
    u16,
    f64,
    bool,
    (),
    Object,
    JString,
    ByteArray,
    IntArray,
    LongArray,
    ObjectArray,
    ByteBuffer
);
