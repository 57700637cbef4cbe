//! The cache's worked example, and a comparison with a slow model of single sectors.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::*;

fn cache(segments: u32, segment_sectors: u32, write_segments: u32) -> SegmentCache {
    SegmentCache::new(&Cache {
        segments,
        segment_sectors,
        write_segments: Some(write_segments),
        ..Cache::default()
    })
}

fn row(start: u64, end: u64) -> Extent {
    Extent::from_numbers(start, end - start)
}

fn at(us: u64) -> Instant {
    Instant::from_ns(us * 1_000)
}

/// Reads `extent` from the media, and on to `ahead`.
fn read(cache: &mut SegmentCache, extent: Extent, ahead: u64, now: Instant) -> RowId {
    let id = cache.begin_read(extent.start).expect("a segment is clean");
    assert!(cache.append(id, extent.start, Lba::new(ahead), now));
    id
}

#[test]
fn the_worked_example_goes_as_it_says() {
    let mut cache = cache(3, 100, 1);
    let first = read(&mut cache, row(40, 48), 140, at(1));
    assert!(cache.holds(row(40, 140)) && cache.holds(row(48, 56)));
    assert!(cache.append(first, Lba::new(140), Lba::new(160), at(2)));
    assert!(!cache.holds(row(48, 56)) && cache.holds(row(60, 160)));

    cache.write(row(70, 78), at(3), 0).expect("a segment is free");
    assert_eq!(cache.held(row(60, 70)).sectors, Sectors::ZERO, "the shorter part is gone");
    assert_eq!(
        cache.held(row(70, 200)),
        CachedPrefix { sectors: Sectors::new(90), complete: at(3) },
        "two rows side by side are one for a reader"
    );
    let written = cache.write(row(78, 86), at(4), 0).expect("it continues the row");
    assert_eq!(cache.written_rows().map(|row| row.extent).collect::<Vec<_>>(), [row(70, 86)]);
    assert!(cache.holds(row(86, 160)));

    assert_eq!(cache.write(row(500, 508), at(5), 0), Err(WriteRefused::Full));
    cache.begin_save(written);
    assert_eq!(
        cache.write(row(500, 508), at(5), 0),
        Err(WriteRefused::Full),
        "on its way is not there yet"
    );
    cache.end_save(written);
    assert!(cache.holds(row(70, 86)) && !cache.overlaps_written(row(0, 1_000)));
    cache.touch(row(70, 86));

    read(&mut cache, row(900, 908), 908, at(6));
    read(&mut cache, row(2_000, 2_008), 2_008, at(7));
    assert!(!cache.holds(row(86, 160)) && cache.holds(row(70, 86)) && cache.holds(row(900, 908)));
    cache.self_check();
}

#[test]
fn a_read_that_continues_a_row_goes_on_in_its_segment_and_waits_only_for_what_is_new() {
    let mut cache = cache(2, 64, 1);
    let first = read(&mut cache, row(0, 8), 8, at(10));
    let second = read(&mut cache, row(8, 16), 16, at(20));
    assert_eq!(first, second);
    assert_eq!(
        cache.held(row(0, 8)),
        CachedPrefix { sectors: Sectors::new(8), complete: Instant::ORIGIN }
    );
    assert_eq!(
        cache.held(row(4, 20)),
        CachedPrefix { sectors: Sectors::new(12), complete: at(20) }
    );
}

#[test]
fn writes_that_touch_join_and_those_that_do_not_fit_wait() {
    let mut cache = cache(4, 16, 3);
    let a = cache.write(row(10, 14), at(1), 0).expect("free");
    let b = cache.write(row(20, 24), at(2), 1).expect("free");
    assert_ne!(a, b);
    // 12–22 overlaps both; 10–24 are 14 sectors and fit.
    cache.write(row(12, 22), at(3), 2).expect("it joins both");
    let rows: Vec<WrittenRow> = cache.written_rows().collect();
    assert_eq!(
        rows,
        [WrittenRow { id: a, extent: row(10, 24), arrived: at(3), mark: 0, urgent: false }]
    );
    assert_eq!(
        cache.write(row(20, 28), at(4), 3),
        Err(WriteRefused::Overlaps),
        "10–28 are more than a segment"
    );
    assert!(cache.written_rows().all(|row| row.urgent));
    assert_eq!(cache.write(row(100, 117), at(4), 3), Err(WriteRefused::TooLong));
    cache.begin_save(a);
    assert_eq!(
        cache.write(row(10, 12), at(4), 3),
        Err(WriteRefused::Overlaps),
        "what is leaving cannot change"
    );
    assert_eq!(cache.oldest_mark(), Some(0));
    cache.end_save(a);
    assert_eq!(cache.oldest_mark(), None);
    cache.self_check();
}

#[test]
fn a_row_that_was_taken_over_takes_nothing_more() {
    let mut cache = cache(1, 16, 1);
    let id = read(&mut cache, row(0, 4), 8, at(1));
    let written = cache.write(row(90, 94), at(2), 0).expect("the clean segment is replaced");
    assert!(!cache.append(id, Lba::new(8), Lba::new(12), at(3)));
    assert_eq!(cache.begin_read(Lba::new(300)), None, "the only segment holds written data");
    assert_eq!(cache.written_rows().map(|row| row.id).collect::<Vec<_>>(), [written]);
}

#[test]
#[should_panic(expected = "read past written data")]
fn reading_past_written_data_is_the_callers_fault() {
    let mut cache = cache(2, 64, 1);
    cache.write(row(10, 12), at(1), 0).expect("free");
    read(&mut cache, row(8, 16), 16, at(2));
}

