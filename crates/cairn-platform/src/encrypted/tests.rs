//! Round trips, confidentiality, and invalid prefixes.

use proptest::prelude::*;

use std::path::PathBuf;

use super::*;
use crate::posix::SystemRandom;
use crate::read_queue::BatchRead;
use crate::sync::{AtomicBool, Ordering};
use crate::{Allocation, MemFileSystem};

/// RocksDB's sample cipher, which is not secure.
struct Thirteen(usize);

impl BlockCipher for Thirteen {
    fn block_size(&self) -> usize {
        self.0
    }
    fn encrypt_blocks(&self, blocks: &mut [u8]) {
        assert!(!blocks.is_empty() && blocks.len().is_multiple_of(self.0));
        blocks
            .iter_mut()
            .for_each(|byte| *byte = byte.wrapping_add(13));
    }
}

fn provider(block_size: usize) -> CtrProvider {
    CtrProvider::new(Arc::new(Thirteen(block_size))).unwrap()
}

/// An in-memory file system, and an encrypted one on top.
fn files() -> (MemFileSystem, EncryptedFileSystem) {
    let plain = MemFileSystem::new();
    let encrypted = EncryptedFileSystem::new(Arc::new(plain.clone()), Arc::new(provider(32)));
    (plain, encrypted)
}

