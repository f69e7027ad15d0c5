//! Twin tests: the same operations on two libraries with RocksDB's C API, side by side.
//!
//! The driver uses only the C API and loads any library with `dlopen`. A script is generated from a seed
//! ([`generate`]) for an option set ([`sets`]). Its operations ([`ops`]) contain no handles, so that any of them can
//! be left out. Both sides ([`side`]) run each operation, and the two results must be the same text: values,
//! iterator positions, counts, and of an error its kind, the text before the first colon. Accepted differences are
//! rows of `tests/interop/differences.toml` with a reason ([`differences`]).
//!
//! Only deterministic results are compared. Background work changes the shape of the tree, and with it what a read
//! finds in memory, the number of files, and the sequence number of an ingested table: operations that depend on
//! them run only under the sets with `still`.
//!
//! A failing script is shrunk ([`run`]) by leaving operations out, and its token lists the remaining ones:
//! `twin:v1:set=still:seed=0x1f:ops=4000:keep=12,40,41`. The program `twin` (`src/bin/twin.rs`) runs many scripts, in
//! child processes because they may crash, or repeats a token.

mod api;
mod callbacks;
pub mod differences;
pub mod events;
mod files;
pub mod generate;
pub mod getters;
pub mod header;
pub mod ops;
pub mod policies;
mod reads;
pub mod run;
pub mod sets;
pub mod side;
mod transactions;
mod writes;

pub use api::Api;
