//! LinkBench's operations over keys and values: nodes of a graph, links between them, and counts.
//!
//! LinkBench ("LinkBench: a Database Benchmark Based on the Facebook Social Graph", Armstrong and
//! others, SIGMOD 2013) speaks SQL. What is here is its mix over a plain key-value interface; shares,
//! skews and limits are those of its `FBWorkload.properties`:
//!
//! | operation | share in % | what it does here |
//! |---|---|---|
//! | getlinklist | 50.7119145 | walks the links of a node and type, 10,000 at most |
//! | getnode | 12.9326683 | gets a node |
//! | addlink | 8.9886601 | gets link and count; writes both |
//! | updatelink | 8.0122125 | the same with a link that was loaded |
//! | updatenode | 7.366437 | gets a node; puts it if it was there |
//! | countlink | 4.8863567 | gets a count |
//! | deletelink | 2.9907664 | gets link and count; removes one, writes the other |
//! | addnode | 2.5732789 | puts a node with a new number |
//! | deletenode | 1.0115914 | removes a node |
//! | getlink | 0.5261142 | gets some 2.6 links of a node at once |
//!
//! Nodes are chosen by Zipf's law with LinkBench's shapes: 0.8 for reading links, 0.741 for writing
//! them, 0.625 for reading nodes, 0.606 for updating them; all alike for removing them. How many links
//! a node has is not LinkBench's table but a power law that resembles it: 4 on the average, 10,000
//! at most. Unlike LinkBench's database this one has no transactions: with several threads a count can
//! come to differ from the links.
//!
//! ```text
//! n node(8)                         the node: --value_size bytes
//! c node(8) type(1)                 how many links it has of the type: 16 bytes
//! l node(8) type(1) other node(8)   a link: 24 bytes
//! ```

use crate::key_value_gen::{Rng, mix};

/// Number of link types.
pub const TYPES: u64 = 2;
/// Maximum number of links of a node, and of a scan.
pub const MOST_LINKS: u64 = 10_000;
/// Average number of links of a node.
const MEAN_LINKS: u64 = 4;
/// Size of a node number.
const NUMBER_LEN: usize = 8;
/// Size of a link value.
pub const LINK_LEN: usize = 24;
/// Size of a count.
pub const COUNT_LEN: usize = 16;
/// Maximum number of links looked up at once.
pub const MOST_TOGETHER: u64 = 128;
/// Probability that no further link is looked up.
const TOGETHER_ENDS: f64 = 0.382;
/// Length of the common key prefix of the links of a node and type.
pub const LIST_LEN: usize = 10;
/// Exponent of the distribution of the number of links.
const DEGREE_POWER: f64 = -0.8;

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    GetLinkList,
    GetNode,
    AddLink,
    UpdateLink,
    UpdateNode,
    CountLink,
    DeleteLink,
    AddNode,
    DeleteNode,
    GetLink,
}

/// The operations with their percentages.
const MIX: [(Step, f64); 10] = [
    (Step::GetLinkList, 50.711_914_5),
    (Step::GetNode, 12.932_668_3),
    (Step::AddLink, 8.988_660_1),
    (Step::UpdateLink, 8.012_212_5),
    (Step::UpdateNode, 7.366_437),
    (Step::CountLink, 4.886_356_7),
    (Step::DeleteLink, 2.990_766_4),
    (Step::AddNode, 2.573_278_9),
    (Step::DeleteNode, 1.011_591_4),
    (Step::GetLink, 0.526_114_2),
];

impl Step {
    /// Returns the next operation.
    pub fn next(rng: &mut Rng) -> Step {
        let mut place = rng.share() * 100.0;
        for (step, share) in MIX {
            if place < share {
                return step;
            }
            place -= share;
        }
        Step::GetLinkList
    }
}

/// Returns the key of a node.
#[must_use]
pub fn node_key(node: u64) -> [u8; 9] {
    let mut key = [b'n'; 9];
    key[1..].copy_from_slice(&node.to_be_bytes());
    key
}

