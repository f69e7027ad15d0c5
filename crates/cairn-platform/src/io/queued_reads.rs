//! Reads that were put into a queue and are finished together.

use std::sync::Arc;

use cairn_types::Result;

use super::{BatchRead, FileReads, ReadQueue, ReadRequest};
use crate::buffer::Buffer;

/// The reads of a batch of requests, with the queue of their transfers.
pub(super) struct QueuedReads {
    /// By file, in the order of the requests.
    files: Vec<FileReads>,
    pub(super) queue: ReadQueue,
}

fn same_file(a: &ReadRequest, b: &ReadRequest) -> bool {
    Arc::ptr_eq(&a.file, &b.file)
}

/// Starts `reads` of the file of `request`.
#[inline]
fn start_file(request: &ReadRequest, reads: Vec<BatchRead>, queue: &mut ReadQueue) -> FileReads {
    let mut reads = FileReads::new(reads);
    queue.add_file();
    request.file.start_reads(&mut reads, queue);
    reads
}

impl QueuedReads {
    /// Starts `requests` in the empty `queue`. Successive requests of a file are one call to it.
    #[inline]
    pub(super) fn start(requests: &[ReadRequest], mut queue: ReadQueue) -> QueuedReads {
        let start = |of_file: &[ReadRequest]| {
            let read = |request: &ReadRequest| {
                BatchRead::new(request.offset, request.len, request.allocation)
            };
            let reads = of_file.iter().map(read).collect();
            start_file(&of_file[0], reads, &mut queue)
        };
        let mut files = Vec::with_capacity(requests.chunk_by(same_file).count());
        files.extend(requests.chunk_by(same_file).map(start));
        QueuedReads { files, queue }
    }

    /// Starts `request` in the empty `queue`, into the memory of `spent` if it fits.
    pub(super) fn start_one(
        request: &ReadRequest,
        spent: Option<Buffer>,
        mut queue: ReadQueue,
    ) -> QueuedReads {
        let read = BatchRead::new_into(request.offset, request.len, request.allocation, spent);
        let files = vec![start_file(request, vec![read], &mut queue)];
        QueuedReads { files, queue }
    }

    /// Frees the memory that [`QueuedReads::finish`] does not need. The caller waits for the times of the queue.
    pub(super) fn shrink(&mut self) {
        self.queue.forget_times();
        self.files.iter_mut().for_each(FileReads::shrink);
    }

    /// Returns the results, in the order of `requests`, with which the reads were started. All that they wait for has
    /// happened.
    #[inline]
    pub(super) fn finish(mut self, requests: &[ReadRequest]) -> Vec<Result<Buffer>> {
        let mut results = Vec::with_capacity(requests.len());
        for (reads, of_file) in self.files.iter_mut().zip(requests.chunk_by(same_file)) {
            of_file[0].file.finish_reads(reads, &mut self.queue);
            for (read, request) in reads.reads.drain(..).zip(of_file) {
                let (got, memory) = read.into_memory();
                let checked = got.and_then(|got| request.check(got));
                results.push(checked.map(|()| Buffer::of(memory, request.len)));
            }
        }
        results
    }
}
