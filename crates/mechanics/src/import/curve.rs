//! The arm and the spindle: `dm_mech_g1` blocks and extracted seek curves to [`Seek`] and
//! [`Rotation`].
//!
//! | seek type | becomes |
//! |---|---|
//! | `extracted` | its points: `distance, milliseconds`, optional deviation and header |
//! | `linear` | three points: 1 cylinder, a third of the cylinders, all of them |
//! | `curve` | points on Lee's curve `a·√(d−1) + b·(d−1) + c` |
//! | `hpl` | the two-part formula; with a single-cylinder time of its own, points on it |
//! | `hplplus10` | the ten points, then points on the formula |
//! | `constant` | two points of one time |
//!
//! Points on a formula are so close that the straight line between them stays within [`CHORD_MS`].

use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::error::{ImportError, Note, SourceLocation};
use super::keys::{Keys, NamedBlocks, number_of, refuse};
use super::token::{Library, syntax_error};
use super::tree::{Block, SourceValue};
use crate::profile::{Rotation, Seek, SeekFormula};

/// Maximum distance of the line between two points from the formula, in milliseconds: a tenth of
/// the accuracy of seek measurements.
const CHORD_MS: f64 = 0.000_5;
/// Maximum time in milliseconds, as in profiles.
const MAX_MS: f64 = 600_000.0;

/// The profile's parts of a mechanical model.
pub(super) struct Mechanics {
    pub(super) rotation: Rotation,
    pub(super) seek: Seek,
    /// Spread of the spindle speed in parts per million.
    pub(super) spindle_ppm: f64,
}

/// True if a text is an extracted seek curve rather than blocks.
pub(super) fn is_seek_curve(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    first.is_some_and(|line| header_count(line).is_some() || point(line).is_some())
}

/// The mechanics of a disk with `cylinders` cylinders.
pub(super) fn mechanics<'t>(
    block: &'t Block,
    names: &NamedBlocks<'t>,
    cylinders: u32,
    library: &mut Library<'_>,
    notes: &mut Vec<Note>,
) -> Result<Mechanics, ImportError> {
    if names.kind(block) != "dm_mech_g1" {
        return Err(ImportError::Unsupported {
            place: block.place.clone(),
            what: format!("the mechanical model is a {}", names.kind(block)),
            remedy: "only dm_mech_g1 is imported".to_string(),
        });
    }
    let mut keys = Keys::of(block, names);
    let rpm = keys.required_number(
        "Rotation speed (in rpms)",
        60.0..=600_000.0,
        "add the speed of the spindle",
    )?;
    let error_percent = keys.number("Percent error in rpms", 0.0..=100.0)?.unwrap_or(0.0);
    let head_switch_ms = keys.number("Head switch time", 0.0..=MAX_MS)?.unwrap_or(0.0);
    let mut write_settle_ms =
        keys.number("Add. write settling delay", -MAX_MS..=MAX_MS)?.unwrap_or(0.0);
    if write_settle_ms < 0.0 {
        let text = format!(
            "writes seek {} ms faster than reads here; a profile's writes seek no faster, so that \
                they are too late by that",
            -write_settle_ms
        );
        notes.push(Note::new(keys.place, text));
        write_settle_ms = 0.0;
    }
    if let Some((access, place)) =
        keys.word("Access time type")?.filter(|(access, _)| *access != "trackSwitchPlusRotation")
    {
        let text = format!(
            "`Access time type = {access}` is left out: a profile's drive always seeks and rotates"
        );
        notes.push(Note::new(place, text));
    }
    let curve = curve(&mut keys, cylinders, library, notes)?;
    let seek = match curve {
        ImportedCurve::Points(points) => {
            Seek { head_switch_ms, write_settle_ms, points, formula: None }
        }
        ImportedCurve::Formula(formula) => {
            Seek { head_switch_ms, write_settle_ms, points: Vec::new(), formula: Some(formula) }
        }
    };
    // Parameters of the unused curves.
    let harmless = |key: &str, _: Option<f64>| {
        matches!(
            key,
            "Single cylinder seek time"
                | "Average seek time"
                | "Full strobe seek time"
                | "HPL seek equation values"
                | "First ten seek times"
                | "Full seek curve"
                | "Constant access time"
                | "Constant seek time"
        )
    };
    notes.extend(keys.left_out(harmless));
    // The error is uniform within ± this percentage.
    let spindle_ppm = libm::round(error_percent * 1e4 / libm::sqrt(3.0) * 1e3) / 1e3;
    Ok(Mechanics { rotation: Rotation { rpm: Some(rpm), period_us: None }, seek, spindle_ppm })
}

