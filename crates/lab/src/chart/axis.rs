//! [`Axis`]: what runs along a plot's side, how it is spaced, and where its marks stand.

#[derive(Clone, Debug)]
pub(crate) struct Axis {
    title: String,
    spacing: Spacing,
    from: f64,
    to: f64,
    marks: Vec<(f64, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Spacing {
    Linear,
    Logarithmic,
}

impl Axis {
    /// From nothing to a little more than the largest of `values`.
    pub(crate) fn from_zero(title: &str, values: impl Iterator<Item = f64>) -> Self {
        let most = values.fold(0.0, f64::max);
        let most = if most > 0.0 { most * 1.06 } else { 1.0 };
        Self::linear(title, 0.0, most)
    }

    /// From a little below the smallest of `values` to a little above the largest, with room for
    /// names after that.
    pub(crate) fn around(title: &str, values: impl Iterator<Item = f64> + Clone) -> Self {
        let (low, high) = ends(values).unwrap_or((0.0, 1.0));
        let more = if high > low { (high - low) * 0.1 } else { low.abs().max(1.0) * 0.1 };
        Self::linear(
            title,
            if low >= 0.0 { (low - more).max(0.0) } else { low - more },
            high + 2.0 * more,
        )
    }

    /// Logarithmic around `values` above zero; at least by a factor of four, so that near misses do
    /// not look like worlds.
    pub(crate) fn times(title: &str, values: impl Iterator<Item = f64> + Clone) -> Self {
        let (low, high) = ends(values.filter(|value| *value > 0.0)).unwrap_or((1.0, 10.0));
        let widen = (2.0 / (high / low).sqrt()).max(1.12);
        let (from, to) = (low / widen, high * widen);
        let decades = libm::log10(to / from);
        let steps: &[f64] = if decades < 1.3 {
            &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0]
        } else if decades < 3.0 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let first = libm::floor(libm::log10(from)) as i32;
        let last = libm::ceil(libm::log10(to)) as i32;
        let all = (first..=last).flat_map(|decade| {
            steps.iter().map(move |step| step * libm::pow(10.0, f64::from(decade)))
        });
        let marks =
            all.filter(|mark| (from..=to).contains(mark)).map(|mark| (mark, plain(mark))).collect();
        Self { title: title.to_string(), spacing: Spacing::Logarithmic, from, to, marks }
    }

    /// One mark for each depth, evenly by powers of two.
    pub(crate) fn depths(title: &str, depths: &[u32]) -> Self {
        let values = || depths.iter().map(|depth| f64::from(*depth));
        let (low, high) = ends(values()).unwrap_or((1.0, 2.0));
        // Marks nearer to each other than their numbers are wide are left out, from the right,
        // where the lines end.
        let mut marks: Vec<(f64, String)> = Vec::new();
        let (from, to) = (low / 1.15, high * 1.15);
        let apart = libm::log2(to / from) / 14.0;
        let mut sorted: Vec<f64> = values().collect();
        sorted.sort_by(|a, b| b.total_cmp(a));
        for value in sorted {
            if marks.last().is_none_or(|(last, _)| libm::log2(last / value) >= apart) {
                marks.push((value, plain(value)));
            }
        }
        Self { title: title.to_string(), spacing: Spacing::Logarithmic, from, to, marks }
    }

    /// Shares of requests, counted in nines, as far as `most` of them.
    pub(crate) fn nines(title: &str, most: f64) -> Self {
        let known = [
            (0.0, "0"),
            (libm::log10(2.0), "50 %"),
            (1.0, "90 %"),
            (2.0, "99 %"),
            (3.0, "99.9 %"),
            (4.0, "99.99 %"),
        ];
        let marks = known
            .into_iter()
            .filter(|(nines, _)| *nines <= most + 1e-9)
            .map(|(nines, share)| (nines, share.to_string()))
            .collect();
        Self {
            title: title.to_string(),
            spacing: Spacing::Linear,
            from: 0.0,
            to: most.max(0.5),
            marks,
        }
    }

    /// From a little below the smallest of `values`, but from nothing where that is the smallest,
    /// to a little above the largest.
    pub(crate) fn over(title: &str, values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = ends(values).unwrap_or((0.0, 1.0));
        let more = if high > low { (high - low) * 0.05 } else { 1.0 };
        Self::linear(title, if low == 0.0 { 0.0 } else { low - more }, high + more)
    }

    /// Logarithmic around `values`, with a mark at each power of two.
    pub(crate) fn powers_of_two(title: &str, values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = ends(values).unwrap_or((1.0, 2.0));
        let (from, to) = (low / 1.15, high * 1.15);
        let (first, last) = (libm::ceil(libm::log2(from)), libm::floor(libm::log2(to)));
        let marks = (first as i32..=last as i32)
            .map(|exponent| libm::exp2(f64::from(exponent)))
            .map(|mark| (mark, plain(mark)))
            .collect();
        Self { title: title.to_string(), spacing: Spacing::Logarithmic, from, to, marks }
    }

    /// Logarithmic over the whole decades around `values`, at least one, from 0.1 on.
    pub(crate) fn decades(title: &str, values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = ends(values.filter(|value| *value > 0.0)).unwrap_or((0.1, 10.0));
        let first = libm::floor(libm::log10(low.max(0.1))) as i32;
        let last = (libm::ceil(libm::log10(high)) as i32).max(first + 1);
        let marks = (first..=last).map(|decade| libm::pow(10.0, f64::from(decade)));
        Self {
            title: title.to_string(),
            spacing: Spacing::Logarithmic,
            from: libm::pow(10.0, f64::from(first)),
            to: libm::pow(10.0, f64::from(last)),
            marks: marks.map(|mark| (mark, plain(mark))).collect(),
        }
    }

    /// The same axis with other texts at its marks.
    pub(crate) fn labeled(mut self, words: impl Fn(f64) -> String) -> Self {
        for (value, text) in &mut self.marks {
            *text = words(*value);
        }
        self
    }

    /// From `from` to `to`, with round marks.
    pub(crate) fn linear(title: &str, from: f64, to: f64) -> Self {
        let rough = (to - from) / 5.0;
        let size = libm::pow(10.0, libm::floor(libm::log10(rough)));
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|times| times * size)
            .into_iter()
            .find(|step| *step >= rough * 0.999)
            .unwrap_or(size * 10.0);
        let (first, last) = (libm::ceil(from / step) as i64, libm::floor(to / step) as i64);
        let marks = (first..=last)
            .map(|count| count as f64 * step)
            .map(|mark| (mark, plain(mark)))
            .collect();
        Self { title: title.to_string(), spacing: Spacing::Linear, from, to, marks }
    }

