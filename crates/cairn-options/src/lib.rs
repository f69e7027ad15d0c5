//! Every option as one row: defaults, text form, validation.
