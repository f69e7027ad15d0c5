//! Regression scripts: each is run under several seeds and crashed, or run with the faults that
//! once broke it.

use cairn_model::Script;
use cairn_model::cairn_factory::CairnFactory;
use cairn_model::crash::{Effort, crash};
use cairn_model::fault::{Counts, Faulty};
use cairn_model::run::run;
use cairn_sim::Fault;

macro_rules! regressions {
    ($($name:ident: $file:literal,)+) => {$(
        #[test]
        fn $name() {
            let script: Script = include_str!(concat!("../regressions/", $file)).parse().unwrap();
            for seed in 1..10 {
                if let Err(failure) = run(&CairnFactory, &script, seed) {
                    panic!("seed {seed}: {failure}");
                }
            }
            let effort = Effort {
                images_per_moment: 2,
                nest_one_in: 0,
                ..Effort::quick()
            };
            if let Err(failure) = crash(&CairnFactory, &script, 1, &effort) {
                panic!("{failure}");
            }
        }
    )+};
}

regressions! {
    current_names_a_manifest_that_is_there: "manifest-name.txt",
    an_append_to_the_manifest_lacks_a_sector: "manifest-sectors.txt",
    inputs_of_a_compaction_go: "compacted-away.txt",
    a_job_of_a_dropped_family_leaves_nothing: "job-of-dropped-family.txt",
    the_last_job_of_a_dropped_family_lets_go: "last-job-of-dropped-family.txt",
    late_help_holds_nothing: "late-helper.txt",
    logs_go_with_their_family: "log-of-dropped-family.txt",
    a_log_says_what_came_before: "predecessor.txt",
    an_old_range_deletion_stays_above_keys_of_lower_levels: "timestamps-range-deletion.txt",
    a_blob_is_found_by_a_key_with_an_old_timestamp: "timestamps-blobs.txt",
    operands_stay_above_a_range_deletion_with_their_timestamp: "timestamps-merge-over-tombstone.txt",
    a_blob_is_found_below_operands_with_newer_timestamps: "timestamps-blobs-below-operands.txt",
}

#[test]
fn a_failed_log_after_a_memtable_switch_is_not_needed() {
    let text = include_str!("../regressions/log-failed-behind-switch.txt");
    let script: Script = text.parse().unwrap();
    let faulty = Faulty::new(&CairnFactory, &script, 4).unwrap_or_else(|f| panic!("{f}"));
    let mut counts = Counts::default();
    for point in faulty.cases(usize::MAX) {
        if point.fault == Fault::ShortWrite
            && let Err(failure) = faulty.case(&point, &mut counts)
        {
            panic!("{point:?}: {failure}");
        }
    }
    assert!(counts.stopped > 10, "{counts:?}");
}
