//! Encryption at rest.
//!
//! [`World::encrypted`](crate::World::encrypted) puts an [`EncryptedFileSystem`] between a database
//! and its files: tables, logs, the MANIFEST, and everything else but the lock file. The program
//! provides the cipher; in this example it is AES-256 from the crate `aes`:
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
//! // From a file or a service; 32 arbitrary bytes in this example.
//! let key = [7; 32];
//! let provider = CtrProvider::new(Arc::new(Aes(Aes256::new(&key.into()))))?;
//! let world = World::posix().encrypted(Arc::new(provider));
//!
//! let options = Options::default().create_if_missing(true);
//! let db = Db::builder(&path).options(options.clone()).world(world.clone()).open()?;
//! db.put(b"account", b"4711")?;
//! db.close()?;
//!
//! // Without the key, the database cannot be opened.
//! assert!(Db::open(&path, &options).is_err());
//! let db = Db::builder(&path).options(options).world(world).open()?;
//! assert_eq!(db.get(b"account")?.as_deref(), Some(&b"4711"[..]));
//! # db.close()?;
//! # Ok::<(), cairn::Error>(())
//! ```
//!
//! Encryption protects the content of a stolen disk, of a copy, and of a backup of the files. It
//! does not hide the names, sizes and times of files; it does not authenticate, so an attacker with
//! write access can alter the data; and keys and values are in plain text in the memory of the
//! process. The format is that of RocksDB's `EncryptedFileSystem` with its `CTREncryptionProvider`.
//! All files of a database use one key, and a directory is encrypted either completely or not at
//! all. To change the key, open a second database and copy the data.
//!
//! A custom [`EncryptionProvider`] may store more than [`CtrProvider`] does in the prefix of each
//! file, such as a per-file key encrypted with a master key.

pub use cairn_platform::{
    BlockCipher, CipherStream, CtrProvider, EncryptedFileSystem, EncryptionProvider,
};
