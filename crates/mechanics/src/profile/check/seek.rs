//! Checks of `[seek]`: one curve, ordered points, no negative and no excessive time.

use alloc::format;

use super::super::{DriveProfile, ProfileError};
use super::{MAX_MS, MAX_ZONES_OR_POINTS, is_time};
use crate::seek::SeekCurve;

impl DriveProfile {
    pub(super) fn check_seek(&self) -> Result<(), ProfileError> {
        self.check_time("seek.head_switch_ms", self.seek.head_switch_ms, MAX_MS)?;
        self.check_time("seek.write_settle_ms", self.seek.write_settle_ms, MAX_MS)?;
        match (self.seek.points.is_empty(), &self.seek.formula) {
            (true, None) => {
                return Err(self.refuse(
                    "seek",
                    "without a curve",
                    "points or [seek.formula]",
                    "add `points = [[1, 0.8], [10000, 9.0]]`",
                ));
            }
            (false, Some(_)) => {
                return Err(self.refuse(
                    "seek",
                    "points and formula",
                    "one of the two",
                    "remove the formula, points are measured",
                ));
            }
            (false, None) => self.check_points()?,
            (true, Some(formula)) => {
                for (key, value) in [
                    ("short_ms", formula.short_ms),
                    ("short_sqrt_ms", formula.short_sqrt_ms),
                    ("long_ms", formula.long_ms),
                    ("long_us_per_cylinder", formula.long_us_per_cylinder),
                ] {
                    if !(-MAX_MS..=MAX_MS).contains(&value) {
                        return Err(self.refuse(
                            format!("seek.formula.{key}"),
                            value,
                            "a number, at most ten minutes either way",
                            "correct it",
                        ));
                    }
                }
            }
        }
        let curve = SeekCurve::from_profile(self);
        match curve.lowest() {
            (distance, ns) if ns < 0 => Err(ProfileError::SeekBelowZero {
                profile: self.name.clone(),
                distance,
                microseconds: ns.div_euclid(1_000),
            }),
            _ if curve.longest().as_ms_f64() > MAX_MS => {
                let value = format!("{} ms at its highest", curve.longest().as_ms_f64());
                Err(self.refuse(
                    "seek",
                    value,
                    format!("at most {MAX_MS} ms"),
                    "correct the points or the formula; the curve is prolonged to the last \
                        cylinder",
                ))
            }
            _ => Ok(()),
        }
    }

    fn check_points(&self) -> Result<(), ProfileError> {
        let points = &self.seek.points;
        if points.len() > MAX_ZONES_OR_POINTS {
            return Err(self.refuse(
                "seek.points",
                format!("{} points", points.len()),
                format!("at most {MAX_ZONES_OR_POINTS}"),
                "leave points out",
            ));
        }
        if points[0].0 != 1 {
            let first = format!("{} cylinders first", points[0].0);
            return Err(self.refuse(
                "seek.points",
                first,
                "the first point at 1 cylinder",
                "add the single-cylinder seek; no seek at all takes no time",
            ));
        }
        if let Some((distance, ms)) = points.iter().find(|(_, ms)| !is_time(*ms, MAX_MS)) {
            self.check_time(&format!("seek.points at {distance} cylinders"), *ms, MAX_MS)?;
        }
        if let Some(pair) = points.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            let value = format!("{} cylinders after {}", pair[1].0, pair[0].0);
            return Err(self.refuse(
                "seek.points",
                value,
                "rising distances",
                "sort the points, one for each distance",
            ));
        }
        Ok(())
    }
}
