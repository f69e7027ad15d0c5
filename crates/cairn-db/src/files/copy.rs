//! Copying and linking whole files, so that what is there when a call returns survives a power cut
//! once its directory is synced.

use std::io::ErrorKind;
use std::path::Path;

use cairn_platform::fs::FileMode;
use cairn_platform::{FileSystem, WritableFile};
use cairn_types::{Error, Result};

/// Bytes that are copied at once.
const CHUNK: usize = 1 << 20;

/// Shows `take` the first `limit` bytes of `from` (all of it without a limit), piece by piece.
/// Returns how many there were.
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

/// Creates `to` and fills it by `fill`; it is synced and closed, or removed again on an error.
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
        // The error of the copy is the one that matters; what is left is dead weight.
        let _ = fs.remove(to);
    }
    done
}

/// Copies the first `limit` bytes of `from` (all of it without a limit) to `to`, which must not
/// exist. The copy is synced; its name is not. Both are then read again and compared: what is
/// copied may have no checksum, and a wrong byte would be found by a reader of the copy, or
/// never. The second reading comes from the page cache.
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

/// Refuses a `copy` that is not what `original` begins with.
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

/// Gives `from` the second name `to`, and syncs its content, which its writer may not have done.
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

/// True if `error` is that of a file that cannot be linked there, though it could be copied: it lies
/// on another device, or the file system has no links.
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
    use cairn_platform::World;
    use cairn_sim::{Call, Fault, FaultPlan, FaultRule, SimWorld, Trigger};

    #[test]
    fn a_copy_has_the_bytes_up_to_its_limit_and_no_more_than_there_are() {
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
        let crc = checksum::of_file(&*fs, "/d/a".as_ref()).unwrap();
        assert_eq!(crc, crc32c_extend(0, &content).to_be_bytes());
    }

    /// A bit that flipped while a file was copied was found by a reader of the copy, at best.
    #[test]
    fn a_bit_that_flips_on_the_way_is_found() {
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
