//! Encryption at rest: files that only the holder of a key can read.
//!
//! [`World::encrypted`](crate::World::encrypted) puts an [`EncryptedFileSystem`] between a database and its
//! files: tables, logs, the MANIFEST, everything but the lock. The program brings the cipher; here it is
//! AES with a key of 256 bits, from the crate `aes`:
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("db");
//! use std::sync::Arc;
//! use aes::cipher::{BlockCipherEncrypt, KeyInit};
//! use aes::{Aes256, Block};
//! use cairn::encryption::{BlockCipher, CtrProvider};
//! use cairn::{Db, Options, World};
//!
//! struct Aes(Aes256);
//!
//! impl BlockCipher for Aes {
//!     fn block_size(&self) -> usize {
//!         16
//!     }
//!     fn encrypt_blocks(&self, blocks: &mut [u8]) {
//!         let (blocks, _) = Block::slice_as_chunks_mut(blocks);
//!         self.0.encrypt_blocks(blocks);
//!     }
//! }
//!
//! // From a file or a service; here 32 bytes of any kind.
//! let key = [7; 32];
//! let provider = CtrProvider::new(Arc::new(Aes(Aes256::new(&key.into()))))?;
//! let world = World::posix().encrypted(Arc::new(provider));
//!
//! let options = Options::default().create_if_missing(true);
//! let db = Db::builder(&path).options(options.clone()).world(world.clone()).open()?;
//! db.put(b"account", b"4711")?;
//! db.close()?;
//!
//! // Who has no key finds nothing to read.
//! assert!(Db::open(&path, &options).is_err());
//! let db = Db::builder(&path).options(options).world(world).open()?;
//! assert_eq!(db.get(b"account")?.as_deref(), Some(&b"4711"[..]));
//! # db.close()?;
//! # Ok::<(), cairn::Error>(())
//! ```
//!
//! What it protects: a disk that is taken away, a copy of it, a backup of the files. What it does not: names,
//! lengths and times of files are plain to see; who can write to the files can change what is read, because
//! nothing is authenticated; and keys and values are plain in the memory of the process. The files are those
//! of RocksDB's `EncryptedFileSystem` with its `CTREncryptionProvider`. One key is for all files of a
//! database, and a directory is encrypted or not, as a whole; to change the key, open both and copy.
//!
//! Another [`EncryptionProvider`] than [`CtrProvider`] may keep more in the prefix of each file, a key of
//! its own for instance that a master key encrypts.

pub use cairn_platform::{
    BlockCipher, CipherStream, CtrProvider, EncryptedFileSystem, EncryptionProvider,
};