enum ImportedCurve {
    Points(Vec<(u32, f64)>),
    Formula(SeekFormula),
}

fn curve(
    keys: &mut Keys<'_>,
    cylinders: u32,
    library: &mut Library<'_>,
    notes: &mut Vec<Note>,
) -> Result<ImportedCurve, ImportError> {
    let types = "linear, curve, constant, hpl, hplplus10 or extracted";
    let (kind, place) = match keys.word("Seek type")? {
        Some(given) => given,
        None if keys.has("Full seek curve") => ("extracted", keys.place),
        None => return Err(keys.missing("Seek type", &format!("add it with one of {types}"))),
    };
    let last = cylinders.saturating_sub(1).max(2);
    let mut ms = |key: &str| keys.required_number(key, 0.0..=MAX_MS, "this seek type needs it");
    match kind {
        "extracted" => extracted(keys, library, notes).map(ImportedCurve::Points),
        "constant" => {
            let time = ms("Constant seek time")?;
            Ok(ImportedCurve::Points(alloc::vec![(1, time), (last, time)]))
        }
        "linear" => {
            let (one, mean, full) = (
                ms("Single cylinder seek time")?,
                ms("Average seek time")?,
                ms("Full strobe seek time")?,
            );
            let third = (cylinders / 3).clamp(1, last);
            let mut points = alloc::vec![(1, one), (third, mean), (last, full)];
            points.dedup_by_key(|point| point.0);
            Ok(ImportedCurve::Points(points))
        }
        "curve" => {
            let (shortest, mean, longest) = (
                ms("Single cylinder seek time")?,
                ms("Average seek time")?,
                ms("Full strobe seek time")?,
            );
            Ok(ImportedCurve::Points(sampled(1, last, &lee(shortest, mean, longest, cylinders))))
        }
        "hpl" => {
            let (formula, single) = hpl(keys)?;
            match single {
                None => Ok(ImportedCurve::Formula(formula)),
                Some(single) => Ok(ImportedCurve::Points(after(&[single], &formula, last))),
            }
        }
        "hplplus10" => {
            let (formula, _) = hpl(keys)?;
            let items = keys.list("First ten seek times")?;
            if items.len() < 10 {
                return Err(keys.missing(
                    "First ten seek times",
                    "this seek type needs ten times, for 1 to 10 cylinders",
                ));
            }
            let first: Result<Vec<f64>, _> = items
                .iter()
                .take(10)
                .map(|item| number_of("First ten seek times", item, &(0.0..=MAX_MS)))
                .collect();
            Ok(ImportedCurve::Points(after(&first?, &formula, last)))
        }
        other => Err(ImportError::value(place, "Seek type", other, types, "correct it")),
    }
}

/// Lee and Katz' curve through the single-cylinder, the mean and the longest seek.
fn lee(shortest: f64, mean: f64, longest: f64, cylinders: u32) -> impl Fn(u32) -> f64 {
    let all = f64::from(cylinders.max(1));
    let root = (-10.0 * shortest + 15.0 * mean - 5.0 * longest) / (3.0 * libm::sqrt(all));
    let slope = (7.0 * shortest - 15.0 * mean + 8.0 * longest) / (3.0 * all);
    move |distance| {
        let further = f64::from(distance.saturating_sub(1));
        root * libm::sqrt(further) + slope * further + shortest
    }
}

