//! A checker of histories, after Elle: transactions append unique elements to lists and read lists, so that the order of
//! versions is known from the reads, and a violation of isolation is a cycle of dependencies.
//!
//! ```text
//! ww   wrote the element before the one that the other appended
//! wr   wrote the last element that the other read
//! rw   read the version that the other overwrote
//! ```

use std::collections::{BTreeMap, BTreeSet};

/// A committed transaction.
#[derive(Clone, Debug, Default)]
pub struct Committed {
    /// The lists that it read, each once and before its own append.
    pub reads: Vec<(usize, Vec<u32>)>,
    /// The elements that it appended, at most one per list.
    pub appends: Vec<(usize, u32)>,
}

/// An isolation level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Cycles with two adjacent rw dependencies are permitted.
    Snapshot,
    /// No cycle is permitted.
    Serializable,
}

/// Returns a description of a violation of `level`. The last transaction of `history` read all lists at the end;
/// `aborted` has the elements of transactions that were not committed.
pub fn check(history: &[Committed], aborted: &BTreeSet<u32>, level: Level) -> Result<(), String> {
    let finals: BTreeMap<usize, &Vec<u32>> = history
        .last()
        .into_iter()
        .flat_map(|last| last.reads.iter().map(|(key, list)| (*key, list)))
        .collect();
    let mut writer = BTreeMap::new();
    for (at, txn) in history.iter().enumerate() {
        for (key, element) in &txn.appends {
            let list = finals
                .get(key)
                .ok_or(format!("list {key} was not read at the end"))?;
            if list.iter().filter(|found| *found == element).count() != 1 {
                return Err(format!(
                    "lost update: {element} of list {key} is missing or double"
                ));
            }
            writer.insert(*element, at);
        }
    }
    let (mut depends, mut overwritten) = (BTreeSet::new(), BTreeSet::new());
    for (key, list) in &finals {
        if let Some(element) = list.iter().find(|element| aborted.contains(element)) {
            return Err(format!("aborted read: {element} of list {key}"));
        }
        for pair in list.windows(2) {
            depends.insert((writer[&pair[0]], writer[&pair[1]]));
        }
    }
    for (at, txn) in history.iter().enumerate() {
        for (key, read) in &txn.reads {
            let list = finals[key];
            if !list.starts_with(read) {
                return Err(format!("list {key} was read as {read:?}, but is {list:?}"));
            }
            if let Some(last) = read.last() {
                depends.insert((writer[last], at));
            }
            if let Some(next) = list.get(read.len()) {
                overwritten.insert((at, writer[next]));
            }
        }
    }
    let mut edges: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    let mut add = |from: usize, to: usize| {
        // A transaction that overwrites what it read itself.
        if from != to {
            edges.entry(from).or_default().insert(to);
        }
    };
    for &(from, to) in &depends {
        add(from, to);
    }
    match level {
        Level::Serializable => overwritten.iter().for_each(|&(from, to)| add(from, to)),
        Level::Snapshot => {
            // A dependency, then at most one rw: any cycle of these has no two adjacent rw.
            for &(from, middle) in &depends {
                for &(_, to) in overwritten.range((middle, 0)..=(middle, usize::MAX)) {
                    if from == to && from != middle {
                        return Err(format!("{level:?}: cycle of {from} and {middle}"));
                    }
                    if middle != to {
                        add(from, to);
                    }
                }
            }
        }
    }
    match cycle(history.len(), &edges) {
        None => Ok(()),
        Some(at) => Err(format!("{level:?}: cycle through {at}: {:?}", history[at])),
    }
}

/// A node of a cycle of `edges` over `nodes` nodes: one that remains when nodes without predecessors are removed.
fn cycle(nodes: usize, edges: &BTreeMap<usize, BTreeSet<usize>>) -> Option<usize> {
    let mut before = vec![0; nodes];
    for to in edges.values().flatten() {
        before[*to] += 1;
    }
    let mut free: Vec<usize> = (0..nodes).filter(|node| before[*node] == 0).collect();
    while let Some(node) = free.pop() {
        for to in edges.get(&node).into_iter().flatten() {
            before[*to] -= 1;
            if before[*to] == 0 {
                free.push(*to);
            }
        }
    }
    before.iter().position(|left| *left > 0)
}

fn txn(reads: &[(usize, &[u32])], appends: &[(usize, u32)]) -> Committed {
    Committed {
        reads: reads
            .iter()
            .map(|(key, list)| (*key, list.to_vec()))
            .collect(),
        appends: appends.to_vec(),
    }
}

#[test]
fn planted_anomalies_are_found() {
    let none = BTreeSet::new();
    let lost = [
        txn(&[(0, &[])], &[(0, 1)]),
        txn(&[(0, &[])], &[(0, 2)]),
        txn(&[(0, &[2])], &[]),
    ];
    let skew = [
        txn(&[(0, &[]), (1, &[])], &[(0, 1)]),
        txn(&[(0, &[]), (1, &[])], &[(1, 2)]),
        txn(&[(0, &[1]), (1, &[2])], &[]),
    ];
    // The second read the effect of the first on list 0, but not on list 1.
    let fractured = [
        txn(&[], &[(0, 1), (1, 2)]),
        txn(&[(0, &[1]), (1, &[])], &[]),
        txn(&[(0, &[1]), (1, &[2])], &[]),
    ];
    let circular = [
        txn(&[(1, &[2])], &[(0, 1)]),
        txn(&[(0, &[1])], &[(1, 2)]),
        txn(&[(0, &[1]), (1, &[2])], &[]),
    ];
    let dirty = [txn(&[], &[]), txn(&[(0, &[9])], &[])];
    let forked = [
        txn(&[], &[(0, 1)]),
        txn(&[], &[(0, 2)]),
        txn(&[(0, &[2])], &[]),
        txn(&[(0, &[1, 2])], &[]),
    ];
    for (level, finds_skew) in [(Level::Snapshot, false), (Level::Serializable, true)] {
        for history in [&lost[..], &fractured, &circular, &forked] {
            assert!(
                check(history, &none, level).is_err(),
                "{level:?}: {history:?}"
            );
        }
        assert!(check(&dirty, &BTreeSet::from([9]), level).is_err());
        assert_eq!(check(&skew, &none, level).is_err(), finds_skew);
        let serial = [
            txn(&[(0, &[])], &[(0, 1)]),
            txn(&[(0, &[1])], &[(0, 2)]),
            txn(&[(0, &[1, 2])], &[]),
        ];
        check(&serial, &none, level).unwrap();
    }
}
