//! The memory available to the process: the smallest limit among its control groups, or the machine's memory.
//!
//! The limits of a group's ancestors apply as well, and a container usually sees its own group as the root.
//! Both hierarchies are read: version 2 (`memory.max` and `memory.high`) and version 1
//! (`memory.limit_in_bytes`). Missing and unreadable files set no limit.

use std::path::{Path, PathBuf};

/// The memory available to the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The limit in bytes.
    pub bytes: u64,
    /// The file with the limit: that of a control group, or `/proc/meminfo`.
    pub source: PathBuf,
}

/// The memory available to the process; `None` if the operating system does not report it.
#[must_use]
pub fn memory_limit() -> Option<MemoryLimit> {
    limit_of(&|path| std::fs::read_to_string(path).ok())
}

/// Returns the smallest limit in the files that `read` returns.
fn limit_of(read: &dyn Fn(&Path) -> Option<String>) -> Option<MemoryLimit> {
    let machine = machine_memory(read);
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let groups = groups.lines().flat_map(limit_files);
    let limits = groups.filter_map(|source| {
        let bytes = read(&source)?.trim().parse().ok()?;
        Some(MemoryLimit { bytes, source })
    });
    limits.chain(machine).min_by_key(|limit| limit.bytes)
}

/// The files that may limit the memory of the group in a line of `/proc/self/cgroup`, which is
/// `number:controllers:path`.
fn limit_files(line: &str) -> Vec<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else {
        return Vec::new();
    };
    let (root, names): (_, &[_]) = match controllers {
        "" => ("/sys/fs/cgroup", &["memory.max", "memory.high"]),
        _ if controllers.split(',').any(|one| one == "memory") => {
            ("/sys/fs/cgroup/memory", &["memory.limit_in_bytes"])
        }
        _ => return Vec::new(),
    };
    let group = Path::new(group.trim_start_matches('/'));
    let ancestors = group.ancestors();
    ancestors
        .flat_map(|dir| {
            names
                .iter()
                .map(move |name| Path::new(root).join(dir).join(name))
        })
        .collect()
}

/// The memory of the machine.
fn machine_memory(read: &dyn Fn(&Path) -> Option<String>) -> Option<MemoryLimit> {
    let source = PathBuf::from("/proc/meminfo");
    let text = read(&source)?;
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(MemoryLimit {
        bytes: kib * 1024,
        source,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn limit(files: &[(&str, &str)]) -> Option<(u64, String)> {
        let files: BTreeMap<&Path, &str> = files
            .iter()
            .map(|(path, text)| (Path::new(path), *text))
            .collect();
        let found = limit_of(&|path| files.get(path).map(|text| (*text).to_owned()))?;
        Some((found.bytes, found.source.to_string_lossy().into_owned()))
    }

    const MACHINE: (&str, &str) = (
        "/proc/meminfo",
        "MemTotal:       16000000 kB\nMemFree:         1 kB\n",
    );

    #[test]
    fn without_limits_the_machine_counts() {
        let machine = Some((16_000_000 * 1024, "/proc/meminfo".to_owned()));
        assert_eq!(limit(&[MACHINE]), machine);
        let groups = ("/proc/self/cgroup", "0::/a/b\n3:cpu,cpuacct:/c\n");
        let no_limit = ("/sys/fs/cgroup/a/b/memory.max", "max\n");
        assert_eq!(limit(&[MACHINE, groups, no_limit]), machine);
        assert_eq!(limit(&[]), None);
    }

    #[test]
    fn the_smallest_limit_of_the_group_and_its_ancestors_counts() {
        let groups = ("/proc/self/cgroup", "0::/a/b\n");
        let own = ("/sys/fs/cgroup/a/b/memory.max", "3000\n");
        let parent = ("/sys/fs/cgroup/a/memory.max", "2000\n");
        let root = ("/sys/fs/cgroup/memory.high", "1000\n");
        let found = |files: &[_]| limit(files).map(|(bytes, _)| bytes);
        assert_eq!(found(&[MACHINE, groups, own]), Some(3000));
        assert_eq!(found(&[MACHINE, groups, own, parent]), Some(2000));
        assert_eq!(found(&[groups, own, parent, root]), Some(1000));
        // Another group's.
        let other = ("/sys/fs/cgroup/a/c/memory.max", "1\n");
        assert_eq!(found(&[groups, own, other]), Some(3000));
    }

    #[test]
    fn version_one_is_read() {
        let groups = (
            "/proc/self/cgroup",
            "12:cpuset:/\n9:hugetlb,memory:/docker/x\n0::/y\n",
        );
        let unlimited = (
            "/sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes",
            "9223372036854771712\n",
        );
        // A container sees its own group as the root.
        let root = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "5000\n");
        let found = limit(&[MACHINE, groups, unlimited, root]).unwrap();
        assert_eq!(found.0, 5000);
        assert_eq!(
            limit(&[MACHINE, groups, unlimited]).unwrap().1,
            "/proc/meminfo"
        );
    }

    #[test]
    #[cfg_attr(miri, ignore = "reads files of the system")]
    fn this_system_has_a_limit() {
        let limit = memory_limit().expect("the system has a limit");
        assert!(limit.bytes > 16 << 20, "{limit:?}");
    }
}