/// The two-part formula from its six values, and a separate single-cylinder time, if any.
fn hpl(keys: &mut Keys<'_>) -> Result<(SeekFormula, Option<f64>), ImportError> {
    let key = "HPL seek equation values";
    let items: &[SourceValue] = keys.list(key)?;
    if items.len() < 6 {
        return Err(keys.missing(key, "this seek type needs a list of six values"));
    }
    let value = |number: usize, range| number_of(key, &items[number], &range);
    let long_from = value(0, 0.0..=f64::from(i32::MAX))?;
    let single = value(5, -1.0..=MAX_MS)?;
    if single < 0.0 && single != -1.0 {
        return Err(refuse(
            key,
            &items[5],
            "-1, or a time from 0",
            "-1 means that one cylinder follows the formula",
        ));
    }
    let formula = SeekFormula {
        short_ms: value(1, 0.0..=MAX_MS)?,
        short_sqrt_ms: value(2, 0.0..=MAX_MS)?,
        long_from: libm::ceil(long_from) as u32,
        long_ms: value(3, 0.0..=MAX_MS)?,
        // Keeps the decimal places of the text.
        long_us_per_cylinder: libm::round(value(4, 0.0..=MAX_MS)? * 1e12) / 1e9,
    };
    Ok((formula, (single >= 0.0).then_some(single)))
}

/// The points `first` for 1, 2 … cylinders, followed by points on the formula.
fn after(first: &[f64], formula: &SeekFormula, last: u32) -> Vec<(u32, f64)> {
    let short =
        |distance: u32| formula.short_ms + formula.short_sqrt_ms * libm::sqrt(f64::from(distance));
    let long =
        |distance: u32| formula.long_ms + formula.long_us_per_cylinder / 1e3 * f64::from(distance);
    let mut points: Vec<(u32, f64)> = (1..).zip(first.iter().copied()).collect();
    let next = points.len() as u32 + 1;
    // The two parts need not meet: the last short and the first long distance are both points.
    if next < formula.long_from {
        points.extend(sampled(next, (formula.long_from - 1).min(last.max(next)), &short));
    }
    let long_from = next.max(formula.long_from);
    if long_from <= last {
        points.push((long_from, round_to_ns(long(long_from))));
        points.push((last.max(long_from + 1), round_to_ns(long(last.max(long_from + 1)))));
    }
    points
}

/// Points of `curve` from `first` to `last`, as far apart as the accuracy allows.
fn sampled(first: u32, last: u32, curve: &dyn Fn(u32) -> f64) -> Vec<(u32, f64)> {
    let mut points = alloc::vec![(first, round_to_ns(curve(first)))];
    let mut from = first;
    while from < last {
        // The farthest accurate point; the next cylinder always is. The gap at most doubles: over a
        // wider one the largest error of a root is not in the middle of the line.
        let (mut to, mut beyond) = (from + 1, from.saturating_add(from - first + 2).min(last) + 1);
        while beyond - to > 1 {
            let middle = to + (beyond - to) / 2;
            if near(from, middle, curve) {
                to = middle;
            } else {
                beyond = middle;
            }
        }
        points.push((to, round_to_ns(curve(to))));
        from = to;
    }
    points
}

fn near(from: u32, to: u32, curve: &dyn Fn(u32) -> f64) -> bool {
    let (low, high) = (curve(from), curve(to));
    [0.25, 0.5, 0.75].iter().all(|part| {
        let between = from + (f64::from(to - from) * part) as u32;
        let line = low + (high - low) * f64::from(between - from) / f64::from(to - from);
        (line - curve(between)).abs() <= CHORD_MS
    })
}

/// Rounds milliseconds to nanoseconds.
fn round_to_ns(ms: f64) -> f64 {
    libm::round(ms * 1e6) / 1e6
}

fn extracted(
    keys: &mut Keys<'_>,
    library: &mut Library<'_>,
    notes: &mut Vec<Note>,
) -> Result<Vec<(u32, f64)>, ImportError> {
    let named = keys.word("Full seek curve")?;
    let given = library.given_files(is_seek_curve);
    let (name, text) = match (named, given.as_slice()) {
        (Some((name, place)), []) => library.open(place, name)?,
        (Some((name, place)), given) => match library.open(place, name) {
            Err(_) if given.len() == 1 => {
                let text = format!("the seek curve `{name}` is read from {}", given[0].0);
                notes.push(Note::new(place, text));
                given[0].clone()
            }
            found => found?,
        },
        (None, [only]) => only.clone(),
        (None, _) => {
            return Err(
                keys.missing("Full seek curve", "add it, or give the file with the seek curve too")
            );
        }
    };
    library.note_read(&name);
    read_points(&name, &text, notes)
}