fn all(fs: &dyn FileSystem, path: &Path) -> Vec<u8> {
    let file = fs.open(path, FileMode::default()).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

fn put(fs: &dyn FileSystem, path: &Path, bytes: &[u8]) {
    let file = fs.create(path, FileMode::default()).unwrap();
    file.append(bytes).unwrap();
    file.close().unwrap();
}

#[test]
fn names_and_bytes_behave_as_the_trait_says() {
    crate::posix::conformance_of_emptied(&files().1, Path::new("/db"));
    let dir = tempfile::tempdir().unwrap();
    let posix = EncryptedFileSystem::new(Arc::new(crate::PosixFileSystem), Arc::new(provider(16)));
    crate::posix::conformance_of_emptied(&posix, &dir.path().join("db"));
}

#[test]
fn the_ciphertext_is_rocksdbs() {
    let (plain, encrypted) = files();
    let path = Path::new("/f");
    put(&encrypted, path, &[0; 70]);
    let raw = all(&plain, path);
    assert_eq!(raw.len(), 4096 + 70);
    let counter = u64::from_le_bytes(*raw.first_chunk().unwrap());
    let nonce = &raw[32..64];
    let expected = (128..).flat_map(|block: u64| {
        let mut key = nonce.to_vec();
        key[..8].copy_from_slice(&counter.wrapping_add(block).to_le_bytes());
        key.into_iter().map(|byte| byte.wrapping_add(13))
    });
    let expected: Vec<u8> = expected.take(70).collect();
    assert_eq!(raw[4096..], expected);
}

#[test]
fn files_have_distinct_prefixes_and_ciphertexts() {
    let (plain, encrypted) = files();
    let mut seen = std::collections::BTreeSet::new();
    for n in 0..50 {
        let path = PathBuf::from(format!("/{n}"));
        put(&encrypted, &path, b"the same words in every file");
        let raw = all(&plain, &path);
        assert!(!raw.windows(5).any(|bytes| bytes == b"words"));
        assert!(seen.insert(raw[..64].to_vec()));
        assert_eq!(all(&encrypted, &path), b"the same words in every file");
    }
    // Overwriting a file changes its encryption.
    let over = encrypted
        .open_overwrite(Path::new("/0"), FileMode::default())
        .unwrap();
    over.append(b"the same").unwrap();
    assert!(seen.insert(all(&plain, Path::new("/0"))[..64].to_vec()));
    assert_eq!(all(&encrypted, Path::new("/0")), b"the same");
}

#[test]
fn a_file_with_a_partial_prefix_is_empty() {
    for len in [0, 1, 4095, 4096] {
        let (plain, encrypted) = files();
        let path = Path::new("/f");
        put(&plain, path, &vec![7; len]);
        assert_eq!(encrypted.status(path).unwrap().len, 0);
        assert_eq!(all(&encrypted, path), b"");
        let file = encrypted.open_append(path, FileMode::default()).unwrap();
        assert_eq!(file.len(), 0);
        file.append(b"more").unwrap();
        assert_eq!(all(&encrypted, path), b"more");
        assert_eq!(all(&plain, path).len(), 4100);
    }
}

/// Regression: a reader that opened a file between its creation and the append of its prefix found it empty forever.
#[test]
fn a_reader_finds_a_prefix_that_is_appended_later() {
    let (plain, encrypted) = files();
    let path = Path::new("/f");
    let writer = plain.create(path, FileMode::default()).unwrap();
    let readers = [(); 2].map(|()| encrypted.open(path, FileMode::default()).unwrap());
    let batched = |reader: &dyn RandomAccessFile| {
        let mut reads = FileReads::new(vec![BatchRead::new(0, 4, Allocation::default())]);
        let mut queue = ReadQueue::default();
        reader.start_reads(&mut reads, &mut queue);
        reader.finish_reads(&mut reads, &mut queue);
        reads.reads[0].bytes_mut().to_vec()
    };
    for reader in &readers {
        assert_eq!(reader.read_at(0, &mut [0; 4]).unwrap(), 0);
        assert_eq!(batched(&**reader), b"");
    }
    put(&encrypted, Path::new("/g"), b"more");
    writer.append(&all(&plain, Path::new("/g"))).unwrap();
    let mut buf = [0; 4];
    assert_eq!(readers[0].read_at(0, &mut buf).unwrap(), 4);
    assert_eq!(&buf, b"more");
    assert_eq!(batched(&*readers[1]), b"more");
}

#[test]
fn lost_sectors_read_as_zeros() {
    let plain = MemFileSystem::new();
    let provider = provider(32).with_random(Arc::new(SystemRandom::seeded(7)));
    let encrypted = EncryptedFileSystem::new(Arc::new(plain.clone()), Arc::new(provider));
    let path = Path::new("/f");
    let bytes: Vec<u8> = (0..5000_u32).map(|at| (at % 251) as u8 + 1).collect();
    put(&encrypted, path, &bytes);
    let mut raw = all(&plain, path);
    // Two sectors in the middle, and the end.
    raw[4096 + 512..4096 + 1536].fill(0);
    raw[4096 + 4608..].fill(0);
    // The rest of a partially written sector, and fewer zeros than a hole has.
    raw[4096 + 2100..4096 + 2560].fill(0);
    raw[4096 + 3065..4096 + 3072].fill(0);
    raw[4096 + 3064] |= 1;
    plain.remove(path).unwrap();
    put(&plain, path, &raw);
    let mut expected = bytes;
    expected[512..1536].fill(0);
    expected[4608..].fill(0);
    expected[2100..2560].fill(0);
    let file = encrypted.open(path, FileMode::default()).unwrap();
    let mut buf = [0; 8];
    file.read_at(3064, &mut buf).unwrap();
    assert_ne!(buf[1..], [0; 7], "they are decrypted");
    assert!(
        file.is_blank(3065, 7).unwrap(),
        "and may be a hole all the same"
    );
    assert!(!file.is_blank(3064, 8).unwrap());
    assert!(file.is_blank(4608, 1000).unwrap());
    for (at, len) in [
        (0, 3000),
        (3072, 1928),
        (500, 20),
        (513, 3),
        (1530, 10),
        (600, 1),
        (4600, 20),
        (4999, 1),
        (4990, 100),
        (2000, 101),
        (2100, 1),
        (2300, 7),
        (2000, 700),
        (2550, 20),
    ] {
        let mut buf = vec![1; len];
        let got = file.read_at(at as u64, &mut buf).unwrap();
        assert_eq!(buf[..got], expected[at..5000.min(at + len)], "{at}, {len}");
    }
    // Any other zero of the ciphertext is decrypted.
    let zero = raw[4096 + 3072..4096 + 4608]
        .iter()
        .position(|byte| *byte == 0);
    let at = zero.expect("one of thousands") + 3072;
    let mut one = [0];
    file.read_at(at as u64, &mut one).unwrap();
    assert_eq!(one[0], expected[at]);
}

#[test]
fn batched_reads_equal_single_reads() {
    let (_, encrypted) = files();
    let path = Path::new("/f");
    let bytes: Vec<u8> = (0..3000_u32).map(|at| at as u8).collect();
    put(&encrypted, path, &bytes);
    let file = encrypted.open(path, FileMode::default()).unwrap();
    let offsets = [5, 2950, 4000];
    let reads = offsets.map(|offset| BatchRead::new(offset, 100, Allocation::default()));
    let mut reads = FileReads::new(reads.into());
    let mut queue = ReadQueue::default();
    file.start_reads(&mut reads, &mut queue);
    file.finish_reads(&mut reads, &mut queue);
    let got: Vec<usize> = reads
        .reads
        .iter()
        .map(|read| *read.got.as_ref().unwrap())
        .collect();
    assert_eq!(got, [100, 50, 0]);
    let after: Vec<u64> = reads.reads.iter().map(|read| read.offset).collect();
    assert_eq!(after, offsets);
    assert_eq!(reads.reads[0].bytes_mut(), &bytes[5..105]);
    assert_eq!(reads.reads[1].bytes_mut(), &bytes[2950..]);
}

#[test]
fn encrypted_files_are_not_mapped() {
    let (_, encrypted) = files();
    let mapped = FileMode {
        mapped: true,
        ..FileMode::default()
    };
    let file = encrypted.create(Path::new("/f"), mapped).unwrap();
    assert!(!file.is_mapped());
    let refused = encrypted.open(Path::new("/f"), mapped).err().unwrap();
    assert!(
        refused.to_string().contains("allow_mmap_reads"),
        "{refused}"
    );
}

#[test]
fn invalid_block_sizes_are_rejected() {
    for size in [0, 7, 2049, usize::MAX] {
        assert!(CtrProvider::new(Arc::new(Thirteen(size))).is_err());
    }
    for size in [8, 16, 100, 2048] {
        let fs = EncryptedFileSystem::new(Arc::new(MemFileSystem::new()), Arc::new(provider(size)));
        let bytes: Vec<u8> = (0..9000_u32).map(|at| at as u8).collect();
        put(&fs, Path::new("/f"), &bytes);
        assert_eq!(all(&fs, Path::new("/f")), bytes);
    }
}

/// A provider without a key, or with invalid prefixes.
struct Broken {
    keyless: AtomicBool,
}

impl EncryptionProvider for Broken {
    fn prefix_len(&self) -> usize {
        100
    }
    fn new_prefix(&self, _path: &Path) -> Result<Vec<u8>> {
        Ok(vec![0; 99])
    }
    fn stream(&self, _path: &Path, _prefix: &[u8]) -> Result<Box<dyn CipherStream>> {
        assert!(self.keyless.load(Ordering::Relaxed));
        Err(Error::io_text("no key"))
    }
}

#[test]
fn files_that_cannot_be_encrypted_are_not_created() {
    let plain = MemFileSystem::new();
    let broken = Broken {
        keyless: AtomicBool::new(false),
    };
    let fs = EncryptedFileSystem::new(Arc::new(plain.clone()), Arc::new(broken));
    assert!(fs.create(Path::new("/f"), FileMode::default()).is_err());
    assert!(!plain.exists(Path::new("/f")).unwrap());
    let broken = Broken {
        keyless: AtomicBool::new(true),
    };
    put(&plain, Path::new("/g"), &[1; 200]);
    let fs = EncryptedFileSystem::new(Arc::new(plain), Arc::new(broken));
    let refused = fs.open(Path::new("/g"), FileMode::default()).err().unwrap();
    assert!(refused.to_string().contains("no key"));
}

proptest! {
    /// Files of arbitrary content can be read, and appended data reads back.
    #[test]
    fn arbitrary_content_is_readable(
        mut raw in proptest::collection::vec(any::<u8>(), 0..600),
        padding in 0..4200_usize,
        at in 0..5000_u64,
        len in 0..300_usize,
        block_size in 8..100_usize,
    ) {
        raw.resize(raw.len() + padding, 0);
        let plain = MemFileSystem::new();
        put(&plain, Path::new("/f"), &raw);
        let random = Arc::new(SystemRandom::seeded(at));
        let provider = provider(block_size).with_random(random);
        let fs = EncryptedFileSystem::new(Arc::new(plain), Arc::new(provider));
        let file = fs.open(Path::new("/f"), FileMode::default()).unwrap();
        let there = raw.len().saturating_sub(4096);
        prop_assert_eq!(file.len().unwrap(), there as u64);
        let mut buf = vec![0; len];
        let got = file.read_at(at, &mut buf).unwrap();
        prop_assert_eq!(got, there.saturating_sub(at as usize).min(len));
        let before = all(&fs, Path::new("/f"));
        prop_assert_eq!(&before[before.len().min(at as usize)..][..got], &buf[..got]);
        let writer = fs.open_append(Path::new("/f"), FileMode::default()).unwrap();
        writer.append(b"behind").unwrap();
        let after = all(&fs, Path::new("/f"));
        prop_assert_eq!(&after[there..], b"behind");
    }
}
