//! Deterministic mutations: equal seeds give equal inputs on every machine.

/// Boundary values for length checks, shifts and additions.
const INTERESTING: [u64; 16] = [
    0,
    1,
    7,
    8,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 50,
    (1 << 56) - 1,
    i64::MAX as u64,
    u64::MAX,
];

/// A small pseudo-random number generator (SplitMix64).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates a generator with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// Creates the generator for one input of one target, independent of earlier inputs.
    #[must_use]
    pub fn of(target: &str, number: u64) -> Self {
        let mut seed = 0xcbf2_9ce4_8422_2325_u64;
        for byte in target.bytes() {
            seed = (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Rng(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`; 0 if `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        if limit == 0 {
            0
        } else {
            (self.bits() % limit as u64) as usize
        }
    }

    /// Returns a random range within `len`, at most `longest` long.
    fn range(&mut self, len: usize, longest: usize) -> std::ops::Range<usize> {
        let start = self.below(len + 1);
        let length = self.below((len - start).min(longest) + 1);
        start..start + length
    }
}

/// Changes `data` in one to four places; `other` is a second seed from which pieces are copied. The
/// result has at most `max_len` bytes.
pub fn mutate(data: &mut Vec<u8>, other: &[u8], rng: &mut Rng, max_len: usize) {
    for _ in 0..=rng.below(4) {
        once(data, other, rng);
    }
    data.truncate(max_len);
}

fn once(data: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    let len = data.len();
    match rng.below(10) {
        0 | 1 if len > 0 => data[rng.below(len)] ^= 1 << rng.below(8),
        2 if len > 0 => data[rng.below(len)] = rng.bits() as u8,
        3 if len > 0 => data[rng.below(len)] = INTERESTING[rng.below(INTERESTING.len())] as u8,
        4 => overwrite_number(data, rng),
        5 => {
            data.drain(rng.range(len, 64));
        }
        6 => {
            let copy = data[rng.range(len, 256)].to_vec();
            let at = rng.below(len + 1);
            data.splice(at..at, copy);
        }
        7 => {
            let piece = other[rng.range(other.len(), 1024)].to_vec();
            let at = rng.range(len, 1024);
            data.splice(at, piece);
        }
        8 => data.truncate(rng.below(len + 1)),
        _ => {
            let at = rng.below(len + 1);
            let count = rng.below(16);
            let bytes: Vec<u8> = (0..count).map(|_| rng.bits() as u8).collect();
            data.splice(at..at, bytes);
        }
    }
}

/// Overwrites data with a boundary value as a fixed-length integer or varint.
fn overwrite_number(data: &mut Vec<u8>, rng: &mut Rng) {
    let number = INTERESTING[rng.below(INTERESTING.len())].wrapping_add(rng.below(3) as u64);
    let mut bytes = number.to_le_bytes().to_vec();
    match rng.below(3) {
        0 => bytes.truncate(4),
        1 => {
            bytes.clear();
            let mut rest = number;
            while rest >= 0x80 {
                bytes.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            bytes.push(rest as u8);
        }
        _ => {}
    }
    let at = rng.below(data.len() + 1);
    let end = (at + bytes.len()).min(data.len());
    data.splice(at..end, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_numbers_give_equal_inputs() {
        let make = |number| {
            let mut data = b"a seed of some length".to_vec();
            mutate(
                &mut data,
                b"another seed",
                &mut Rng::of("wal", number),
                1 << 16,
            );
            data
        };
        assert_eq!(make(7), make(7));
        let different = (0..100).filter(|&n| make(n) != make(n + 1)).count();
        assert!(different > 90, "{different}");
    }

    #[test]
    fn empty_seeds_grow() {
        let longest = (0..200).map(|n| {
            let mut data = Vec::new();
            mutate(&mut data, b"", &mut Rng::of("x", n), 100);
            data.len()
        });
        assert!(longest.max() > Some(0));
    }
}