    /// The label, with the unit.
    pub(super) fn title(&self) -> &str {
        &self.title
    }

    /// Values with a mark, and what the mark says.
    pub(super) fn marks(&self) -> &[(f64, String)] {
        &self.marks
    }

    /// The position of `value` between `start` and `end`, the ends of the axis, clamped to them.
    pub(super) fn place(&self, value: f64, start: f64, end: f64) -> f64 {
        let share = match self.spacing {
            Spacing::Linear => (value - self.from) / (self.to - self.from),
            Spacing::Logarithmic => {
                libm::log(value.max(self.from) / self.from) / libm::log(self.to / self.from)
            }
        };
        start + share.clamp(0.0, 1.0) * (end - start)
    }
}

fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.map(|value| (value, value)).reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
}

/// A number without needless digits.
pub(crate) fn plain(value: f64) -> String {
    let rounded = crate::compare::rounded(value);
    if rounded >= 10_000.0 && rounded % 1_000.0 == 0.0 {
        format!("{} 000", rounded / 1_000.0)
    } else {
        rounded.to_string()
    }
}

/// A number of sectors without needless digits.
pub(crate) fn address(sectors: f64) -> String {
    for (unit, name) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if sectors.abs() >= unit {
            return format!(
                "{}{}{name}",
                if sectors < 0.0 { "-" } else { "" },
                plain(sectors.abs() / unit)
            );
        }
    }
    format!("{sectors:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(axis: &Axis) -> Vec<&str> {
        axis.marks.iter().map(|(_, words)| words.as_str()).collect()
    }

    #[test]
    fn marks_are_round_numbers_within_the_axis() {
        assert_eq!(
            marks(&Axis::from_zero("x", [388.0].into_iter())),
            ["0", "100", "200", "300", "400"]
        );
        assert_eq!(
            marks(&Axis::times("x", [3.0, 450.0].into_iter())),
            ["5", "10", "20", "50", "100", "200", "500"]
        );
        assert_eq!(marks(&Axis::depths("x", &[64, 1, 16, 4])), ["64", "16", "4", "1"]);
        assert_eq!(marks(&Axis::nines("x", 3.0)), ["0", "50 %", "90 %", "99 %", "99.9 %"]);
        assert_eq!(marks(&Axis::around("x", [100.0, 200.0].into_iter())), ["100", "150", "200"]);
        assert_eq!(
            marks(&Axis::decades("x", [3.0, 450.0].into_iter())),
            ["1", "10", "100", "1000"]
        );
        assert_eq!(marks(&Axis::decades("x", [100.0].into_iter())), ["100", "1000"]);
        assert_eq!(
            marks(&Axis::powers_of_two("x", [2.0, 16.0].into_iter())),
            ["2", "4", "8", "16"]
        );
        assert_eq!(marks(&Axis::over("x", [-50.0, 50.0].into_iter())), ["-50", "0", "50"]);
        for empty in [
            Axis::from_zero("x", std::iter::empty()),
            Axis::times("x", std::iter::empty()),
            Axis::depths("x", &[]),
            Axis::over("x", std::iter::empty()),
            Axis::decades("x", std::iter::empty()),
            Axis::powers_of_two("x", std::iter::empty()),
        ] {
            assert!(empty.from < empty.to && empty.place(empty.to, 0.0, 1.0) == 1.0, "{empty:?}");
        }
    }

    #[test]
    fn places_run_from_one_end_to_the_other_and_stay_there() {
        let axis = Axis::times("ms", [1.0, 100.0].into_iter());
        let middle = axis.place(10.0, 0.0, 100.0);
        assert!((middle - 50.0).abs() < 1e-9, "{middle}");
        assert_eq!((axis.place(0.0, 0.0, 100.0), axis.place(1e9, 0.0, 100.0)), (0.0, 100.0));
        let axis = Axis::from_zero("x", [100.0].into_iter());
        assert_eq!(axis.place(0.0, 300.0, 0.0), 300.0);
    }
}
