//! The log file container of WALs and MANIFESTs.
