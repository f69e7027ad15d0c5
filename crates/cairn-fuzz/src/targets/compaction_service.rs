//! Requests and results of remote compactions.

use cairn_format::compaction_service::{Reply, Request};

/// Decodes the input as a request and as a result.
pub fn run(data: &[u8]) {
    if let Ok(request) = Request::decode(data) {
        let again = Request::decode(&request.encode());
        assert_eq!(again.expect("an encoded request is decoded"), request);
    }
    if let Ok(reply) = Reply::decode(data) {
        let again = Reply::decode(&reply.encode()).expect("an encoded result is decoded");
        assert_eq!(again.output_files.len(), reply.output_files.len());
    }
}
