//! Write batches: what one record of the WAL carries.
