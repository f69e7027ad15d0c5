//! Groups that end concurrently, in every interleaving that loom explores: a group and all earlier ones are
//! visible when its `show` returns, and no thread sleeps forever. (`cargo xtask loom`.)

use super::*;
use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::thread;

/// Ends groups of these numbers of writes, each in its own thread except the last, which ends in this one.
fn explore(groups: &'static [u64], preemptions: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let order = Arc::new(Order::default());
        let ended: Arc<Vec<AtomicBool>> =
            Arc::new(groups.iter().map(|_| AtomicBool::new(false)).collect());
        let show = move |order: &Order, ended: &[AtomicBool], number: usize| {
            let before: u64 = groups[..number].iter().sum();
            let last = SequenceNumber(before + groups[number]);
            // Relaxed: a thread that sees the group as visible sees this, by the stores of the order itself
            // (O1).
            ended[number].store(true, Ordering::Relaxed);
            order.show(SequenceNumber(before), last);
            check(order, ended, groups);
            assert!(
                order.visible() >= last,
                "a group is visible when it is shown"
            );
        };
        let threads: Vec<_> = (1..groups.len())
            .map(|number| {
                let (order, ended) = (Arc::clone(&order), Arc::clone(&ended));
                thread::spawn(move || show(&order, &ended, number))
            })
            .collect();
        show(&order, &ended, 0);
        for thread in threads {
            thread.join().expect("it ends");
        }
        assert_eq!(order.visible().0, groups.iter().sum::<u64>());
        assert_eq!(order.early_count.load(Ordering::SeqCst), 0);
    });
}

/// Every group up to the visible number has ended (O1), and that number is the end of a group (O2).
fn check(order: &Order, ended: &[AtomicBool], groups: &[u64]) {
    let visible = order.visible().0;
    let mut last = 0;
    for (group, ended) in groups.iter().zip(ended) {
        if last >= visible {
            break;
        }
        last += group;
        assert!(
            *group == 0 || ended.load(Ordering::Relaxed),
            "shown before it ended"
        );
    }
    assert_eq!(last, visible, "the visible number is the end of a group");
}

#[test]
fn loom_two_groups() {
    explore(&[1, 2], 5);
}

#[test]
fn loom_three_groups() {
    explore(&[1, 2, 1], 3);
}

#[test]
fn loom_a_group_without_a_number_waits_for_those_before_it() {
    explore(&[1, 0, 1], 3);
}
