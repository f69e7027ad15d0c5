//! Merge operators: built-in and user-defined.

use std::sync::Arc;

use cairn::{
    Code, CompactRangeOptions, Db, MergeInput, MergeOperator, Options, ReadOptions, World,
};

use crate::database;

#[test]
fn a_built_in_operator_is_selected_by_name() {
    let db = database("merge_operator=stringappend");
    db.put(b"k", b"a").unwrap();
    db.merge(b"k", b"b").unwrap();
    db.merge(b"k", b"c").unwrap();
    assert_eq!(db.get(b"k").unwrap().as_deref(), Some(&b"a,b,c"[..]));
    let operands = db
        .get_merge_operands(b"k", 8, &ReadOptions::default())
        .unwrap();
    assert_eq!(operands.iter().collect::<Vec<_>>(), [&b"a"[..], b"b", b"c"]);
}

/// Keeps the longest operand.
struct Longest;

impl MergeOperator for Longest {
    fn name(&self) -> &str {
        "test.Longest"
    }

    fn full_merge(&self, input: &MergeInput<'_>) -> Option<Vec<u8>> {
        let all = input.operands.iter().copied().chain(input.existing);
        all.max_by_key(|bytes| bytes.len()).map(<[u8]>::to_vec)
    }
}

#[test]
fn a_user_defined_operator_merges_in_compactions_too() {
    let mut options = Options::default().create_if_missing(true);
    options.family.merge_operator = Some(Arc::new(Longest));
    let builder = Db::builder("/db").world(World::in_memory());
    let db = builder.options(options).open().unwrap();
    for operand in ["slate", "granite", "chalk"] {
        db.merge(b"k", operand.as_bytes()).unwrap();
        db.flush().unwrap();
    }
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    assert_eq!(db.get(b"k").unwrap().as_deref(), Some(&b"granite"[..]));
}

#[test]
fn a_family_without_an_operator_rejects_operands() {
    let db = database("");
    let error = db.merge(b"k", b"v").unwrap_err();
    assert_eq!(error.code(), Code::NotSupported);
}
