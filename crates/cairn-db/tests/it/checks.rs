//! Checksums of whole files, and verification of new tables.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_db::{Db, Ingestion, OpenRequest, SstFileWriter, open};
use cairn_options::{
    BottommostLevelCompaction, CompactRangeOptions, DbOptions, FamilyOptions, FileChecksum,
    FileChecksumContext, FileChecksumGenFactory, FileChecksumGenerator, HandoffFileType,
    HandoffFileTypes, IngestExternalFileOptions, Options,
};
use cairn_platform::fs::{FileMode, RandomAccessFile, Status};
use cairn_platform::sync::Mutex;
use cairn_platform::{FileSystem, WritableFile, wrapper};
use cairn_sim::trace::Call;
use cairn_sim::{Fault, FaultPlan, FaultRule, SimWorld, Trigger};
use cairn_types::{Code, Error, Result};

use crate::basic::{db_options, small};

fn open_on(sim: &SimWorld, options: &DbOptions) -> Result<Db> {
    let family = FamilyOptions {
        enable_blob_files: true,
        min_blob_size: 500,
        ..small()
    };
    open(&OpenRequest {
        path: Path::new("/db"),
        options,
        families: &[],
        others: Some(&family),
        read_only: false,
        world: sim.world.clone(),
    })
}

/// Checks that all `tables` and `blobs` have the checksums of their files.
fn check(sim: &SimWorld, db: &Db, tables: usize, blobs: usize) {
    let mut all = db.live_files_checksum_info();
    all.sort();
    assert_eq!(all.len(), tables + blobs, "{all:?}");
    let image = sim.fs.image();
    let mut blobs_found = 0;
    for (number, checksum, function) in all {
        let blob = format!("/db/{number:06}.blob");
        let table = format!("/db/{number:06}.sst");
        let is_blob = image.file(blob.as_ref()).is_some();
        blobs_found += usize::from(is_blob);
        let path = if is_blob { blob } else { table };
        let bytes = image.file(path.as_ref()).expect("the file");
        let crc = cairn_format::checksum::crc32c_extend(0, bytes);
        assert_eq!(checksum, crc.to_be_bytes(), "{path}");
        assert_eq!(function, "FileChecksumCrc32c");
    }
    assert_eq!(blobs_found, blobs);
    db.verify_file_checksums().expect("all match");
}

#[test]
fn every_file_has_its_checksum_in_the_manifest() {
    let sim = SimWorld::new(1);
    let mut options = db_options();
    options
        .set("file_checksum_gen_factory", "FileChecksumGenCrc32cFactory")
        .unwrap();
    assert_eq!(
        options.file_checksum_gen_factory,
        Some(FileChecksum::Crc32c)
    );
    let db = open_on(&sim, &options).unwrap();
    db.put(b"a", b"small").unwrap();
    db.put(b"b", &[7; 1000]).unwrap();
    db.flush().unwrap();
    check(&sim, &db, 1, 1);
    // Only moved, not rewritten.
    let all = CompactRangeOptions::default();
    db.compact_range(None, None, &all).unwrap();
    check(&sim, &db, 1, 1);
    let mut writer = SstFileWriter::new(&sim.world, &DbOptions::default(), &small());
    sim.world.fs.create_dir_all("/out".as_ref()).unwrap();
    writer.open("/out/x.sst".as_ref()).unwrap();
    writer.put(b"a", b"ingested").unwrap();
    writer.finish().unwrap();
    db.ingest_external_file(["/out/x.sst"], &IngestExternalFileOptions::default())
        .unwrap();
    check(&sim, &db, 2, 1);
    db.put(b"c", b"new").unwrap();
    db.compact_range(None, None, &all).unwrap();
    check(&sim, &db, 1, 1);
    db.close().unwrap();
    drop(db);

    let db = open_on(&sim, &db_options()).unwrap();
    let refused = db.verify_file_checksums().unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    db.close().unwrap();
    drop(db);
    let db = open_on(&sim, &options).unwrap();
    check(&sim, &db, 1, 1);
    let paths: Vec<_> = sim.fs.image().files().map(|(path, _)| path).collect();
    for end in ["sst", "blob"] {
        let is_it = |path: &&std::path::PathBuf| {
            path.starts_with("/db") && path.extension().is_some_and(|found| found == end)
        };
        let path = paths.iter().find(is_it).expect("one is left");
        sim.fs.flip_bit(path, 30, 2).unwrap();
        let error = db.verify_file_checksums().unwrap_err();
        assert!(error.is_corruption(), "{error}");
        assert!(error.text().contains(&*path.to_string_lossy()), "{error}");
        sim.fs.flip_bit(path, 30, 2).unwrap();
    }
    db.verify_file_checksums().unwrap();
}

