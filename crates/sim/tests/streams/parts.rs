//! The minimum part of the disk time of volumes without runs.

use super::rates::{rates, rates_under};

/// Almost every request of the many costs less than one of the lone client.
const MANY: &str = "{ clients = 32, size = '64KiB', range = '1%..3%' }";
const LONE: &str = "{ clients = 1, size = '32KiB', range = '48%..78%', think = { kind = \
    'exponential', mean = '5ms' } }";

#[test]
fn a_lone_client_keeps_half_of_its_part_beside_many() {
    for drive in ["nearline-20tb", "atlas10k"] {
        let ([many, lone], starved) = (both("headtime", drive), both("sptf-expected", drive)[1]);
        let [many_alone, lone_alone] = [MANY, LONE].map(|stream| rates(drive, &[stream])[0]);
        assert!(lone > 4.0 * starved && lone > 0.14 * lone_alone, "{drive}: {lone} {starved}");
        assert!(many > 0.55 * many_alone, "{drive}: {many} of {many_alone}");
    }
}

fn both(policy: &str, drive: &str) -> [f64; 2] {
    rates_under(policy, drive, &[MANY, LONE]).try_into().expect("there are two streams")
}

#[test]
fn volumes_that_have_their_parts_are_served_by_cost() {
    let streams = ["20%..60%", "40%..80%"]
        .map(|range| format!("{{ clients = 8, size = '8KiB', range = '{range}' }}"));
    let streams = streams.each_ref().map(String::as_str);
    let [by_parts, by_cost] = ["headtime", "sptf-expected"]
        .map(|policy| rates_under(policy, "nearline-20tb", &streams).iter().sum::<f64>());
    assert!(by_parts > 0.99 * by_cost, "{by_parts} requests/s, by cost alone {by_cost}");
}

#[test]
fn readers_keep_half_of_their_part_where_the_drive_would_order_writes() {
    let readers = "{ clients = 4, size = '8KiB', range = '1%..31%' }";
    let mixed = "{ clients = 16, reads = 0.5, size = '64KiB', range = '30%..95%' }";
    let alone = rates("barracuda-2tb", &[readers])[0];
    let [kept, by_drive] = ["headtime", "firmware"]
        .map(|policy| rates_under(policy, "barracuda-2tb", &[readers, mixed])[0]);
    assert!(
        kept > 0.16 * alone && kept > 2.0 * by_drive,
        "{kept} of {alone} reads/s, in the order of the drive {by_drive}"
    );
}
