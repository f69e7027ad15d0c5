//! The syntax of OPTIONS files and option strings.
