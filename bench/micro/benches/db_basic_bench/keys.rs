//! Keys and values.

use cairn_bench::key_value_gen::Rng;

/// The length of a key.
pub const KEY_LEN: usize = 10;

/// The distance of the numbers of existing keys.
const STEP: u32 = 3;

/// A key.
pub type Key = [u8; KEY_LEN];

/// Generates keys: a number in big-endian order, after that of a prefix if there are prefixes, padded with zeros.
pub struct KeyGenerator {
    random: Option<Rng>,
    next: u32,
    keys: u32,
    prefixes: u32,
}

impl KeyGenerator {
    /// Creates a generator of random keys among `keys`.
    pub fn random(seed: u64, keys: u64) -> KeyGenerator {
        KeyGenerator {
            random: Some(Rng::new(seed)),
            ..KeyGenerator::sequential(keys)
        }
    }

    /// Creates a generator of all keys, in ascending order.
    pub fn sequential(keys: u64) -> KeyGenerator {
        let keys = u32::try_from(keys).expect("keys have 32-bit numbers");
        assert!(keys > 0 && keys < u32::MAX / STEP, "{keys} keys");
        KeyGenerator {
            random: None,
            next: 0,
            keys,
            prefixes: 0,
        }
    }

    /// Distributes the keys over `prefixes` prefixes.
    pub fn with_prefixes(self, prefixes: u64) -> KeyGenerator {
        KeyGenerator {
            prefixes: u32::try_from(prefixes).expect("prefixes have 32-bit numbers"),
            ..self
        }
    }

    fn number(&mut self) -> u32 {
        let number = match &mut self.random {
            Some(random) => random.below(u64::from(self.keys)) as u32,
            None => {
                let number = self.next;
                self.next = (number + 1) % self.keys;
                number
            }
        };
        number * STEP
    }

    fn key(&self, number: u32, offset: u32) -> Key {
        let mut key = [0; KEY_LEN];
        let number = number + offset;
        let mut at = 0;
        if self.prefixes > 0 {
            let prefix = (number % self.prefixes) * STEP + offset;
            key[..4].copy_from_slice(&prefix.to_be_bytes());
            at = 4;
        }
        key[at..at + 4].copy_from_slice(&number.to_be_bytes());
        key
    }

    /// Returns the next key.
    pub fn next_key(&mut self) -> Key {
        let number = self.number();
        self.key(number, 0)
    }

    /// Returns the next key of those that no other method returns.
    pub fn next_missing(&mut self) -> Key {
        let number = self.number();
        self.key(number, 1)
    }

    /// Returns the prefix of the next key.
    pub fn next_prefix(&mut self) -> [u8; 4] {
        let key = self.next_key();
        [key[0], key[1], key[2], key[3]]
    }
}

/// Fills `text` with random printable characters.
pub fn random_text(random: &mut Rng, text: &mut [u8]) {
    for character in text {
        *character = b' ' + random.below(95) as u8;
    }
}

/// Fills `value` with random bytes that repeat in its second half.
pub fn compressible(random: &mut Rng, value: &mut [u8]) {
    let half = value.len().div_ceil(2);
    value[..half].fill_with(|| random.draw() as u8);
    let (first, second) = value.split_at_mut(half);
    second.copy_from_slice(&first[..second.len()]);
}
