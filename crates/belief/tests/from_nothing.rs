//! A compact map that learns a simulated drive without a profile: the cost of a completion, the
//! share of the drive that becomes known, and the repeatability of the result.

#[path = "common/unit.rs"]
mod unit;

use headtime_belief::DriveModel;
use headtime_belief::compact::CompactSettings;
use headtime_belief::matrix::MappedDrive;
use headtime_mechanics::{DriveProfile, catalog};
use unit::Unit;

fn load(name: &str) -> DriveProfile {
    catalog::load(name).expect("a profile of the catalog")
}

fn nothing(profile: &DriveProfile) -> DriveModel {
    let mapped = MappedDrive {
        model: profile.model.clone(),
        capacity: profile.capacity(),
        sector: profile.sector_size().expect("a valid profile"),
    };
    DriveModel::mapped_from_nothing(
        mapped,
        profile.rotation_period().expect("a valid profile"),
        CompactSettings::default(),
    )
    .expect("a valid profile")
}

/// Counts the operations of the search for each completion: no completion waits for a search, on
/// small and large drives, before, while and after zones are found.
#[test]
fn no_completion_does_more_of_a_search_than_a_bounded_slice() {
    for (drive, requests) in
        [("nearline-20tb@nocache", 24_000), ("cheetah15k5", 12_000), ("atlas10k", 12_000)]
    {
        let profile = load(drive);
        let (mut unit, mut belief) = (Unit::draw(&profile, 3), nothing(&profile));
        let (mut most, mut all) = (0, 0);
        for request in 0..requests {
            unit.read_anywhere(&mut belief);
            let searched = belief.searched();
            assert!(
                searched <= DriveModel::MAX_SEARCHED,
                "{drive}: {searched} operations with request {request}"
            );
            (most, all) = (most.max(searched), all + searched);
        }
        // The searches were much longer than the longest slice.
        assert!(
            all > 10 * DriveModel::MAX_SEARCHED && most > DriveModel::MAX_SEARCHED / 4,
            "{drive}: {all} operations in all, {most} at most"
        );
        assert!(
            belief.map().expect("the model has a map").known_share() > 0.9,
            "{drive}: {:.2} of it known",
            belief.map().expect("the model has a map").known_share()
        );
    }
}

/// A search in slices gives the result of a search in one piece: the same observations make the
/// same map, byte for byte.
#[test]
fn the_same_observations_make_the_same_map() {
    let profile = load("atlas10k");
    let learned = || {
        let (mut unit, mut belief) = (Unit::draw(&profile, 4), nothing(&profile));
        for _ in 0..5_000 {
            unit.read_anywhere(&mut belief);
        }
        belief.map().expect("the model has a map").encode()
    };
    assert_eq!(learned(), learned());
}

/// A map that is saved during a search loses only the search: the resumed map has the same segments
/// and finds the rest.
#[test]
fn a_map_saved_during_a_search_resumes_with_its_segments() {
    let profile = load("cheetah10k7@papers");
    let (mut unit, mut belief) = (Unit::draw(&profile, 5), nothing(&profile));
    let mut searching = 0;
    for _ in 0..60_000 {
        unit.read_anywhere(&mut belief);
        searching = if belief.searched() > 0 { searching + 1 } else { 0 };
        if belief.map().expect("the model has a map").regions() > 0 && searching > 2 {
            break;
        }
    }
    let (saved, memory) =
        (belief.map().expect("the model has a map").encode(), CompactSettings::default().memory);
    let map =
        headtime_belief::compact::CompactMap::decode(&saved, memory).expect("it was just saved");
    let mut again = DriveModel::of_map(map);
    assert_eq!(
        (
            again.map().expect("the model has a map").regions(),
            again.map().expect("the model has a map").known_share()
        ),
        (
            belief.map().expect("the model has a map").regions(),
            belief.map().expect("the model has a map").known_share()
        )
    );
    let (mut right, mut away) = (0, 0);
    for request in 0..12_000 {
        let outcome = unit.read_anywhere(&mut again);
        if request >= 9_000 && !outcome.at_the_edge {
            (right, away) = (right + u32::from(outcome.right), away + 1);
        }
    }
    assert!(
        again.map().expect("the model has a map").known_share() > 0.95 && right * 100 > away * 80,
        "{right} of {away} right, {:.2} known",
        again.map().expect("the model has a map").known_share()
    );
}

/// Completions with a random delay of whole turns carry no information on angles. No region of the
/// drive is ever taken as known by chance.
#[test]
fn nothing_becomes_known_of_a_drive_with_random_completion_times() {
    for drive in ["atlas10k", "cheetah10k7@papers", "savvio15k2@nocache"] {
        for seed in 1..=3 {
            let mut profile = load(drive);
            profile.variation.jitter_us = 20_000.0;
            let (mut unit, mut belief) = (Unit::draw(&profile, seed), nothing(&profile));
            let mut searched = 0;
            for request in 0..8_000 {
                unit.read_anywhere(&mut belief);
                searched += belief.searched();
                assert_eq!(
                    belief.map().expect("the model has a map").regions(),
                    0,
                    "{drive}, seed {seed}: after {request} requests {:.2} are taken as known",
                    belief.map().expect("the model has a map").known_share()
                );
            }
            assert!(searched > 5_000_000, "{drive}, seed {seed}: {searched} operations tried");
        }
    }
}

/// Known angles are right to within a twentieth of a turn, also on drives for which the search was
/// not tuned.
#[test]
fn known_angles_are_right() {
    for (drive, seed) in
        [("savvio15k2@nocache", 21), ("savvio10k2@nocache", 22), ("deskstar34gxp", 23)]
    {
        let mut profile = load(drive);
        profile.cache = None;
        let (mut unit, mut belief) = (Unit::draw(&profile, seed), nothing(&profile));
        for _ in 0..16_384 {
            unit.read_anywhere(&mut belief);
        }
        let (known, wrong) = unit::known_and_wrong(&belief, unit.truth(), seed);
        println!("{drive}, seed {seed}: {known:.1} % known, {wrong:.1} % of that wrong");
        assert!(
            known > 90.0 && wrong < 10.0,
            "{drive}, seed {seed}: {known:.1} % known, {wrong:.1} % of that wrong"
        );
    }
}
