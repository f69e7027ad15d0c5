//! Resource usage of the process, as counted by the kernel.
//!
//! CPU time is that of the process clock (the same as getrusage, in nanoseconds, for all threads). Bytes are
//! those of `/proc/self/io`: I/O at the block layer (including dirtied pages, so that stores to a mapped log
//! count), and the bytes of read and write calls. On a file system without a device (tmpfs), only the latter
//! are counted.

/// Counters of the process since its start, or their increase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time of all threads, in nanoseconds.
    pub cpu_nanos: u64,
    /// Bytes read from devices.
    pub device_read: u64,
    /// Bytes written to devices.
    pub device_written: u64,
    /// Bytes read by system calls.
    pub calls_read: u64,
    /// Bytes written by system calls.
    pub calls_written: u64,
    /// Number of system calls that read.
    pub read_calls: u64,
}

impl Usage {
    /// Returns the current counters.
    #[must_use]
    pub fn now() -> Usage {
        let clock = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
        Usage {
            cpu_nanos: clock.tv_sec.unsigned_abs() * 1_000_000_000 + clock.tv_nsec.unsigned_abs(),
            device_read: field(&io, "read_bytes:"),
            device_written: field(&io, "write_bytes:"),
            calls_read: field(&io, "rchar:"),
            calls_written: field(&io, "wchar:"),
            read_calls: field(&io, "syscr:"),
        }
    }

    /// Returns the increase since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Usage) -> Usage {
        Usage {
            cpu_nanos: self.cpu_nanos.saturating_sub(earlier.cpu_nanos),
            device_read: self.device_read.saturating_sub(earlier.device_read),
            device_written: self.device_written.saturating_sub(earlier.device_written),
            calls_read: self.calls_read.saturating_sub(earlier.calls_read),
            calls_written: self.calls_written.saturating_sub(earlier.calls_written),
            read_calls: self.read_calls.saturating_sub(earlier.read_calls),
        }
    }

    /// Adds the usage of another period.
    pub fn add(&mut self, other: &Usage) {
        self.cpu_nanos += other.cpu_nanos;
        self.device_read += other.device_read;
        self.device_written += other.device_written;
        self.calls_read += other.calls_read;
        self.calls_written += other.calls_written;
        self.read_calls += other.read_calls;
    }

    /// Returns the bytes written to devices, or by system calls if there is no device.
    #[must_use]
    pub fn written(&self) -> u64 {
        match self.device_written {
            0 => self.calls_written,
            bytes => bytes,
        }
    }
}

/// Resets the peak of resident memory.
pub fn reset_peak() {
    // If the kernel does not permit the reset, the peak covers the lifetime of the process.
    drop(std::fs::write("/proc/self/clear_refs", "5"));
}

/// Returns the peak resident memory since [`reset_peak`], in bytes.
#[must_use]
pub fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    field(&status, "VmHWM:") * 1024
}

/// Returns the number after `name` in a text of lines; 0 if it is missing.
pub(crate) fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let word = line.and_then(|rest| rest.split_whitespace().next());
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_grow_with_work() {
        let text = "rchar: 12\nread_bytes: 7\nVmHWM:\t  34 kB\n";
        assert_eq!((field(text, "read_bytes:"), field(text, "VmHWM:")), (7, 34));
        assert_eq!(field(text, "nothing:"), 0);
        let before = Usage::now();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("x"), vec![1; 100_000]).unwrap();
        let used = Usage::now().since(&before);
        assert!(
            used.calls_written >= 100_000 && used.cpu_nanos > 0,
            "{used:?}"
        );
        assert!(used.written() > 0);
    }

    #[test]
    fn the_peak_covers_the_time_since_its_reset() {
        reset_peak();
        let low = peak_memory();
        let block = vec![1u8; 64 << 20];
        assert!(std::hint::black_box(&block).len() == 64 << 20);
        // Other tests free memory concurrently.
        assert!(peak_memory() >= low + (32 << 20), "{low} {}", peak_memory());
    }
}
