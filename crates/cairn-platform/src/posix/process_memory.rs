//! The resident memory of the process, as the kernel counts it.

/// Resident memory of the process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessMemory {
    /// All of it.
    pub resident: u64,
    /// Memory of the allocator, of arenas and of stacks.
    pub anonymous: u64,
    /// Mapped files: the program itself, windows of logs, tables read through mappings.
    pub files: u64,
}

/// The resident memory of the process; `None` if the kernel does not report it.
#[must_use]
pub fn process_memory() -> Option<ProcessMemory> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a file of the kernel, not of a database"
    )]
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    parse(&status)
}

/// Returns free memory of the C library's allocator to the kernel, if the library has a function for it. Otherwise
/// memory that was freed below memory in use stays resident. The heaps are locked one after the other.
pub fn trim_heap() {
    #[cfg(all(target_env = "gnu", not(miri)))]
    gnu::trim();
}

#[cfg(all(target_env = "gnu", not(miri)))]
#[expect(unsafe_code, reason = "a call of the C library")]
mod gnu {
    unsafe extern "C" {
        fn malloc_trim(pad: usize) -> i32;
    }

    pub(super) fn trim() {
        // SAFETY: may be called at any time, concurrently with other threads.
        unsafe { malloc_trim(0) };
    }
}

fn parse(status: &str) -> Option<ProcessMemory> {
    let kibibytes = |name: &str| -> Option<u64> {
        let mut lines = status.lines();
        let rest = lines.find_map(|line| line.strip_prefix(name))?;
        rest.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    Some(ProcessMemory {
        resident: kibibytes("VmRSS:")? << 10,
        anonymous: kibibytes("RssAnon:").unwrap_or(0) << 10,
        files: kibibytes("RssFile:").unwrap_or(0) << 10,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_the_kernel_are_read() {
        let status =
            "Name:\tx\nVmRSS:\t    2048 kB\nRssAnon:\t    1024 kB\nRssFile:\t       4 kB\n";
        let expected = ProcessMemory {
            resident: 2 << 20,
            anonymous: 1 << 20,
            files: 4 << 10,
        };
        assert_eq!(parse(status), Some(expected));
        assert_eq!(parse("Name:\tx\n"), None);
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn a_process_has_memory() {
        assert!(process_memory().unwrap().resident > 100 << 10);
    }
}
