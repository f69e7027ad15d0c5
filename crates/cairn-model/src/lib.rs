//! The reference model, the generator of operations, and the checkers.
