//! Copying and linking whole files. A file survives a power failure when the call has returned and its
//! directory is synced.

use std::io::ErrorKind;
use std::path::Path;

use cairn_platform::fs::FileMode;
use cairn_platform::{FileSystem, WritableFile};
use cairn_types::{Error, Result};

/// The number of bytes copied at a time.
const CHUNK: usize = 1 << 20;

/// Passes the first `limit` bytes of `from` (all of it without a limit) to `take`, in pieces. Returns their
/// number.
pub(crate) fn for_each_piece(
    fs: &dyn FileSystem,
    from: &Path,
    limit: Option<u64>,
    mut take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<u64> {
    let source = fs.open(from, FileMode::default())?;
    let len = source.len()?;
    let end = limit.unwrap_or(len);
    if end > len {
        return Err(Error::corruption(format!(
            "length of {}: expected at least {end}, found {len}",
            from.display()
        )));
    }
    let mut piece = vec![0; CHUNK.min(usize::try_from(end).unwrap_or(CHUNK)).max(1)];
    let mut at = 0;
    while at < end {
        let want = usize::try_from(end - at).map_or(piece.len(), |left| left.min(piece.len()));
        let got = source.read_at(at, &mut piece[..want])?;
        if got == 0 {
            return Err(Error::corruption(format!(
                "length of {}: expected {end}, found {at}",
                from.display()
            )));
        }
        take(&piece[..got])?;
        at += got as u64;
    }
    Ok(end)
}

/// Creates `to` and fills it with `fill`; it is synced and closed, or removed on an error.
pub(crate) fn create_with(
    fs: &dyn FileSystem,
    to: &Path,
    use_fsync: bool,
    fill: impl FnOnce(&dyn WritableFile) -> Result<()>,
) -> Result<()> {
    let target = fs.create(to, FileMode::default())?;
    let done = fill(&*target)
        .and_then(|()| target.sync(use_fsync))
        .and_then(|()| target.close());
    if done.is_err() {
        // The error of the copy is reported; the remaining file only wastes space.
        let _ = fs.remove(to);
    }
    done
}

/// Copies the first `limit` bytes of `from` (all of it without a limit) to `to`, which must not exist. The
/// copy is synced; its name is not. Both are then read again and compared: the data may have no checksum, and
/// a wrong byte would be found by a reader of the copy, or never. The second read is served by the page
/// cache.
pub(crate) fn copy(
    fs: &dyn FileSystem,
    from: &Path,
    to: &Path,
    limit: Option<u64>,
    use_fsync: bool,
) -> Result<()> {
    create_with(fs, to, use_fsync, |target| {
        for_each_piece(fs, from, limit, |piece| target.append(piece)).map(|_| ())
    })?;
    let same = compare(fs, from, to);
    if same.is_err() {
        // As in `create_with`.
        let _ = fs.remove(to);
    }
    same
}

/// Returns an error if `copy` is not a prefix of `original`.
fn compare(fs: &dyn FileSystem, original: &Path, copy: &Path) -> Result<()> {
    let source = fs.open(original, FileMode::default())?;
    let mut expected = Vec::new();
    let mut at = 0;
    for_each_piece(fs, copy, None, |piece| {
        expected.resize(piece.len(), 0);
        let got = source.read_up_to_end(at, &mut expected)?;
        if expected[..got] != *piece {
            return Err(Error::corruption(format!(
                "the copy of {} differs from it between offsets {at} and {}",
                original.display(),
                at + piece.len() as u64
            )));
        }
        at += piece.len() as u64;
        Ok(())
    })
    .map(|_| ())
}

/// Writes `content` to `to`, which must not exist. The file is synced; its name is not.
pub(crate) fn write(fs: &dyn FileSystem, to: &Path, content: &[u8], use_fsync: bool) -> Result<()> {
    create_with(fs, to, use_fsync, |target| target.append(content))
}

/// Links `from` to the second name `to`, and syncs its content, which its writer may not have done.
pub(crate) fn link_synced(
    fs: &dyn FileSystem,
    from: &Path,
    to: &Path,
    use_fsync: bool,
) -> Result<()> {
    fs.link(from, to)?;
    let synced = fs.open_append(to, FileMode::default()).and_then(|file| {
        file.sync(use_fsync)?;
        file.close()
    });
    if synced.is_err() {
        let _ = fs.remove(to);
    }
    synced
}

/// True if `error` is that of a file that cannot be linked there, but could be copied: it is on another
/// device, or the file system does not support links.
pub(crate) fn cannot_link(error: &Error) -> bool {
    matches!(
        error.io_kind(),
        Some(
            ErrorKind::CrossesDevices
                | ErrorKind::Unsupported
                | ErrorKind::PermissionDenied
                | ErrorKind::TooManyLinks
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_format::checksum::crc32c_extend;
    use cairn_jobs::checksum;
    use cairn_options::FileChecksum;
    use cairn_platform::World;
    use cairn_sim::{Call, Fault, FaultPlan, FaultRule, SimWorld, Trigger};

    #[test]
    fn a_copy_ends_at_its_limit_or_at_the_end_of_the_file() {
        let fs = World::in_memory().fs;
        fs.create_dir_all("/d".as_ref()).unwrap();
        let content: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        write(&*fs, "/d/a".as_ref(), &content, false).unwrap();
        copy(
            &*fs,
            "/d/a".as_ref(),
            "/d/b".as_ref(),
            Some(2_500_000),
            false,
        )
        .unwrap();
        let mut seen = Vec::new();
        let mut take = |piece: &[u8]| {
            seen.extend_from_slice(piece);
            Ok(())
        };
        for_each_piece(&*fs, "/d/b".as_ref(), None, &mut take).unwrap();
        assert!(seen == content[..2_500_000]);
        let too_much = copy(
            &*fs,
            "/d/a".as_ref(),
            "/d/c".as_ref(),
            Some(4_000_000),
            false,
        );
        assert!(too_much.unwrap_err().is_corruption());
        assert!(!fs.exists("/d/c".as_ref()).unwrap());
        let running = FileChecksum::Crc32c.start("/d/a".as_ref());
        let (crc, _) = checksum::of_file(&*fs, "/d/a".as_ref(), running).unwrap();
        assert_eq!(crc, crc32c_extend(0, &content).to_be_bytes());
    }

    /// Regression: a bit flipped during the copy of a file was at best found by a reader of the copy.
    #[test]
    fn a_bit_flipped_during_a_copy_is_found() {
        for count in 0..3 {
            let sim = SimWorld::new(1);
            let fs = &*sim.world.fs;
            fs.create_dir_all("/d".as_ref()).unwrap();
            write(fs, "/d/a".as_ref(), &[7; 100], false).unwrap();
            let rule = FaultRule {
                trigger: Trigger::Class {
                    call: Call::Read,
                    name_end: String::new(),
                    count,
                },
                fault: Fault::FlippedBit,
                lasts: 1,
            };
            sim.fs.set_plan(FaultPlan::new(vec![rule]));
            let copied = copy(fs, "/d/a".as_ref(), "/d/b".as_ref(), None, false);
            assert!(copied.unwrap_err().is_corruption());
            assert!(!fs.exists("/d/b".as_ref()).unwrap());
        }
    }
}