/// The next `lasts` reads of tables have a flipped bit.
fn flips(lasts: usize) -> FaultPlan {
    FaultPlan::new(vec![FaultRule {
        trigger: Trigger::Class {
            call: Call::Read,
            name_end: ".sst".to_owned(),
            count: 0,
        },
        fault: Fault::FlippedBit,
        lasts,
    }])
}

#[test]
fn a_flush_that_reads_its_table_back_fails_if_it_is_damaged() {
    for (changes, lasts, fails) in [
        (None, 100, false),
        (Some(("paranoid_file_checks", "true")), 100, true),
        (Some(("paranoid_file_checks", "true")), 0, false),
        (Some(("verify_output_flags", "4097")), 100, true),
        // This applies to compactions.
        (Some(("verify_output_flags", "1031")), 100, false),
    ] {
        let sim = SimWorld::new(2);
        let db = open_on(&sim, &db_options()).unwrap();
        if let Some(change) = changes {
            db.set_options(&[change]).unwrap();
        }
        db.put(b"a", b"1").unwrap();
        sim.fs.set_plan(flips(lasts));
        let flushed = db.flush();
        sim.fs.set_plan(flips(0));
        assert_eq!(flushed.is_err(), fails, "{changes:?} {lasts}: {flushed:?}");
        if let Err(error) = flushed {
            assert!(error.is_corruption(), "{error}");
            assert_eq!(db.live_files_checksum_info(), []);
        }
        assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    }
}

/// Creates a database that `verifies` its MANIFEST when it is closed. Returns also the path of that.
fn with_manifest(sim: &SimWorld, verifies: bool) -> (Db, PathBuf) {
    let db = open_on(sim, &db_options()).expect("it is created");
    let value = verifies.to_string();
    db.set_db_options(&[("verify_manifest_content_on_close", &value)])
        .expect("the option can be changed");
    let dir = Path::new("/db");
    let mut names = sim.world.fs.list(dir).expect("a directory").into_iter();
    let name = names.find(|name| name.starts_with("MANIFEST"));
    (db, dir.join(name.expect("there is one")))
}

/// Regression: a MANIFEST damaged while the database was open was only detected by the next opening.
#[test]
fn a_damaged_manifest_is_replaced_when_the_database_is_closed() {
    for verifies in [true, false] {
        let sim = SimWorld::new(2);
        let (db, path) = with_manifest(&sim, verifies);
        db.put(b"a", b"1").unwrap();
        db.flush().unwrap();
        sim.fs.flip_bit(&path, 30, 2).unwrap();
        db.close().unwrap();
        drop(db);
        let reopened = open_on(&sim, &db_options());
        assert_eq!(reopened.is_ok(), verifies);
        if let Ok(db) = reopened {
            assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
        }
    }
}

/// Regression: a database whose MANIFEST was removed while it was open could not be opened again.
#[test]
fn a_missing_manifest_is_replaced_when_the_database_is_closed() {
    for verifies in [true, false] {
        for cut in [0, 20] {
            let sim = SimWorld::new(2);
            let (db, path) = with_manifest(&sim, verifies);
            db.put(b"a", b"1").unwrap();
            let fs = &sim.world.fs;
            fs.remove(&path).unwrap();
            if cut > 0 {
                let file = fs.create(&path, Default::default()).unwrap();
                file.append(&vec![0; cut]).unwrap();
                file.close().unwrap();
            }
            // This goes to the file that was removed.
            db.flush().unwrap();
            db.put(b"b", b"2").unwrap();
            db.close().unwrap();
            drop(db);
            let db = open_on(&sim, &db_options()).unwrap();
            assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
            assert_eq!(db.get(b"b").unwrap().as_deref(), Some(&b"2"[..]));
        }
    }
}

/// The number of bytes under one name, or under an older one if it is requested.
struct Lengths {
    knows_older: bool,
}

