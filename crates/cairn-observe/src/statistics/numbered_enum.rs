//! A macro for enums of tickers and histograms. Each row has the variant and RocksDB's name.

macro_rules! numbered_enum {
    ($(#[$doc:meta])* $kind:ident { $($row:ident = $name:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        #[non_exhaustive]
        pub enum $kind {
            $(#[doc = concat!("`", $name, "`")] $row,)+
        }

        impl $kind {
            /// All variants, by number.
            pub const ALL: &[$kind] = &[$($kind::$row,)+];
            /// The number of variants.
            pub const COUNT: usize = $kind::ALL.len();

            /// RocksDB's name.
            #[must_use]
            pub fn name(self) -> &'static str {
                const NAMES: [&str; $kind::COUNT] = [$($name,)+];
                NAMES[self as usize]
            }

            /// The variant with this number, or `None`.
            #[must_use]
            pub fn from_number(number: u32) -> Option<$kind> {
                $kind::ALL.get(number as usize).copied()
            }

            /// The variant with this name, or `None`.
            #[must_use]
            pub fn named(name: &str) -> Option<$kind> {
                $kind::ALL.iter().copied().find(|one| one.name() == name)
            }
        }
    };
}

pub(crate) use numbered_enum;
