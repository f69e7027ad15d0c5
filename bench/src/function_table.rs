//! Tables of a library's C functions, filled when the library is loaded.

/// Declares a struct with a function pointer for each listed function, a constructor that loads all of them, and `has`.
macro_rules! function_table {
    ($(#[$doc:meta])* $table:ident; $(fn $name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        $(#[$doc])*
        #[allow(non_snake_case, reason = "the names are those of the C functions")]
        pub struct $table {
            $(#[doc = concat!("`", stringify!($name), "`.")] pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// Last, so that it is dropped last.
            _library: libloading::Library,
        }

        impl $table {
            /// Loads all functions from `library`.
            #[allow(non_snake_case, reason = "the names are those of the C functions")]
            pub fn new(library: libloading::Library) -> Result<Self, libloading::Error> {
                $(
                    // SAFETY: the type is that of the function of this name in the library's header.
                    let $name = unsafe { *library.get(concat!(stringify!($name), "\0").as_bytes())? };
                )*
                Ok($table { $($name,)* _library: library })
            }
        }
    };
}
pub(crate) use function_table;
