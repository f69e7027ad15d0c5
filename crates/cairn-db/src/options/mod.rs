//! The options of an open database: the current ones, their changes, and the OPTIONS files of earlier openings.
//!
//! Writing OPTIONS files is the task of the catalog. The invariants are OPT1 and OPT2 ([`settings`]).

pub(crate) mod options_files;
pub(crate) mod set_options;
pub(crate) mod settings;
