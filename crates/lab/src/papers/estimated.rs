//! [`Estimated`]: a figure from simulation with its interval.

/// A value and half the width of its 95 % interval, in the same unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimated {
    /// The value.
    pub value: f64,
    /// Half the width; `None` where the run says nothing about it: a maximum, or a run too short to
    /// tell.
    pub half_width: Option<f64>,
}

impl Estimated {
    /// A value with its half-width, if there is one.
    pub const fn new(value: f64, half_width: Option<f64>) -> Self {
        Self { value, half_width }
    }

    /// The mean of independent runs, such as on several instances, with Student's interval. One run
    /// has no interval.
    ///
    /// # Panics
    /// Without a run.
    pub fn of_runs(values: &[f64]) -> Self {
        assert!(!values.is_empty(), "a mean of no run is none");
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        // Beyond the table the quantile falls no further than 1.96; the last entry is on the safe
        // side.
        let quantile = STUDENT.get(values.len().saturating_sub(2)).or(STUDENT.last()).copied();
        let half_width = quantile
            .filter(|_| values.len() > 1)
            .map(|quantile| quantile * libm::sqrt(squares / (count - 1.0) / count));
        Self { value: mean, half_width }
    }

    /// This over `other`. The two are taken as independent; where they come from one stream of
    /// requests they lean the same way, and the true interval is narrower than the one given.
    pub fn over(self, other: Self) -> Self {
        let value = self.value / other.value;
        let relative = |of: Self| of.half_width.map(|half_width| half_width / of.value);
        let half_width = relative(self)
            .zip(relative(other))
            .map(|(mine, theirs)| (value * libm::hypot(mine, theirs)).abs());
        Self { value, half_width }
    }

    /// The sum of two independent figures.
    pub fn plus(self, other: Self) -> Self {
        let half_width =
            self.half_width.zip(other.half_width).map(|(mine, theirs)| libm::hypot(mine, theirs));
        Self { value: self.value + other.value, half_width }
    }

    /// The gain of this over `other`: their ratio less one. 13 % more is +0.13.
    pub fn gain(self, other: Self) -> Self {
        let ratio = self.over(other);
        Self { value: ratio.value - 1.0, half_width: ratio.half_width }
    }

    /// The position of this value between `none` (0) and `all` (1). Intervals are combined as if
    /// the three were independent.
    pub fn share_of_way(self, none: Self, all: Self) -> Self {
        let way = all.value - none.value;
        let value = (self.value - none.value) / way;
        let widths = self.half_width.zip(none.half_width).zip(all.half_width);
        // The derivatives of the share by each of the three, times the way.
        let joined = widths.map(|((mine, none), all)| {
            libm::hypot(libm::hypot(mine, none * (1.0 - value)), all * value)
        });
        Self { value, half_width: joined.map(|joined| (joined / way).abs()) }
    }

    /// The same in another unit, `factor` of which make one of this.
    pub fn times(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            half_width: self.half_width.map(|half_width| (half_width * factor).abs()),
        }
    }

    /// The lower end of the interval.
    pub fn low(self) -> Option<f64> {
        self.half_width.map(|half_width| self.value - half_width)
    }

    /// The upper end of the interval.
    pub fn high(self) -> Option<f64> {
        self.half_width.map(|half_width| self.value + half_width)
    }
}

/// The 97.5 % quantile of Student's t for 1, 2, … degrees of freedom (any table).
const STUDENT: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_as_unsure_as_both_together() {
        let ratio = Estimated::new(300.0, Some(3.0)).over(Estimated::new(200.0, Some(1.5)));
        assert_eq!(ratio.value, 1.5);
        // One in a hundred and three quarters of one in a hundred join to one and a quarter.
        assert!((ratio.half_width.expect("both are known") - 1.5 * 0.0125).abs() < 1e-12);
        assert_eq!(
            Estimated::new(3.0, None).over(Estimated::new(2.0, Some(0.1))),
            Estimated::new(1.5, None)
        );
    }

    #[test]
    fn runs_with_nothing_in_common_are_as_sure_as_their_scatter() {
        assert_eq!(Estimated::of_runs(&[7.0]), Estimated::new(7.0, None));
        let three = Estimated::of_runs(&[9.0, 10.0, 11.0]);
        // Deviation 1, two degrees of freedom.
        assert!(
            three.value == 10.0
                && (three.half_width.expect("three say something") - 4.303 / 3.0_f64.sqrt()).abs()
                    < 1e-12
        );
        assert!(Estimated::of_runs(&[1.0; 40]).half_width == Some(0.0));
    }

    #[test]
    fn a_share_of_the_way_is_unsure_by_its_ends_too() {
        let at = |value| Estimated::new(value, Some(1.0));
        let share = |value| at(value).share_of_way(at(100.0), at(200.0));
        assert_eq!((share(100.0).value, share(150.0).value, share(90.0).value), (0.0, 0.5, -0.1));
        // At the lower end the upper does not matter: the difference of two.
        assert!(
            (share(100.0).half_width.expect("all are known") - 0.01 * std::f64::consts::SQRT_2)
                .abs()
                < 1e-12
        );
        assert_eq!(share(150.0).times(100.0).value, 50.0);
    }
}