struct Length(&'static str, u64);

impl FileChecksumGenerator for Length {
    fn name(&self) -> &str {
        self.0
    }

    fn update(&mut self, bytes: &[u8]) {
        self.1 += bytes.len() as u64;
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        let older = u64::from(self.0 == "older");
        (self.1 + older).to_le_bytes().to_vec()
    }
}

impl FileChecksumGenFactory for Lengths {
    fn name(&self) -> &str {
        "Lengths"
    }

    fn create(&self, context: &FileChecksumContext<'_>) -> Option<Box<dyn FileChecksumGenerator>> {
        let name = match (context.requested_function, self.knows_older) {
            (None | Some("length"), true) => "length",
            (None | Some("older"), _) => "older",
            _ => return None,
        };
        Some(Box::new(Length(name, 0)))
    }
}

fn with_lengths(knows_older: bool) -> DbOptions {
    DbOptions {
        file_checksum_gen_factory: Some(FileChecksum::Custom(Arc::new(Lengths { knows_older }))),
        ..db_options()
    }
}

#[test]
fn checksums_of_the_program_are_recorded_and_verified() {
    let sim = SimWorld::new(1);
    let db = open_on(&sim, &with_lengths(false)).unwrap();
    db.put(b"a", b"small").unwrap();
    db.put(b"b", &[7; 1000]).unwrap();
    db.flush().unwrap();
    let functions = |db: &Db| {
        let mut all = db.live_files_checksum_info();
        all.sort();
        let image = sim.fs.image();
        let found = all.into_iter().map(|(number, checksum, function)| {
            let blob = format!("/db/{number:06}.blob");
            let table = format!("/db/{number:06}.sst");
            let bytes = image.file(blob.as_ref()).or(image.file(table.as_ref()));
            let older = usize::from(function == "older");
            let len = (bytes.expect("the file").len() + older) as u64;
            assert_eq!(checksum, len.to_le_bytes(), "{number}");
            function
        });
        found.collect::<Vec<_>>()
    };
    assert_eq!(functions(&db), ["older", "older"]);
    db.verify_file_checksums().unwrap();
    db.close().unwrap();
    drop(db);
    // A newer factory knows the older function; new files have the new one.
    let db = open_on(&sim, &with_lengths(true)).unwrap();
    db.put(b"c", b"small").unwrap();
    db.flush().unwrap();
    assert_eq!(functions(&db), ["older", "older", "length"]);
    let mut writer = SstFileWriter::new(&sim.world, &db.options(), &small());
    sim.world.fs.create_dir_all("/out".as_ref()).unwrap();
    writer.open("/out/x.sst".as_ref()).unwrap();
    writer.put(b"x", b"ingested").unwrap();
    let info = writer.finish().unwrap();
    assert_eq!(info.file_checksum, info.file_size.to_le_bytes());
    assert_eq!(info.file_checksum_func_name, "length");
    let options = IngestExternalFileOptions::default();
    let mut ingestion = Ingestion::new(db.default_family(), ["/out/x.sst"], &options);
    ingestion.checksum_functions = vec!["unknown".to_owned()];
    ingestion.checksums = vec![info.file_checksum];
    let ingest = |ingestion: &Ingestion| db.ingest_external_files(std::slice::from_ref(ingestion));
    assert_eq!(
        ingest(&ingestion).unwrap_err().code(),
        Code::InvalidArgument
    );
    ingestion.checksum_functions = vec!["older".to_owned()];
    assert_eq!(ingest(&ingestion).unwrap_err().code(), Code::Corruption);
    ingestion.checksum_functions = vec!["length".to_owned()];
    ingest(&ingestion).unwrap();
    db.verify_file_checksums().unwrap();
    let all = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range(None, None, &all).unwrap();
    db.verify_file_checksums().unwrap();
    db.close().unwrap();
    drop(db);
    // The built-in factory does not have the function, nor the older one the newer.
    let mut crc = db_options();
    crc.file_checksum_gen_factory = Some(FileChecksum::Crc32c);
    for options in [crc, with_lengths(false)] {
        let db = open_on(&sim, &options).unwrap();
        let error = db.verify_file_checksums().unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(
            error.to_string().contains("checksum function of"),
            "{error}"
        );
        assert_eq!(db.get(b"x").unwrap().as_deref(), Some(&b"ingested"[..]));
        db.close().unwrap();
    }
}

/// A file system that verifies the checksums of appends, and damages a piece before that.
struct Verifying {
    fs: Arc<dyn FileSystem>,
    /// Verified bytes by the ends of names.
    verified: Arc<Mutex<BTreeMap<String, usize>>>,
    /// The end of the name of the file whose next piece is damaged.
    damages: Arc<Mutex<Option<&'static str>>>,
}

struct VerifyingFile {
    file: Arc<dyn WritableFile>,
    kind: String,
    verified: Arc<Mutex<BTreeMap<String, usize>>>,
    damages: Arc<Mutex<Option<&'static str>>>,
}

impl Verifying {
    fn file(&self, path: &Path, file: Arc<dyn WritableFile>) -> Arc<dyn WritableFile> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let kind = match name.split_once('.') {
            Some((_, end)) => end.to_owned(),
            None => name.split('-').next().unwrap_or_default().to_owned(),
        };
        Arc::new(VerifyingFile {
            file,
            kind,
            verified: self.verified.clone(),
            damages: self.damages.clone(),
        })
    }
}

