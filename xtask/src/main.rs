//! The house rules, and the one command that runs every test.

fn main() {}
