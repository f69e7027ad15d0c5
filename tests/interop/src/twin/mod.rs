//! The twins: the same operations on two libraries with RocksDB's C API, side by side.
//!
//! The driver uses the C API alone and loads any library with `dlopen`. A script is made from a seed
//! ([`generate`]) under a set of options ([`sets`]); its operations ([`ops`]) hold no handles, so that any of
//! them can be left out. Each is carried out on both sides ([`side`]) and the two answers must be the
//! same text: values, iterator positions, counts, and of an error its kind, as RocksDB writes it
//! before the first colon. What may differ is a row of `tests/interop/differences.toml` with its
//! reason ([`differences`]).
//!
//! Only what is determined is compared. Background work changes the shape of the tree, and with it
//! what a read finds in memory, how many files there are, and the sequence number of an ingested
//! table: such operations are made only under sets that stand `still`.
//!
//! A script that fails is shrunk ([`run`]) by leaving operations out, and its token says which stay:
//! `twin:v1:set=still:seed=0x1f:ops=4000:keep=12,40,41`. The program `twin` (`src/bin/twin.rs`) runs
//! many scripts, each in a process that may die, or repeats a token.

mod api;
mod callbacks;
pub mod differences;
pub mod events;
mod files;
pub mod generate;
pub mod getters;
pub mod header;
pub mod ops;
mod reads;
pub mod run;
pub mod sets;
pub mod side;
mod writes;

pub use api::Api;
