//! Mends checksums of mutated files, so that mutations reach the decoders behind them.
