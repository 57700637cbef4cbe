//! A compact map that learns a drawn unit from nothing: what a completion costs, what it comes to
//! know, and that it does so again.

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

/// Operations of the search with each completion, counted: no completion waits for a search, on a
/// small drive or a large one, while nothing is known, while zones are found and afterwards.
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
        // Searches that were ten times as long as the longest slice, or more.
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

/// A search goes on from slice to slice as it would have in one piece: the same observations make
/// the same map, byte for byte.
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

/// A map that is saved while a search is at work loses the search and nothing else: whoever goes on
/// with it knows the same segments and finds the rest.
#[test]
fn a_map_saved_during_a_search_goes_on_from_what_was_known() {
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
        let told = unit.read_anywhere(&mut again);
        if request >= 9_000 && !told.at_the_edge {
            (right, away) = (right + u32::from(told.right), away + 1);
        }
    }
    assert!(
        again.map().expect("the model has a map").known_share() > 0.95 && right * 100 > away * 80,
        "{right} of {away} right, {:.2} known",
        again.map().expect("the model has a map").known_share()
    );
}

/// Completions that come late by turns at random say nothing of angles, and no region of the drive
/// is ever taken as understood by chance, however often it is tried.
#[test]
fn nothing_is_understood_of_a_drive_whose_completions_come_at_random() {
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
                    "{drive}, seed {seed}: after {request} requests {:.2} are believed known",
                    belief.map().expect("the model has a map").known_share()
                );
            }
            assert!(searched > 5_000_000, "{drive}, seed {seed}: {searched} operations tried");
        }
    }
}

/// What is known and wrong, in twentieths of a turn: units of other models than the search was made
/// with.
#[test]
fn what_is_taken_as_understood_lies_where_it_is_believed() {
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