impl wrapper::FileSystemWrapper for Verifying {
    fn target(&self) -> &dyn FileSystem {
        &*self.fs
    }

    fn verifies_appends(&self) -> bool {
        true
    }

    fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        self.fs.open(path, mode)
    }

    fn create(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        Ok(self.file(path, self.fs.create(path, mode)?))
    }

    fn open_append(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        Ok(self.file(path, self.fs.open_append(path, mode)?))
    }

    fn open_overwrite(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        Ok(self.file(path, self.fs.open_overwrite(path, mode)?))
    }

    fn status(&self, path: &Path) -> Result<Status> {
        self.fs.status(path)
    }

    fn status_each(&self, dir: &Path, names: &[String]) -> Vec<Result<Status>> {
        self.fs.status_each(dir, names)
    }
}

impl wrapper::WritableFileWrapper for VerifyingFile {
    fn target(&self) -> &dyn WritableFile {
        &*self.file
    }

    fn append_with_crc32c(&self, data: &[u8], crc32c: u32) -> Result<()> {
        let mut arrived = data.to_vec();
        let mut damages = self.damages.lock();
        if damages.is_some_and(|kind| kind == self.kind)
            && let Some(byte) = arrived.first_mut()
        {
            *byte ^= 1;
            *damages = None;
        }
        if cairn_format::checksum::crc32c(&arrived) != crc32c {
            return Err(Error::corruption("checksum of an append"));
        }
        let mut verified = self.verified.lock();
        *verified.entry(self.kind.clone()).or_default() += data.len();
        self.file.append(data)
    }

    fn successor(&self, _path: &Path, _mode: FileMode) -> Result<Option<Arc<dyn WritableFile>>> {
        Ok(None)
    }
}

#[test]
fn the_file_system_gets_checksums_of_appends() {
    use HandoffFileType::{Blob, Manifest, Table, Wal};
    let kinds = [
        (Wal, "log"),
        (Table, "sst"),
        (Manifest, "MANIFEST"),
        (Blob, "blob"),
    ];
    for chosen in 0..16_u32 {
        let sim = SimWorld::new(1);
        let verified = Arc::new(Mutex::new(BTreeMap::new()));
        let damages = Arc::new(Mutex::new(None));
        let mut types = HandoffFileTypes::default();
        let mut expected = Vec::new();
        for (bit, (kind, name)) in kinds.iter().enumerate() {
            if chosen & 1 << bit != 0 {
                types = types.with(*kind);
                expected.push(*name);
            }
        }
        expected.sort_unstable();
        let fs = Verifying {
            fs: sim.world.fs.clone(),
            verified: verified.clone(),
            damages: damages.clone(),
        };
        let mut world = sim.world.clone();
        world.fs = Arc::new(fs);
        let options = DbOptions {
            checksum_handoff_file_types: types,
            ..db_options()
        };
        let family = FamilyOptions {
            enable_blob_files: true,
            min_blob_size: 500,
            ..small()
        };
        let open = || {
            open(&OpenRequest {
                path: Path::new("/db"),
                options: &options,
                families: &[],
                others: Some(&family),
                read_only: false,
                world: world.clone(),
            })
        };
        let db = open().unwrap();
        db.put(b"a", b"small").unwrap();
        db.put(b"b", &[7; 1000]).unwrap();
        db.flush().unwrap();
        let kinds_found: Vec<String> = verified.lock().keys().cloned().collect();
        assert_eq!(kinds_found, expected);
        // Nothing is written past the verification.
        for kind in ["sst", "blob"]
            .into_iter()
            .filter(|kind| expected.contains(kind))
        {
            let image = sim.fs.image();
            let names = sim.world.fs.list(Path::new("/db")).unwrap();
            let files = names.iter().filter(|name| name.ends_with(kind));
            let len: usize = files
                .map(|name| image.file(&Path::new("/db").join(name)).unwrap().len())
                .sum();
            assert_eq!(verified.lock().get(kind), Some(&len));
        }
        // A damaged piece is an error, and nothing acknowledged is lost.
        if let Some(&kind) = expected.first() {
            *damages.lock() = Some(kind);
            let written = db.put(b"c", &[9; 1000]).and_then(|()| db.flush());
            assert!(damages.lock().is_none(), "{kind}");
            assert_eq!(written.unwrap_err().code(), Code::Corruption, "{kind}");
        }
        drop(db);
        let db = open().unwrap();
        assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"small"[..]));
        assert_eq!(db.get(b"b").unwrap().as_deref(), Some(&[7; 1000][..]));
        db.close().unwrap();
    }
}
