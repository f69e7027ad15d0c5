//! What the process has used, as the kernel counts it.
//!
//! Processor time is the process's clock (what getrusage adds up, in nanoseconds, all threads).
//! Bytes are those of `/proc/self/io`: what reached the block layer (pages made dirty, so that a
//! store into a mapped log counts), and what went through read and write calls. On a file system
//! without a device (tmpfs) only the latter are counted.

/// Counters of the process since it began, or their growth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Nanoseconds of the processor, in all threads.
    pub cpu_nanos: u64,
    /// Bytes read from devices.
    pub device_read: u64,
    /// Bytes to be written to devices.
    pub device_written: u64,
    /// Bytes that read calls returned.
    pub calls_read: u64,
    /// Bytes that write calls took.
    pub calls_written: u64,
}

impl Usage {
    /// The counters now.
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
        }
    }

    /// The growth since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Usage) -> Usage {
        Usage {
            cpu_nanos: self.cpu_nanos.saturating_sub(earlier.cpu_nanos),
            device_read: self.device_read.saturating_sub(earlier.device_read),
            device_written: self.device_written.saturating_sub(earlier.device_written),
            calls_read: self.calls_read.saturating_sub(earlier.calls_read),
            calls_written: self.calls_written.saturating_sub(earlier.calls_written),
        }
    }

    /// Adds what was used at another time.
    pub fn add(&mut self, other: &Usage) {
        self.cpu_nanos += other.cpu_nanos;
        self.device_read += other.device_read;
        self.device_written += other.device_written;
        self.calls_read += other.calls_read;
        self.calls_written += other.calls_written;
    }

    /// Bytes written: to devices, or where there is none, by calls.
    #[must_use]
    pub fn written(&self) -> u64 {
        match self.device_written {
            0 => self.calls_written,
            bytes => bytes,
        }
    }
}

/// Makes the peak of resident memory begin anew.
pub fn reset_peak() {
    // Where the kernel does not allow it, the peak is that of the whole process.
    drop(std::fs::write("/proc/self/clear_refs", "5"));
}

/// Most bytes of resident memory since [`reset_peak`].
#[must_use]
pub fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    field(&status, "VmHWM:") * 1024
}

/// The number behind `name` in a file of lines; 0 if it is not there.
fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let word = line.and_then(|rest| rest.split_whitespace().next());
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_grow_by_what_was_done() {
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
    fn the_peak_is_of_the_time_since_it_was_reset() {
        reset_peak();
        let low = peak_memory();
        let block = vec![1u8; 64 << 20];
        assert!(std::hint::black_box(&block).len() == 64 << 20);
        assert!(peak_memory() >= low + (60 << 20), "{low} {}", peak_memory());
    }
}
