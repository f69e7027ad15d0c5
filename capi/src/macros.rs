//! How a function of the interface is written.

/// Defines functions of the C interface. The body may use what the arguments point to; a panic in it
/// ends the process with a message, because nothing unwinds out of a function for C.
macro_rules! c_functions {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $ret:ty)? $body:block)+) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) $(-> $ret)? {
            // SAFETY: the arguments are what `c.h` says of them; the caller promised it.
            #[allow(unused_unsafe, reason = "a body that follows no pointer")]
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
            /// Null is passed over.
            fn $name(handle: *mut $handle) {
                $crate::handle::destroy(handle);
            }
        )+}
    };
}

/// Defines setters of options that are one value: `name(C type) => path.to.field;`.
macro_rules! c_setters {
    ($handle:ty: $($name:ident($type:ty) => $($field:ident).+;)+) => {
        c_functions! {$(
            #[doc = concat!(" Sets `", stringify!($($field).+), "`.")]
            fn $name(opt: *mut $handle, v: $type) {
                let options = of_mut(opt);
                if !$crate::options::scalar::Scalar::set(&mut options.$($field).+, v) {
                    options.refuse(stringify!($name), v.into());
                }
            }
        )+}
    };
}

/// Defines getters of options that are one value: `name(mut) -> C type => path.to.field;`.
macro_rules! c_getters {
    ($handle:ty: $($name:ident($access:tt) -> $type:ty => $($field:ident).+;)+) => {
        c_functions! {$(
            #[doc = concat!(" The value of `", stringify!($($field).+), "`.")]
            fn $name(opt: *$access $handle) -> $type {
                $crate::options::scalar::Scalar::get(&of(opt.cast_const()).$($field).+)
            }
        )+}
    };
}

/// Defines functions of a feature that is not built: `err(errptr)` with a place for an error,
/// `errs(count, values, errors)` with lists of values and errors, `at(options)` without either, whose options
/// are refused by the call that uses them, and `no()` without anything real: it makes an object of the
/// feature (and returns none), or is called with one that cannot exist. `cargo xtask tidy` checks that each
/// function is of its kind, and the stage `capi` calls those of the kind `at`.
macro_rules! c_unbuilt {
    ($what:literal: $($kind:ident($($place:ident),*) fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $ret:ty)?;)+) => {
        c_functions! {$(
            #[doc = concat!(" Not built: ", $what, ".")]
            fn $name($($arg: $type),*) $(-> $ret)? {
                let _ = ($($arg,)*);
                c_unbuilt_body!($kind, stringify!($name), $what, $($place),*);
                // What C calls the empty result: null, zero, false.
                $(std::mem::zeroed::<$ret>())?
            }
        )+}
    };
}

/// What a function does that is not built.
macro_rules! c_unbuilt_body {
    (err, $name:expr, $what:literal, $errptr:ident) => {
        $crate::error::save($errptr, &$crate::error::not_built($name, $what))
    };
    (errs, $name:expr, $what:literal, $count:ident, $values:ident, $errors:ident) => {
        for at in 0..$count {
            $values.add(at).write(std::ptr::null_mut());
            $errors.add(at).write(std::ptr::null_mut());
            $crate::error::save($errors.add(at), &$crate::error::not_built($name, $what));
        }
    };
    (at, $name:expr, $what:literal, $options:ident) => {
        of_mut($options).refuse_with($crate::error::not_built($name, $what))
    };
    (no, $name:expr, $what:literal,) => {{
        static SAID: std::sync::Once = std::sync::Once::new();
        SAID.call_once(|| $crate::database::note_not_built($name, $what));
    }};
}