/// The contents of each sector on the media and in each segment.
#[derive(Default)]
struct Model {
    media: BTreeMap<u64, u64>,
    rows: BTreeMap<usize, (bool, BTreeMap<u64, u64>)>,
}

impl Model {
    fn newest(&self, lba: u64) -> u64 {
        let written = self
            .rows
            .values()
            .find_map(|(written, row)| if *written { row.get(&lba) } else { None });
        written.or_else(|| self.media.get(&lba)).copied().unwrap_or(0)
    }

    /// The versions of a sector in all rows.
    fn shown(&self, lba: u64) -> Vec<u64> {
        self.rows.values().filter_map(|(_, row)| row.get(&lba).copied()).collect()
    }
}

/// Drives cache and model alike. The model takes from the cache only the choice of segment and the
/// kept rows. It checks that cached sectors have the latest version, that written data are never
/// lost, and that the cached prefix matches the single sectors.
#[test]
fn it_holds_the_newest_version_of_everything_it_says_it_holds() {
    for seed in 0..80 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (segments, sectors) = (rng.random_range(1..6_u32), rng.random_range(1..24_u32));
        let mut cache = cache(segments, sectors, rng.random_range(1..=segments));
        let mut model = Model::default();
        let mut leaving: Vec<WrittenRow> = Vec::new();
        for version in 1..=250_u64 {
            let start = rng.random_range(0..60_u64);
            let extent = Extent::from_numbers(start, rng.random_range(1..12));
            let lbas = || extent.start.get()..extent.end().get();
            let now = at(version);
            match rng.random_range(0..5) {
                0 | 1 => {
                    // A read as a drive does it: the cached sectors, then the rest from the media
                    // up to written data.
                    let from = Lba::new(extent.start.get() + cache.held(extent).sectors.get());
                    let to = cache.next_unsaved(from).unwrap_or(Lba::new(90)).min(extent.end());
                    cache.touch(extent);
                    if from < to
                        && let Some(id) = cache.begin_read(from)
                    {
                        let taken = model.rows.entry(id.segment).or_default();
                        let kept = &cache.segments[id.segment];
                        taken.1.retain(|lba, _| (kept.start..kept.end).contains(lba));
                        taken.0 = false;
                        assert!(cache.append(id, from, to, now), "seed {seed}");
                        for lba in from.get()..to.get() {
                            let version = model.media.get(&lba).copied().unwrap_or(0);
                            model.rows.entry(id.segment).or_default().1.insert(lba, version);
                        }
                    }
                }
                2 => {
                    if let Ok(id) = cache.write(extent, now, version) {
                        // Joined rows give their sectors to the remaining one.
                        let row = cache.segments[id.segment].extent();
                        let joined: BTreeMap<u64, u64> = model
                            .rows
                            .values()
                            .filter(|(written, _)| *written)
                            .flat_map(|(_, row)| row.clone())
                            .collect();
                        let within =
                            joined.into_iter().filter(|(lba, _)| row.contains(Lba::new(*lba)));
                        let mut contents: BTreeMap<u64, u64> = within.collect();
                        contents.extend(lbas().map(|lba| (lba, version)));
                        assert_eq!(
                            contents.len() as u64,
                            row.len.get(),
                            "seed {seed}: the row has sectors that nobody wrote"
                        );
                        model.rows.insert(id.segment, (true, contents));
                    }
                }
                3 => {
                    // A write to the media, only without written data in the way.
                    if !cache.overlaps_written(extent) {
                        cache.forget(extent);
                        model.media.extend(lbas().map(|lba| (lba, version)));
                    }
                }
                _ => {
                    let rows: Vec<WrittenRow> = cache.written_rows().collect();
                    if !rows.is_empty() && rng.random_bool(0.6) {
                        let chosen = rows[rng.random_range(0..rows.len())];
                        cache.begin_save(chosen.id);
                        leaving.push(chosen);
                    } else if let Some(saved) = leaving.pop() {
                        cache.end_save(saved.id);
                        let (written, row) =
                            model.rows.get_mut(&saved.id.segment).expect("it was written");
                        *written = false;
                        model.media.extend(row.iter().map(|(lba, version)| (*lba, *version)));
                    }
                }
            }
            cache.self_check();
            // The model's rows follow the cache's.
            for (index, (_, row)) in &mut model.rows {
                let kept = &cache.segments[*index];
                row.retain(|lba, _| (kept.start..kept.end).contains(lba));
            }
            for (index, segment) in cache.segments.iter().enumerate() {
                let row = model.rows.get(&index).map_or(0, |(_, row)| row.len() as u64);
                assert_eq!(
                    row,
                    segment.end - segment.start,
                    "seed {seed}, version {version}: segment {index} holds {}",
                    segment.extent()
                );
            }
            for lba in 0..90 {
                let newest = model.newest(lba);
                assert!(
                    model.shown(lba).iter().all(|shown| *shown == newest),
                    "seed {seed}, version {version}: sector {lba} is stale"
                );
                assert_eq!(
                    cache.holds(row(lba, lba + 1)),
                    !model.shown(lba).is_empty(),
                    "seed {seed}, version {version}: sector {lba}"
                );
            }
            let probe = row(rng.random_range(0..60), 75);
            let one_by_one = (probe.start.get()..75)
                .take_while(|lba| cache.holds(row(*lba, lba + 1)))
                .count() as u64;
            assert_eq!(
                cache.held(probe).sectors.get(),
                one_by_one,
                "seed {seed}, version {version}"
            );
        }
    }
}
