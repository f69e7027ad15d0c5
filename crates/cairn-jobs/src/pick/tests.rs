//! Picks, from text.