/// The points of an extracted curve.
fn read_points(
    file: &Arc<str>,
    text: &str,
    notes: &mut Vec<Note>,
) -> Result<Vec<(u32, f64)>, ImportError> {
    let mut points: Vec<(u32, f64)> = Vec::new();
    let mut announced = None;
    for (line, number) in text.lines().zip(1_u32..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(count) = header_count(line).filter(|_| points.is_empty()) {
            announced = Some(count);
            continue;
        }
        let place = SourceLocation { file: file.clone(), line: number, column: 1 };
        let shape = "`distance, milliseconds`, distance from 1";
        let Some((distance, ms)) =
            point(line).filter(|(distance, ms)| *distance > 0 && (0.0..=MAX_MS).contains(ms))
        else {
            return Err(syntax_error(
                place,
                &format!("`{line}`"),
                shape,
                "correct the line, or remove it",
            ));
        };
        if let Some((before, _)) = points.last().filter(|(before, _)| *before >= distance) {
            let expected = format!("a distance above the {before} of the point before");
            return Err(syntax_error(
                place,
                &format!("the distance {distance}"),
                expected,
                "sort the points, one for each distance",
            ));
        }
        points.push((distance, ms));
    }
    let Some((nearest, ms)) = points.first().copied() else {
        return Err(syntax_error(
            SourceLocation::whole(file),
            "no point",
            "lines of `distance, milliseconds`",
            "give a file with a seek curve",
        ));
    };
    if let Some(count) = announced.filter(|count| *count != points.len()) {
        let text = format!(
            "the header announces {count} seek distances, {} follow and are used",
            points.len()
        );
        notes.push(Note::new(&SourceLocation::whole(file), text));
    }
    if nearest > 1 {
        let text =
            format!("the curve starts at {nearest} cylinders; shorter seeks get the same time");
        notes.push(Note::new(&SourceLocation::whole(file), text));
        points.insert(0, (1, ms));
    }
    Ok(points)
}

fn header_count(line: &str) -> Option<usize> {
    line.strip_prefix("Seek distances measured:")?.trim().parse().ok()
}

/// `distance, milliseconds`, optionally `, deviation`.
fn point(line: &str) -> Option<(u32, f64)> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [distance, ms, rest @ ..] = fields.as_slice() else { return None };
    let numbers = |texts: &[&str]| {
        texts.iter().all(|text: &&str| text.is_empty() || text.parse::<f64>().is_ok())
    };
    if rest.len() > 1 || !numbers(rest) {
        return None;
    }
    Some((distance.parse().ok()?, ms.parse::<f64>().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_a_root_are_few_and_the_lines_between_them_stay_near_it() {
        let root = |distance: u32| 1.0 + 0.1 * libm::sqrt(f64::from(distance));
        let points = sampled(1, 10_000, &root);
        assert!(points.len() < 120, "{} points", points.len());
        assert_eq!((points[0].0, points[points.len() - 1].0), (1, 10_000));
        for pair in points.windows(2) {
            for distance in pair[0].0..=pair[1].0 {
                let line = pair[0].1
                    + (pair[1].1 - pair[0].1) * f64::from(distance - pair[0].0)
                        / f64::from(pair[1].0 - pair[0].0);
                assert!(
                    (line - root(distance)).abs() < 1.3 * CHORD_MS,
                    "{distance} cylinders: {line} ms"
                );
            }
        }
    }

    #[test]
    fn lines_of_seek_curves_are_told_from_others() {
        for (line, expected) in [
            ("1, 0.5525, 0.00254", Some((1, 0.5525))),
            ("10,\t1.53", Some((10, 1.53))),
            ("3, 1.5,", Some((3, 1.5))),
            ("1.5, 2", None),
            ("12", None),
            ("1, 2, 3, 4", None),
            ("one, 2", None),
            ("1, 2, much", None),
        ] {
            assert_eq!(point(line), expected, "{line}");
        }
        assert!(
            is_seek_curve("# measured\n\n1, 0.5\n")
                && is_seek_curve("Seek distances measured: 3\n1, 2\n")
        );
        assert!(!is_seek_curve("") && !is_seek_curve("dm_disk X {\n}"));
    }
}
