//! The page of a drive profile: its zones, transfer rate, skews, seek curve, slips and accuracy as
//! pictures.

use headtime_mechanics::profile::{Accuracy, ProfileError, ZoneAccuracy};
use headtime_mechanics::{DriveProfile, Mechanism, Nominal};
use headtime_units::Lba;
use maud::{Markup, PreEscaped, html};

use crate::chart::{self, Axis, Line, Plot, Spot, address};
use crate::report::page;

/// The number of tracks whose skew is shown, at the most: a dot each.
const TRACKS: u64 = 1_500;

/// A page that shows a profile, with `summary`, the text that its characterization printed.
///
/// # Errors
/// When the profile is not valid.
pub fn profile_page(profile: &DriveProfile, summary: &str) -> Result<String, ProfileError> {
    let arms = match &profile.second_actuator {
        Some(_) => vec![profile.of_actuator(0), profile.of_actuator(1)],
        None => vec![profile.clone()],
    };
    let mut pictures = Vec::new();
    for (number, arm) in arms.iter().enumerate() {
        let heading = (arms.len() > 1).then(|| format!("Arm {number}"));
        pictures.push((heading, of_arm(arm, &Mechanism::nominal(arm)?)));
    }
    let content = html! {
        h1 { (profile.name) }
        p { (profile.model) }
        pre { (summary) }
        @for (heading, pictures) in &pictures {
            @if let Some(heading) = heading { h2 { (heading) } }
            (pictures)
        }
        @if let Some(accuracy) = profile.accuracy.as_ref().filter(|all| !all.zones.is_empty()) {
            (figure(
                "Accuracy by zone",
                "Share of the fresh reads of 4 KiB in each zone that completed within 150 us \
                    (upper line) and 50 us (lower line) of their prediction.",
                &accuracy_of(accuracy, profile),
            ))
        }
    };
    let title = format!("{} – headtime characterize", profile.name);
    Ok(page::page(&title, &(chart::style() + STYLE), &content))
}

/// The pictures of what one arm serves.
fn of_arm(profile: &DriveProfile, mechanism: &Mechanism<Nominal>) -> Markup {
    html! {
        (figure(
            "Transfer rate",
            "Media rate of a track in each zone, without changes of track.",
            &rate(mechanism),
        ))
        (figure(
            "Skew",
            "Time from the end of a track to the first sector of the next one, at up to 1,500 \
                tracks: changes of the head, and longer ones of the cylinder.",
            &skew(mechanism),
        ))
        (figure(
            "Seek curve",
            "Time of the arm to tracks at this distance; marks are the distances measured.",
            &seek(profile, mechanism),
        ))
        @if profile.seek.points.len() > 2 {
            (figure(
                "Residuals of the seek curve",
                "Each measured distance against the line between its two neighbors, over the \
                    square root of the distance: errors of measurement stand out.",
                &residuals(&profile.seek.points),
            ))
        }
        @if !profile.zones.is_empty() {
            (figure(
                "Slipped sectors",
                "Defective sectors that the mapping skips, by zone.",
                &slips(profile, mechanism),
            ))
        }
    }
}

fn figure(caption: &str, explanation: &str, svg: &str) -> Markup {
    html! {
        figure { figcaption { (caption) } p { (explanation) } (PreEscaped(svg)) }
    }
}

