//! One scenario, and the order in which each policy sends it: the golden order, which the page of
//! the policy computes by hand.
//!
//! Request 0 reads LBA 72 (cylinder 3, head 0, sector 0) and is sent before the others arrive, all
//! at time 0:
//!
//! | id | LBA | cylinder | head | sector | due |
//! |---|---|---|---|---|---|
//! | 1 | 146 | 6 | 0 | 2 | – |
//! | 2 | 24 | 1 | 0 | 0 | 60 ms |
//! | 3 | 75 | 3 | 0 | 3 | – |
//! | 4 | 25 | 1 | 0 | 1 | 20 ms |
//! | 5 | 95 | 3 | 2 | 7 | 20 ms |
//! | 6 | 0 | 0 | 0 | 0 | – |
//!
//! Times below are at the medium; a revolution is 8 ms, sector s passes at s ms + n × 8 ms, a seek
//! of d is 0.8 + 0.2 d ms. Request 0: overhead until 0.2, seek of 3 until 1.6, sector 0 at 8.0,
//! done at 9.0; reported at 9.1.

use std::fs;

use headtime_sched::POLICIES;

use crate::session::{Setup, due, read};

fn order_of(policy: &str) -> Vec<u64> {
    let requests = [
        read(1, 146, 1),
        due(read(2, 24, 1), 60),
        read(3, 75, 1),
        due(read(4, 25, 1), 20),
        due(read(5, 95, 1), 20),
        read(6, 0, 1),
    ];
    order_after_request_0(policy, &requests)
}

/// The order of request 0 and these, which all arrive once it is sent.
fn order_after_request_0(policy: &str, requests: &[headtime_sched::Request]) -> Vec<u64> {
    let mut session = Setup::of(policy).start();
    session.accept(read(0, 72, 1));
    session.pump();
    for request in requests {
        session.accept(*request);
    }
    session.run_to_end();
    session.served()
}

/// The golden order is in the first line under `## Golden order` in the page.
#[test]
fn every_policy_sends_the_scenario_in_the_golden_order_of_its_page() {
    for entry in POLICIES {
        let name = entry.name;
        let path = format!("{}/../../docs/policies/{name}.md", env!("CARGO_MANIFEST_DIR"));
        let page = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let golden = page
            .split_once("\n## Golden order\n\n")
            .and_then(|(_, section)| section.lines().next());
        let order: Vec<String> = order_of(name).iter().map(u64::to_string).collect();
        let sent = format!("`{}`", order.join(", "));
        assert_eq!(
            golden,
            Some(sent.as_str()),
            "policy {name} sends the scenario of this file in another order than {path} says; \
                compute the order by hand, and if {sent} is right put it into the page:\n\n\
                ## Golden order\n\n{sent}\n"
        );
    }
}

/// Request 1 reads LBA 99 (cylinder 4, sector 3), request 2 LBA 76 (cylinder 3, sector 4). From
/// cylinder 3 at 9.0: 1 starts at 11, after a seek until 10.0; 2 starts at 12. 3 ms are within 60 %
/// of 2 ms, but not within 40 %, and 2 needs no seek.
#[test]
fn sptf_sw_prefers_a_short_seek_within_its_percentage() {
    let order = |policy| order_after_request_0(policy, &[read(1, 99, 1), read(2, 76, 1)]);
    assert_eq!((order("sptf"), order("sptf-sw")), (vec![0, 1, 2], vec![0, 2, 1]));
    assert_eq!(order("sptf-sw:within_percent=40"), [0, 1, 2]);
}

/// Request 1 reads LBA 74 (cylinder 3, sector 2), request 2 LBA 99 (cylinder 4, sector 3). From
/// cylinder 3 at 9.0: 1 starts at 10, 2 at 11 after a seek until 10.0. After 1, at 11.0, the seek
/// ends at 12.0 and 2 is just missed: 19, done at 20. After 2, at 12.0, 1 starts at 18: done at 19.
#[test]
fn beam_oracle_takes_the_second_best_when_the_best_costs_more_afterwards() {
    let order = |policy| order_after_request_0(policy, &[read(1, 74, 1), read(2, 99, 1)]);
    assert_eq!((order("sptf-oracle"), order("beam-oracle")), (vec![0, 1, 2], vec![0, 2, 1]));
    // A plan of one command is the shortest positioning time, and so is a beam of one plan.
    assert_eq!(order("beam-oracle:depth=1"), [0, 1, 2]);
    assert_eq!(order("beam-oracle:width=1"), [0, 1, 2]);
}

/// Settings that change the order of the scenario, or that must not.
#[test]
fn settings_change_the_golden_order_as_computed_by_hand() {
    for (policy, order) in [
        ("firmware:depth=2", [0, 1, 2, 3, 4, 5, 6]),
        // Two commands outstanding, all requests of one age: as `sptf`.
        ("sptf-expected:two_from_requests=1", [0, 3, 5, 1, 2, 4, 6]),
        // 3 is nearest to the head (3), then 5 after 3 (4), 1 after 5 (3), each at the end. Nearest
        // to those is 2 after 3 (5): at the end it adds 6, elsewhere more. So does 6 after 3 (5), 8
        // at the end; and 4 after 3 (6): between 2 and 6 it adds 9 + 7 - 8 = 8, as much as after 5
        // or 1; at the end 9.
        ("satf-map:nearest_first=1", [0, 3, 5, 1, 2, 4, 6]),
        ("fsatf-map:nearest_first=1", [0, 3, 5, 1, 2, 4, 6]),
        // The shortest step from each: 3, 5, 1, then 2 and 6 at 6 each, and from 2 on 6 at 8.
        ("fsatf-map:nearest_first=2", [0, 3, 5, 1, 2, 6, 4]),
        // Six requests are too many: by insertion.
        ("fsatf-map-exact:exact_most=5", [0, 3, 5, 1, 4, 2, 6]),
        // One at a time is the order of deadlines.
        ("g-matrix:lookahead_k=1", [0, 4, 5, 2, 1, 3, 6]),
        // At 9.1 all requests have waited for 5 ms: each goes in the order of arrival, but 4 begins
        // where 2 ends and belongs to its batch.
        ("deadline:read_expire_ms=5", [0, 1, 2, 4, 3, 5, 6]),
        // Without a way back the sweep starts again at the lowest address.
        ("cfq:back_max_sectors=0", [0, 3, 5, 1, 6, 2, 4]),
    ] {
        assert_eq!(order_of(policy), order, "{policy}");
    }
}
