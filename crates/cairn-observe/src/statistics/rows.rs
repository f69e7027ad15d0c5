//! How the lists of tickers and histograms are written down: a row is a word for the code and
//! RocksDB's name.

macro_rules! rows {
    ($(#[$doc:meta])* $kind:ident { $($row:ident = $name:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        #[non_exhaustive]
        pub enum $kind {
            $(#[doc = concat!("`", $name, "`")] $row,)+
        }

        impl $kind {
            /// All of them, each at the place of its number.
            pub const ALL: &[$kind] = &[$($kind::$row,)+];
            /// How many there are.
            pub const COUNT: usize = $kind::ALL.len();

            /// RocksDB's name.
            #[must_use]
            pub fn name(self) -> &'static str {
                const NAMES: [&str; $kind::COUNT] = [$($name,)+];
                NAMES[self as usize]
            }

            /// The one with this number, if there is one.
            #[must_use]
            pub fn from_number(number: u32) -> Option<$kind> {
                $kind::ALL.get(number as usize).copied()
            }

            /// The one of this name, if there is one.
            #[must_use]
            pub fn named(name: &str) -> Option<$kind> {
                $kind::ALL.iter().copied().find(|one| one.name() == name)
            }
        }
    };
}

pub(crate) use rows;