/// A line of this name and color without marks.
fn line(class: usize, name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Line {
    let spots = points.into_iter().map(Spot::plain).collect();
    Line { class: chart::class(class), name: name.to_owned(), dashed: false, spots }
}

/// A picture over the addresses of a drive.
fn by_address(capacity: u64, y: Axis, drawn: &[Line], alternative: &str) -> String {
    let mut plot = Plot::new(addresses(capacity), y, SIZE, MARGIN);
    drawn.iter().for_each(|line| plot.line(line));
    plot.svg(alternative)
}

fn addresses(capacity: u64) -> Axis {
    Axis::linear("LBA", 0.0, capacity as f64).labeled(address)
}

fn rate(mechanism: &Mechanism<Nominal>) -> String {
    let layout = mechanism.layout();
    let per_track = layout.sector_size().bytes() as f64 / mechanism.period().as_ns_f64() * 1e3;
    let points: Vec<(f64, f64)> = layout
        .zones()
        .flat_map(|zone| {
            let mb_per_second = f64::from(zone.sectors_per_track) * per_track;
            [zone.extent.start, zone.extent.end()].map(|lba| (lba.get() as f64, mb_per_second))
        })
        .collect();
    let y = Axis::from_zero("MB/s", points.iter().map(|point| point.1));
    let capacity = layout.capacity().get();
    by_address(capacity, y, &[line(1, "media", points)], "Transfer rate by address")
}

fn skew(mechanism: &Mechanism<Nominal>) -> String {
    let (layout, period) = (mechanism.layout(), mechanism.period());
    let capacity = layout.capacity().get();
    let step = (capacity / TRACKS).max(1) as usize;
    let points: Vec<(f64, f64)> = (0..capacity)
        .step_by(step)
        .filter_map(|lba| {
            let track = layout.track_extent(layout.track_of(Lba::new(lba)));
            let next = track.end();
            if track.len.is_zero() || next.get() >= capacity {
                return None;
            }
            let wait = mechanism.end_angle(track).until(mechanism.spot(next).angle);
            Some((lba as f64, period.time_of(wait).as_ms_f64()))
        })
        .collect();
    let y = Axis::from_zero("ms", points.iter().map(|point| point.1));
    let mut plot = Plot::new(addresses(capacity), y, SIZE, MARGIN);
    points.into_iter().for_each(|point| plot.dot(point));
    plot.svg("Skew by address")
}

fn seek(profile: &DriveProfile, mechanism: &Mechanism<Nominal>) -> String {
    let curve = mechanism.seek_curve();
    let longest = f64::from(mechanism.layout().cylinders().max(2));
    let at = |distance: f64| (distance, curve.time(distance as u32).as_ms_f64());
    let points: Vec<(f64, f64)> = (0..=200)
        .map(|step| at(libm::round(libm::pow(longest - 1.0, f64::from(step) / 200.0))))
        .collect();
    let x = Axis::times("distance in cylinders", points.iter().map(|point| point.0));
    let y = Axis::from_zero("ms", points.iter().map(|point| point.1));
    let mut plot = Plot::new(x, y, SIZE, MARGIN);
    plot.line(&line(1, "arm time", points));
    let mark = |(distance, ms): &(u32, f64)| Spot {
        title: format!("{distance} cylinders: {ms:.3} ms"),
        marked: true,
        ..Spot::plain((f64::from(*distance), *ms))
    };
    for point in &profile.seek.points {
        plot.line(&Line { spots: vec![mark(point)], ..line(1, "", []) });
    }
    plot.svg("Arm time by distance")
}

fn residuals(points: &[(u32, f64)]) -> String {
    let roots: Vec<(f64, f64)> =
        points.iter().map(|(distance, ms)| (libm::sqrt(f64::from(*distance)), *ms)).collect();
    let residuals: Vec<(f64, f64)> = roots
        .windows(3)
        .map(|three| {
            let [(left, low), (root, ms), (right, high)] = [three[0], three[1], three[2]];
            let between = low + (high - low) * (root - left) / (right - left);
            (root * root, (ms - between) * 1e3)
        })
        .collect();
    let x = Axis::times("distance in cylinders", residuals.iter().map(|point| point.0));
    let y = Axis::around("us", residuals.iter().map(|point| point.1).chain([0.0]));
    let mut plot = Plot::new(x, y, SIZE, MARGIN);
    plot.line(&Line {
        spots: residuals.into_iter().map(|at| Spot { marked: true, ..Spot::plain(at) }).collect(),
        ..line(0, "residual", [])
    });
    plot.svg("Residuals of the seek curve by distance")
}

fn slips(profile: &DriveProfile, mechanism: &Mechanism<Nominal>) -> String {
    let layout = mechanism.layout();
    let points: Vec<(f64, f64)> = layout
        .zones()
        .zip(&profile.zones)
        .flat_map(|(extent, zone)| {
            let sectors = extent.extent.len.get().max(1) as f64;
            let per_million = zone.slips.len() as f64 / sectors * 1e6;
            [extent.extent.start, extent.extent.end()].map(|lba| (lba.get() as f64, per_million))
        })
        .collect();
    let y = Axis::from_zero("per million sectors", points.iter().map(|point| point.1));
    let capacity = layout.capacity().get();
    by_address(capacity, y, &[line(5, "slips", points)], "Slipped sectors by address")
}

fn accuracy_of(accuracy: &Accuracy, profile: &DriveProfile) -> String {
    let capacity = profile.capacity().get();
    let share_of = |share: fn(&ZoneAccuracy) -> f64| -> Vec<(f64, f64)> {
        let next = accuracy.zones.iter().skip(1).map(|zone| zone.first_lba).chain([capacity]);
        let ends = accuracy.zones.iter().zip(next);
        ends.flat_map(|(zone, end)| {
            [zone.first_lba, end].map(|lba| (lba as f64, share(zone) * 100.0))
        })
        .collect()
    };
    let drawn = [
        line(2, "within 150 us", share_of(|zone| zone.within_150_us)),
        line(1, "within 50 us", share_of(|zone| zone.within_50_us)),
    ];
    let y = Axis::linear("% of reads", 0.0, 100.0);
    by_address(capacity, y, &drawn, "Accuracy by address")
}

/// Width and height of a picture, and the free space at its right.
const SIZE: (f64, f64) = (900.0, 340.0);
const MARGIN: f64 = 24.0;
const STYLE: &str = "
body { margin: 0; background: #fff; color: #202428; font: 15px/1.5 system-ui, sans-serif }
main { max-width: 960px; margin: 0 auto; padding: 24px }
h1 { font-size: 22px } h2 { font-size: 18px; margin-top: 32px }
pre { font-size: 12.5px; overflow-x: auto; background: #f4f5f3; padding: 12px }
figure { margin: 28px 0 } figcaption { font-weight: 600 } figure p { margin: 2px 0 8px }
";

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_mechanics::catalog;
    use headtime_mechanics::profile::SecondActuator;

    #[test]
    fn the_page_shows_what_a_profile_describes_for_each_arm() {
        let one = catalog::load("atlas10k").expect("it ships");
        let mut two = catalog::load("exos-2x18").expect("it ships");
        let (geometry, zones, seek) = (two.geometry, two.zones.clone(), two.seek.clone());
        two.second_actuator = Some(Box::new(SecondActuator { geometry, zones, seek }));
        for (profile, figures) in [(one, 5), (two, 8)] {
            let page = profile_page(&profile, "a < b").expect("it is valid");
            assert_eq!(page.matches("<figure>").count(), figures, "{}", profile.name);
            assert!(page.contains("<pre>a &lt; b</pre>") && !page.contains("NaN"));
            assert_eq!(page.contains("Arm 1"), profile.second_actuator.is_some());
        }
    }

    #[test]
    fn a_point_off_the_line_between_its_neighbors_has_a_residual() {
        let page = residuals(&[(1, 1.0), (4, 2.0), (9, 3.5), (16, 4.0)]);
        assert_eq!(page.matches("<circle").count(), 2);
    }
}
