//! LinkBench's operations over keys and values: nodes of a graph, links between them, and counts.
//!
//! LinkBench ("LinkBench: a Database Benchmark Based on the Facebook Social Graph", Armstrong and
//! others, SIGMOD 2013) uses SQL. This is its mix over a key-value interface, with the percentages, skews,
//! sizes and limits of its `FBWorkload.properties`:
//!
//! | operation | share in % | here |
//! |---|---|---|
//! | getlinklist | 50.7119145 | scans the links of a node and type, at most 10,000 |
//! | getnode | 12.9326683 | gets a node |
//! | addlink | 8.9886601 | gets a link, one in twenty of which exists; puts it, and if it is new updates the count |
//! | updatelink | 8.0122125 | the same with a link that was loaded in nine of ten cases |
//! | updatenode | 7.366437 | gets a node; puts it if it exists |
//! | countlink | 4.8863567 | gets a count |
//! | deletelink | 2.9907664 | gets a link, nine in ten of which were loaded; removes it and updates the count |
//! | addnode | 2.5732789 | puts a node with a new number |
//! | deletenode | 1.0115914 | removes a node |
//! | getlink | 0.5261142 | gets 2.6 links of a node at once on average, half of which were loaded |
//!
//! Nodes are drawn from Zipf distributions with exponents 0.8 for reading links, 0.741 for writing them,
//! 0.625 for reading nodes, 0.606 for updating them, and uniformly for removing them. The popularity of a
//! node for link operations is unrelated to its number of links, except in 0.5 % of the reads and 5 % of the
//! writes, in which the nodes with the most links are the most popular.
//!
//! The number of links of a node follows the distribution `nlinks` of LinkBench's `Distribution.dat`: none
//! for 45 % of the nodes, 4.1 on average, up to 961,963. Node data has a median of 128 bytes and link data
//! of 8 bytes, both log-normally distributed with a sigma of 1, after the other columns of a row.
//!
//! Differences from LinkBench: links are scanned in the order of the linked nodes instead of by time, as if
//! only the primary key existed; removed links are deleted, not hidden; links beyond the first 10,000 are not
//! requested (LinkBench does so in 0.3 % of the scans that return that many); the data of a row keeps its
//! length when updated; and there are no transactions, so that with several threads a count can differ from
//! the number of links.
//!
//! ```text
//! n node(8)                         a node: 16 bytes and its data
//! c node(8) type(1)                 the number of its links of the type: 20 bytes
//! l node(8) type(1) other node(8)   a link: 13 bytes and its data
//! ```

use crate::key_value_gen::{Rng, mix};
use crate::ycsb::Zipfian;

/// Number of link types.
pub const TYPES: u64 = 2;
/// Maximum number of links of a scan.
pub const MOST_LINKS: u64 = 10_000;
/// Size of a node number.
const NUMBER_LEN: usize = 8;
/// Size of a node's type, version and time.
const NODE_COLUMNS: usize = 16;
/// Size of a link's visibility, version and time.
const LINK_COLUMNS: usize = 13;
/// Size of a count with its version and time.
pub const COUNT_LEN: usize = 20;
/// Maximum size of the data of a link, exclusive.
const MOST_LINK_DATA: f64 = 255.0;
/// Maximum size of the data of a node, exclusive.
pub const MOST_NODE_DATA: usize = 1 << 20;
/// Maximum number of links looked up in one call.
const MOST_TOGETHER: usize = 127;
/// Probability that no further link is looked up.
const TOGETHER_ENDS: f64 = 0.382;
/// Length of the common key prefix of the links of a node and type.
pub const LIST_LEN: usize = 10;
/// Length of the key of a link.
pub const LINK_KEY_LEN: usize = LIST_LEN + NUMBER_LEN;

/// Maximum number of attempts to draw a link that was not drawn before.
const MOST_DRAWS: usize = 100;

/// The exponents of the Zipf distributions.
const READ_LINKS: f64 = 0.8;
const WRITE_LINKS: f64 = 0.741;
const READ_NODES: f64 = 0.625;
const UPDATE_NODES: f64 = 0.606;

/// Shares of draws in which popularity is unrelated to the number of links.
const READS_UNRELATED: f64 = 0.995;
const WRITES_UNRELATED: f64 = 0.95;

