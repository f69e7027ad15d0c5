//! Macros that define the functions of the C interface.

/// Defines functions of the C interface. The body may dereference the arguments. A panic in the
/// body aborts the process with a message, because an `extern "C"` function does not unwind.
macro_rules! c_functions {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $ret:ty)? $body:block)+) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) $(-> $ret)? {
            // SAFETY: the caller guarantees that the arguments are valid as `c.h` requires.
            #[allow(unused_unsafe, reason = "some bodies dereference no pointer")]
            unsafe { $body }
        }
    )+};
}

/// Defines the destructors of handles: `name(handle);`.
macro_rules! c_destructors {
    ($($(#[$doc:meta])* $name:ident($handle:ty);)+) => {
        c_functions! {$(
            $(#[$doc])*
            ///
            /// Does nothing for null.
            fn $name(handle: *mut $handle) {
                $crate::handle::destroy(handle);
            }
        )+}
    };
}

/// Defines setters of single-valued options: `name(C type) => path.to.field;`.
macro_rules! c_setters {
    ($handle:ty: $($name:ident($type:ty) => $($field:ident).+;)+) => {
        c_functions! {$(
            #[doc = concat!(" Sets `", stringify!($($field).+), "`.")]
            fn $name(opt: *mut $handle, v: $type) {
                let options = of_mut(opt);
                let option = stringify!($($field).+);
                match $crate::options::scalar::Scalar::set(&mut options.$($field).+, v) {
                    true => options.accept(option),
                    false => options.refuse_number(option, stringify!($name), v as i128),
                }
            }
        )+}
    };
}

/// Defines getters of single-valued options: `name(mut) -> C type => path.to.field;`.
macro_rules! c_getters {
    ($handle:ty: $($name:ident($access:tt) -> $type:ty => $($field:ident).+;)+) => {
        c_functions! {$(
            #[doc = concat!(" The value of `", stringify!($($field).+), "`.")]
            fn $name(opt: *$access $handle) -> $type {
                let options = of(opt.cast_const());
                match options.refused_number(stringify!($($field).+)) {
                    Some(number) => number as $type,
                    None => $crate::options::scalar::Scalar::get(&options.$($field).+),
                }
            }
        )+}
    };
}
