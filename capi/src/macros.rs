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
                if !$crate::options::scalar::Scalar::set(&mut options.$($field).+, v) {
                    options.refuse(stringify!($name), v.into());
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
                $crate::options::scalar::Scalar::get(&of(opt.cast_const()).$($field).+)
            }
        )+}
    };
}

/// Defines functions of an unsupported feature: `err(errptr)` returns an error, `errs(count,
/// values, errors)` returns a list of errors, `at(options)` sets an option that makes later calls
/// fail, and `no()` creates an object of the feature (and returns null) or takes one, which cannot
/// exist. `cargo xtask tidy` checks the kind of each function, and the `capi` stage calls those of
/// kind `at`.
macro_rules! c_unbuilt {
    ($what:literal: $($kind:ident($($place:ident),*) fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $ret:ty)?;)+) => {
        c_functions! {$(
            #[doc = concat!(" Not supported: ", $what, ".")]
            fn $name($($arg: $type),*) $(-> $ret)? {
                let _ = ($($arg,)*);
                c_unbuilt_body!($kind, stringify!($name), $what, $($place),*);
                // The empty result of C: null, zero, false.
                $(std::mem::zeroed::<$ret>())?
            }
        )+}
    };
}

/// The body of an unsupported function.
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