/// The percentage of nodes with at most this number of links: points of `nlinks` in `Distribution.dat`.
/// Between two points the share of nodes with more links is interpolated as a power law.
const DEGREES: [(u64, f64); 30] = [
    (0, 45.331_605_73),
    (1, 77.462_591_12),
    (2, 86.958_059_53),
    (3, 91.993_054_28),
    (4, 94.450_799_10),
    (5, 95.828_071_69),
    (6, 96.722_528_05),
    (8, 97.761_423_19),
    (10, 98.328_033_68),
    (15, 99.026_879_03),
    (20, 99.326_955_60),
    (30, 99.556_939_01),
    (50, 99.721_560_49),
    (75, 99.796_274_89),
    (100, 99.831_361_15),
    (150, 99.866_218_57),
    (200, 99.885_135_23),
    (300, 99.906_066_34),
    (500, 99.927_463_69),
    (700, 99.939_358_09),
    (1_000, 99.950_659_16),
    (2_000, 99.969_372_01),
    (3_000, 99.978_548_98),
    (5_000, 99.987_453_32),
    (7_000, 99.991_713_69),
    (10_000, 99.995_045_21),
    (20_000, 99.998_537_73),
    (50_000, 99.999_813_96),
    (100_000, 99.999_962_79),
    (961_963, 100.0),
];