/// Returns the key of the link count of a node and type.
#[must_use]
pub fn count_key(node: u64, kind: u8) -> [u8; LIST_LEN] {
    let mut key = [kind; LIST_LEN];
    key[0] = b'c';
    key[1..9].copy_from_slice(&node.to_be_bytes());
    key
}

/// Returns the key prefix of the links of a node and type.
#[must_use]
pub fn list_key(node: u64, kind: u8) -> [u8; LIST_LEN] {
    let mut key = count_key(node, kind);
    key[0] = b'l';
    key
}

/// Returns the key of a link.
#[must_use]
pub fn link_key(node: u64, kind: u8, other: u64) -> [u8; LIST_LEN + 8] {
    let mut key = [0; LIST_LEN + 8];
    key[..LIST_LEN].copy_from_slice(&list_key(node, kind));
    key[LIST_LEN..].copy_from_slice(&other.to_be_bytes());
    key
}

/// Returns the number that determines a link's value.
#[must_use]
pub fn link_number(key: &[u8]) -> u64 {
    let number = |number: u64, byte: &u8| number.rotate_left(8) ^ u64::from(*byte);
    key.iter().fold(0, number)
}

/// Returns the average total size of a node with a value of `value` bytes, its counts and its links.
#[must_use]
pub fn bytes_of_node(value: u64) -> u64 {
    let count = (LIST_LEN + COUNT_LEN) as u64;
    let link = (LIST_LEN + NUMBER_LEN + LINK_LEN) as u64;
    (1 + NUMBER_LEN) as u64 + value + TYPES * count + MEAN_LINKS * link
}

/// Returns the initial number of links of a node.
#[must_use]
pub fn degree(node: u64) -> u64 {
    let share = Rng::new(mix(node ^ 0x11)).share();
    (share.powf(DEGREE_POWER) as u64).clamp(1, MOST_LINKS)
}

/// Returns the type and target of link `at` of `node`, in a graph of `num` nodes.
#[must_use]
pub fn link(node: u64, at: u64, num: u64) -> (u8, u64) {
    let other = mix(mix(node).wrapping_add(at)) % num.max(1);
    ((at % TYPES) as u8, other)
}

/// Returns the number of links to look up at once.
pub fn together(rng: &mut Rng) -> u64 {
    let mut count = 1;
    while count < MOST_TOGETHER && rng.share() >= TOGETHER_ENDS {
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_their_percentages() {
        let sum: f64 = MIX.iter().map(|(_, share)| share).sum();
        assert!((sum - 100.0).abs() < 1e-3, "{sum}");
        let mut rng = Rng::new(1);
        let steps: Vec<Step> = (0..100_000).map(|_| Step::next(&mut rng)).collect();
        for (step, share) in MIX {
            let count = steps.iter().filter(|one| **one == step).count() as f64 / 1000.0;
            assert!((count - share).abs() < 0.6, "{step:?} {count}");
        }
    }

    #[test]
    fn nodes_have_four_links_on_average_and_some_have_many() {
        let degrees: Vec<u64> = (0..200_000).map(degree).collect();
        let mean = degrees.iter().sum::<u64>() as f64 / 200_000.0;
        assert!((mean - MEAN_LINKS as f64).abs() < 0.5, "{mean}");
        assert!(degrees.iter().any(|degree| *degree > 3000));
        assert!(
            degrees
                .iter()
                .all(|degree| (1..=MOST_LINKS).contains(degree))
        );
        let mut rng = Rng::new(1);
        let asked: u64 = (0..100_000).map(|_| together(&mut rng)).sum();
        assert!((255_000..270_000).contains(&asked), "{asked}");
    }

    #[test]
    fn links_of_a_node_and_type_are_adjacent() {
        let list = list_key(7, 1);
        assert!(link_key(7, 1, 0).starts_with(&list));
        assert!(link_key(7, 1, u64::MAX) < link_key(7, 2, 0));
        assert!(link_key(7, 0, u64::MAX) < link_key(7, 1, 0));
        assert_ne!(
            link_number(&link_key(7, 1, 9)),
            link_number(&link_key(9, 1, 7))
        );
    }
}