/// The average number of links of that distribution.
const MEAN_LINKS: f64 = 4.097_29;

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

    /// Returns the share of loaded links among those drawn, for an operation that draws links.
    #[must_use]
    pub fn loaded_share(self) -> f64 {
        match self {
            Step::AddLink => 0.05,
            Step::UpdateLink | Step::DeleteLink => 0.9,
            _ => 0.5,
        }
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
pub fn link_key(node: u64, kind: u8, other: u64) -> [u8; LINK_KEY_LEN] {
    let mut key = [0; LINK_KEY_LEN];
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

/// Sizes of a graph's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Median size of the data of a node.
    pub node_data: usize,
    /// Median size of the data of a link.
    pub link_data: usize,
}

impl Sizes {
    /// Returns the size of the value of a node.
    #[must_use]
    pub fn node_len(&self, node: u64) -> usize {
        NODE_COLUMNS + log_normal(node, self.node_data, MOST_NODE_DATA as f64)
    }

    /// Returns the size of the value of the link with this number.
    #[must_use]
    pub fn link_len(&self, number: u64) -> usize {
        LINK_COLUMNS + log_normal(number, self.link_data, MOST_LINK_DATA)
    }

    /// Returns the average size of a node with its counts and links.
    #[must_use]
    pub fn bytes_of_node(&self) -> u64 {
        // The mean of a log-normal distribution with a sigma of 1 is its median times the square root of e.
        let mean = |median: usize| median as f64 * 0.5f64.exp();
        let node = (1 + NUMBER_LEN + NODE_COLUMNS) as f64 + mean(self.node_data);
        let link = (LINK_KEY_LEN + LINK_COLUMNS) as f64 + mean(self.link_data);
        let counts = (1.0 - DEGREES[0].1 / 100.0) + (1.0 - DEGREES[1].1 / 100.0);
        let count = (LIST_LEN + COUNT_LEN) as f64;
        (node + MEAN_LINKS * link + counts * count) as u64
    }
}

/// Returns a log-normally distributed size with a sigma of 1, determined by `number`.
fn log_normal(number: u64, median: usize, most: f64) -> usize {
    let mut rng = Rng::new(mix(number ^ 0x5e11));
    // The Box-Muller transform; the argument of the logarithm is above 0.
    let radius = (-2.0 * (1.0 - rng.share()).ln()).sqrt();
    let normal = radius * (std::f64::consts::TAU * rng.share()).cos();
    (median as f64 * normal.exp()).round().min(most - 1.0) as usize
}

/// LinkBench's shuffler: an invertible mapping of ranks to numbers below the same bound. Ranks with the same
/// remainder modulo the number of groups are rotated by a random distance.
#[derive(Clone, Copy, Debug)]
struct Shuffle {
    num: u64,
    groups: u64,
    seed: u64,
}

impl Shuffle {
    fn new(num: u64, seed: u64) -> Shuffle {
        Shuffle {
            num,
            groups: num.clamp(1, 1024),
            seed,
        }
    }

    /// Returns the number of a rank.
    fn number(&self, rank: u64) -> u64 {
        let (group, size, distance) = self.group(rank);
        (rank / self.groups + distance) % size * self.groups + group
    }

    /// Returns the rank of a number.
    fn rank(&self, number: u64) -> u64 {
        let (group, size, distance) = self.group(number);
        (number / self.groups + size - distance) % size * self.groups + group
    }

    /// Returns the group of a number or rank, its size and its rotation.
    fn group(&self, number: u64) -> (u64, u64, u64) {
        let group = number % self.groups;
        let size = self.num / self.groups + u64::from(group < self.num % self.groups);
        (group, size, mix(self.seed ^ group) % size)
    }
}

/// The graph that is loaded, and the distributions of the nodes that are accessed.
#[derive(Clone, Debug)]
pub struct Graph {
    num: u64,
    /// Ranks by the number of links.
    degrees: Shuffle,
    /// Ranks by the popularity of links.
    popular_lists: Shuffle,
    /// Ranks by the popularity of nodes.
    popular_nodes: Shuffle,
    read_links: Zipfian,
    write_links: Zipfian,
    read_nodes: Zipfian,
    update_nodes: Zipfian,
}

impl Graph {
    /// Creates the graph of `num` nodes, at least 1.
    #[must_use]
    pub fn new(num: u64) -> Graph {
        let num = num.max(1);
        Graph {
            num,
            degrees: Shuffle::new(num, 0x1111),
            popular_lists: Shuffle::new(num, 0x2222),
            popular_nodes: Shuffle::new(num, 0x3333),
            read_links: Zipfian::with(num, READ_LINKS),
            write_links: Zipfian::with(num, WRITE_LINKS),
            read_nodes: Zipfian::with(num, READ_NODES),
            update_nodes: Zipfian::with(num, UPDATE_NODES),
        }
    }

    /// Returns the initial number of links of a node.
    #[must_use]
    pub fn degree(&self, node: u64) -> u64 {
        let more = (self.degrees.rank(node) as f64 + 0.5) / self.num as f64;
        degree(more)
    }

    /// Returns the initial number of links of a node and type. The types share the links of a node.
    #[must_use]
    pub fn links(&self, node: u64, kind: u8) -> u64 {
        let all = self.degree(node);
        all / TYPES + u64::from(u64::from(kind) < all % TYPES)
    }

    /// Returns the target of the initial link `at` of a node and type.
    #[must_use]
    pub fn other(&self, node: u64, at: u64) -> u64 {
        node + at
    }

    /// Draws the node whose links are read.
    pub fn reads_links_of(&self, rng: &mut Rng) -> u64 {
        self.draw(&self.read_links, READS_UNRELATED, rng)
    }

    /// Draws the node whose links are written.
    pub fn writes_links_of(&self, rng: &mut Rng) -> u64 {
        self.draw(&self.write_links, WRITES_UNRELATED, rng)
    }

    /// Draws the node to read.
    pub fn reads_node(&self, rng: &mut Rng) -> u64 {
        self.popular_nodes.number(self.read_nodes.rank(rng))
    }

    /// Draws the node to update.
    pub fn updates_node(&self, rng: &mut Rng) -> u64 {
        self.popular_nodes.number(self.update_nodes.rank(rng))
    }

    /// Draws the node to remove.
    pub fn removes_node(&self, rng: &mut Rng) -> u64 {
        rng.below(self.num)
    }

    fn draw(&self, ranks: &Zipfian, unrelated: f64, rng: &mut Rng) -> u64 {
        let shuffle = match rng.share() < unrelated {
            true => &self.popular_lists,
            false => &self.degrees,
        };
        shuffle.number(ranks.rank(rng))
    }

    /// Draws the target of a link of a node and type for `step`.
    pub fn some_other(&self, node: u64, kind: u8, step: Step, rng: &mut Rng) -> u64 {
        self.other(node, rng.below(self.range(node, kind, step)))
    }

    /// Draws the targets of the links that are looked up in one call.
    pub fn some_others(&self, node: u64, kind: u8, rng: &mut Rng) -> Vec<u64> {
        let range = self.range(node, kind, Step::GetLink);
        let count = together(rng);
        if range <= count as u64 {
            return (0..count as u64).map(|at| self.other(node, at)).collect();
        }
        let mut others = Vec::with_capacity(count);
        for _ in 0..count {
            let mut draws = 0;
            loop {
                let other = self.other(node, rng.below(range));
                draws += 1;
                if !others.contains(&other) || draws == MOST_DRAWS {
                    others.push(other);
                    break;
                }
            }
        }
        others
    }

    /// Returns the number of links to draw from, so that the share of loaded links is that of the operation.
    fn range(&self, node: u64, kind: u8, step: Step) -> u64 {
        let links = self.links(node, kind) as f64;
        ((links / step.loaded_share()).ceil() as u64).max(1)
    }
}

/// Returns the minimum number of links of a share `more` of the nodes.
fn degree(more: f64) -> u64 {
    let beyond = |percent: f64| ((100.0 - percent) / 100.0).max(1e-9);
    let next = DEGREES
        .iter()
        .position(|(_, percent)| (100.0 - percent) / 100.0 <= more);
    let next = next.unwrap_or(DEGREES.len() - 1);
    let (high, high_percent) = DEGREES[next];
    let Some((low, low_percent)) = next.checked_sub(1).map(|at| DEGREES[at]) else {
        return high;
    };
    if high - low == 1 {
        return high;
    }
    let (from, to) = (beyond(low_percent).ln(), beyond(high_percent).ln());
    let place = (from - more.max(1e-9).ln()) / (from - to);
    let links = (low as f64).ln() + ((high as f64).ln() - (low as f64).ln()) * place;
    (links.exp().ceil() as u64).clamp(low + 1, high)
}

/// Returns the number of links to look up in one call.
fn together(rng: &mut Rng) -> usize {
    let mut count = 1;
    while count < MOST_TOGETHER && rng.share() >= TOGETHER_ENDS {
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes {
        node_data: 128,
        link_data: 8,
    };

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

    /// Compares with the shares of `Distribution.dat`, whose nodes with up to a million links do not occur in
    /// a graph of this size.
    #[test]
    fn the_number_of_links_has_its_distribution() {
        let graph = Graph::new(200_000);
        let degrees: Vec<u64> = (0..200_000).map(|node| graph.degree(node)).collect();
        let share = |most: u64| {
            let few = degrees.iter().filter(|degree| **degree <= most);
            few.count() as f64 / 2000.0
        };
        for (most, percent) in DEGREES {
            assert!(
                (share(most) - percent).abs() < 0.01,
                "{most} {}",
                share(most)
            );
        }
        let mean = degrees.iter().sum::<u64>() as f64 / 200_000.0;
        assert!((3.9..4.1).contains(&mean), "{mean}");
        let both = |node| graph.links(node, 0) + graph.links(node, 1);
        assert!((0..1000).all(|node| both(node) == graph.degree(node)));
    }

    #[test]
    fn shuffled_ranks_are_a_permutation() {
        for num in [1, 7, 1024, 1025, 5000] {
            let shuffle = Shuffle::new(num, 5);
            let mut numbers: Vec<u64> = (0..num).map(|rank| shuffle.number(rank)).collect();
            let ranks = numbers.iter().map(|number| shuffle.rank(*number));
            assert!(ranks.eq(0..num));
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..num));
        }
    }

    #[test]
    fn popularity_is_mostly_unrelated_to_the_number_of_links() {
        let (graph, mut rng) = (Graph::new(100_000), Rng::new(1));
        let mean = |draw: &dyn Fn(&mut Rng) -> u64, rng: &mut Rng| {
            let sum: u64 = (0..50_000).map(|_| graph.degree(draw(rng))).sum();
            sum as f64 / 50_000.0
        };
        let read = mean(&|rng| graph.reads_links_of(rng), &mut rng);
        let written = mean(&|rng| graph.writes_links_of(rng), &mut rng);
        let nodes = mean(&|rng| graph.removes_node(rng), &mut rng);
        assert!(
            nodes < 8.0 && nodes < read && read < written,
            "{nodes} {read} {written}"
        );
    }

    #[test]
    fn links_are_drawn_from_those_loaded_and_others() {
        let (graph, mut rng) = (Graph::new(10_000), Rng::new(1));
        let node = (0..10_000).find(|node| graph.links(*node, 0) > 20);
        let node = node.expect("some nodes have many links");
        let last = graph.other(node, graph.links(node, 0) - 1);
        let mut loaded = |step| {
            let draws = (0..10_000).map(|_| graph.some_other(node, 0, step, &mut rng));
            draws.filter(|other| *other <= last).count() as f64 / 10_000.0
        };
        for (step, share) in [
            (Step::AddLink, 0.05),
            (Step::DeleteLink, 0.9),
            (Step::GetLink, 0.5),
        ] {
            assert!((loaded(step) - share).abs() < 0.03, "{step:?}");
        }
        let counts: Vec<usize> = (0..100_000).map(|_| together(&mut rng)).collect();
        assert!((255_000..270_000).contains(&counts.iter().sum::<usize>()));
        for _ in 0..1000 {
            let mut others = graph.some_others(node, 0, &mut rng);
            let count = others.len();
            others.sort_unstable();
            others.dedup();
            assert_eq!(others.len(), count);
        }
    }

    #[test]
    fn sizes_are_log_normal() {
        let mut sizes: Vec<usize> = (0..20_001).map(|node| SIZES.node_len(node) - 16).collect();
        sizes.sort_unstable();
        assert!((124..132).contains(&sizes[10_000]), "{}", sizes[10_000]);
        // One sigma below the median and above.
        let (low, high) = (sizes[3173], sizes[16_827]);
        assert!(
            (44..51).contains(&low) && (330..365).contains(&high),
            "{low} {high}"
        );
        let graph = Graph::new(20_000);
        let mut bytes = 0;
        for node in 0..20_000 {
            bytes += node_key(node).len() + SIZES.node_len(node);
            for kind in 0..TYPES as u8 {
                let links = graph.links(node, kind);
                bytes += if links > 0 { LIST_LEN + COUNT_LEN } else { 0 };
                for at in 0..links {
                    let key = link_key(node, kind, graph.other(node, at));
                    bytes += key.len() + SIZES.link_len(link_number(&key));
                }
            }
        }
        let mean = bytes as f64 / 20_000.0;
        let estimated = SIZES.bytes_of_node() as f64;
        assert!((mean / estimated - 1.0).abs() < 0.06, "{mean} {estimated}");
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
