//! [`Report`]: what came out of an experiment, beside what was published.
//!
//! A [`Row`] is one figure. It holds when what was measured agrees with what was published within
//! the tolerance the experiment states; where it does not, or where there is nothing to compare, it
//! says why. A [`Plot`] shows the same figures; text, JSON, CSV, SVG and HTML are made from nothing
//! else.

use serde::{Serialize, Serializer};

use crate::papers::estimated::Estimated;

/// The results of one experiment. As JSON it is the object that `headtime papers ID --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The experiment.
    pub id: &'static str,
    /// The seed of instances and workloads.
    pub seed: u64,
    /// The figures.
    pub rows: Vec<Row>,
    /// The subject.
    pub title: &'static str,
    /// The paper and section that it reproduces.
    pub source: &'static str,
    /// The version of the program.
    pub version: &'static str,
    /// Share of the full number of requests that was run.
    pub scale: f64,
    /// The command that repeats it.
    pub command: String,
    /// The fixed parameters, as names and values.
    pub parameters: Vec<FixedParameter>,
    /// Reservations about the figures, as sentences.
    pub notes: Vec<String>,
    /// The plot.
    pub plot: Plot,
}

/// One thing that was held fixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FixedParameter {
    /// Its name.
    pub name: &'static str,
    /// Its value with its unit.
    pub value: String,
}

/// The findings of an experiment, from which the frame makes a [`Report`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// See [`Report::rows`].
    pub rows: Vec<Row>,
    /// See [`Report::parameters`].
    pub parameters: Vec<FixedParameter>,
    /// See [`Report::notes`].
    pub notes: Vec<String>,
    /// See [`Report::plot`].
    pub plot: Plot,
}

/// One figure: published, measured, and whether the two agree.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The subject of the figure; contains "oracle" if the drive's truth was known, and the noise
    /// of the drive.
    pub what: String,
    /// The published figure.
    pub published: Published,
    /// The measured figure; `None` if it could not be run.
    #[serde(serialize_with = "six_digits")]
    pub measured: Option<f64>,
    /// The unit of both.
    pub unit: &'static str,
    /// True if they agree; `None` if there is nothing to compare.
    pub holds: Option<bool>,
    /// A sentence; always there when `holds` is not true.
    pub reason: Option<String>,
    /// Lower end of the 95 % interval of `measured`.
    #[serde(serialize_with = "six_digits")]
    pub low: Option<f64>,
    /// Upper end of the 95 % interval of `measured`.
    #[serde(serialize_with = "six_digits")]
    pub high: Option<f64>,
}

/// A published figure.
#[derive(Clone, Debug, PartialEq)]
pub enum Published {
    /// Nothing. JSON: null.
    Nothing,
    /// A number. JSON: that number.
    Number(f64),
    /// Anything from the first to the second. JSON: a text, "92 to 94".
    Between(f64, f64),
    /// A shape in words. JSON: that text.
    Shape(&'static str),
}

/// The plot of an experiment: panels side by side, one legend.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plot {
    /// The label of the horizontal axes, with the unit.
    pub x_label: &'static str,
    /// The label of the vertical axes, with the unit.
    pub y_label: &'static str,
    /// The scale of the horizontal axes.
    pub x_axis: Axis,
    /// The panels.
    pub panels: Vec<Panel>,
}

/// The scale of an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// Evenly.
    #[default]
    Linear,
    /// Evenly by powers of two; for queue lengths and sizes, which must be above zero.
    PowersOfTwo,
}

/// One panel of a plot.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Panel {
    /// The title.
    pub title: String,
    /// Its lines. A name that stands in several panels, or published and measured, has one color.
    pub series: Vec<Series>,
}

/// One line of a panel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// The name.
    pub name: String,
    /// True for a published series, false for a measured one.
    pub published: bool,
    /// Its points, by rising `x`.
    pub points: Vec<Point>,
}

/// One point of a line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Along.
    pub x: f64,
    /// Up.
    pub y: f64,
    /// Lower end of the 95 % interval of `y`.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl Findings {
    /// Findings without rows and panels yet.
    #[must_use]
    pub fn new(parameters: Vec<FixedParameter>, notes: Vec<String>, plot: Plot) -> Self {
        Self { parameters, notes, plot, rows: Vec::new() }
    }
}

impl Plot {
    /// A plot without panels yet.
    #[must_use]
    pub fn new(x_label: &'static str, y_label: &'static str, x_axis: Axis) -> Self {
        Self { x_label, y_label, x_axis, panels: Vec::new() }
    }
}

impl Series {
    /// A line that was measured here.
    #[must_use]
    pub fn measured(name: impl Into<String>, points: Vec<Point>) -> Self {
        Self { name: name.into(), published: false, points }
    }

    /// A line that was published.
    #[must_use]
    pub fn published(name: impl Into<String>, points: Vec<Point>) -> Self {
        Self { name: name.into(), published: true, points }
    }
}

impl Row {
    /// A figure beside a published number other than zero. It holds within `tolerance` (a share of
    /// one) of that number, or when that number lies within the interval. `why_not` is the sentence
    /// for when it does not.
    #[must_use]
    pub fn compared(
        what: impl Into<String>,
        published: f64,
        measured: Estimated,
        unit: &'static str,
        tolerance: f64,
        why_not: &str,
    ) -> Self {
        let difference = measured.value - published;
        let holds = difference.abs() <= tolerance * published.abs()
            || measured.half_width.is_some_and(|half_width| difference.abs() <= half_width);
        let share = format!(
            "{:+.1} % off the published value, {:.0} % allowed",
            difference / published.abs() * 100.0,
            tolerance * 100.0
        );
        let reason = if holds { format!("{share}.") } else { format!("{share}: {why_not}") };
        Self::of(what, Published::Number(published), measured, unit, Some(holds), Some(reason))
    }

    /// A figure beside a published range; it holds when it lies within, or its interval reaches
    /// into it. `why_not` is the sentence for when it does not.
    #[must_use]
    pub fn between(
        what: impl Into<String>,
        (least, most): (f64, f64),
        measured: Estimated,
        unit: &'static str,
        why_not: &str,
    ) -> Self {
        let slack = measured.half_width.unwrap_or(0.0);
        let holds = (least - slack..=most + slack).contains(&measured.value);
        Self::of(
            what,
            Published::Between(least, most),
            measured,
            unit,
            Some(holds),
            (!holds).then(|| why_not.to_string()),
        )
    }

    /// A figure whose publication gives a shape only. `why_not` is the sentence for when it does
    /// not hold.
    #[must_use]
    pub fn shape(
        what: impl Into<String>,
        published: &'static str,
        measured: Estimated,
        unit: &'static str,
        holds: bool,
        why_not: &str,
    ) -> Self {
        Self::of(
            what,
            Published::Shape(published),
            measured,
            unit,
            Some(holds),
            (!holds).then(|| why_not.to_string()),
        )
    }

    /// A figure beside whatever was published, judged by the experiment, with a sentence that says
    /// how.
    #[must_use]
    pub fn judged(
        what: impl Into<String>,
        published: Published,
        measured: Estimated,
        unit: &'static str,
        holds: bool,
        reason: String,
    ) -> Self {
        Self::of(what, published, measured, unit, Some(holds), Some(reason))
    }

    /// A figure without a published counterpart, and the reason for it.
    #[must_use]
    pub fn unpublished(
        what: impl Into<String>,
        measured: Estimated,
        unit: &'static str,
        reason: &str,
    ) -> Self {
        Self::of(what, Published::Nothing, measured, unit, None, Some(reason.to_string()))
    }

    /// A published figure that cannot be run, and why.
    #[must_use]
    pub fn not_run(
        what: impl Into<String>,
        published: Published,
        unit: &'static str,
        reason: &str,
    ) -> Self {
        let row = Self::of(
            what,
            published,
            Estimated::new(0.0, None),
            unit,
            None,
            Some(reason.to_string()),
        );
        Self { measured: None, ..row }
    }

    fn of(
        what: impl Into<String>,
        published: Published,
        measured: Estimated,
        unit: &'static str,
        holds: Option<bool>,
        reason: Option<String>,
    ) -> Self {
        Self {
            what: what.into(),
            published,
            measured: Some(measured.value),
            unit,
            holds,
            reason,
            low: measured.low(),
            high: measured.high(),
        }
    }

    /// The word for [`Row::holds`] in tables.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        match self.holds {
            Some(true) => "yes",
            Some(false) => "no",
            None => "–",
        }
    }

    /// The measured figure with its interval as text; "–" if there is none.
    #[must_use]
    pub fn measured_text(&self) -> String {
        let Some(value) = self.measured else { return "–".to_string() };
        let half_width = self.high.map(|high| high - value);
        // As many digits as three significant ones take.
        let decimals = match value.abs() {
            size if size >= 100.0 => 1,
            size if size >= 10.0 => 2,
            _ => 3,
        };
        let within =
            half_width.map_or_else(String::new, |half_width| format!(" ± {half_width:.decimals$}"));
        format!("{value:.decimals$}{within}")
    }

    /// Checks what every row promises.
    ///
    /// # Panics
    /// When the experiment that made it forgot a reason or measured no number: a fault of that
    /// experiment.
    pub(crate) fn check(&self) {
        assert!(
            self.holds == Some(true) || self.reason.is_some(),
            "row `{}` does not hold and says no reason",
            self.what
        );
        assert!(
            self.measured.is_none_or(f64::is_finite),
            "row `{}` measured {:?}",
            self.what,
            self.measured
        );
        assert!(
            self.holds.is_none() || self.measured.is_some(),
            "row `{}` is compared without a measurement",
            self.what
        );
    }
}

impl Published {
    /// As text; "–" for nothing.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Nothing => "–".to_string(),
            Self::Number(number) => number.to_string(),
            Self::Between(least, most) => format!("{least} to {most}"),
            Self::Shape(words) => (*words).to_string(),
        }
    }
}

impl Serialize for Published {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nothing => serializer.serialize_none(),
            Self::Number(number) => serializer.serialize_f64(*number),
            Self::Between(..) | Self::Shape(_) => serializer.serialize_str(&self.text()),
        }
    }
}

impl Point {
    /// A point of a figure.
    #[must_use]
    pub fn of(x: f64, y: Estimated) -> Self {
        Self { x, y: y.value, low: y.low(), high: y.high() }
    }

    /// A published point.
    #[must_use]
    pub const fn published(x: f64, y: f64) -> Self {
        Self { x, y, low: None, high: None }
    }
}

impl FixedParameter {
    /// A parameter with its value as text.
    #[must_use]
    pub fn new(name: &'static str, value: impl Into<String>) -> Self {
        Self { name, value: value.into() }
    }
}

/// Figures have six significant digits, which is more than their precision.
fn six_digits<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    // A number written with six digits reads back as a number.
    let rounded = value.map(|value| format!("{value:.5e}").parse::<f64>().unwrap_or(value));
    rounded.serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_holds_within_its_tolerance_or_its_interval() {
        let row = |value, half_width| {
            Row::compared(
                "x",
                200.0,
                Estimated::new(value, half_width),
                "IOPS",
                0.05,
                "the drive is another.",
            )
        };
        assert_eq!(row(209.0, None).holds, Some(true));
        assert_eq!(row(211.0, None).holds, Some(false));
        assert_eq!(row(211.0, Some(12.0)).holds, Some(true));
        assert_eq!(
            row(180.0, None).reason.as_deref(),
            Some("-10.0 % off the published value, 5 % allowed: the drive is another.")
        );
        let within =
            |value| Row::between("x", (92.0, 94.0), Estimated::new(value, Some(0.5)), "%", "why.");
        assert_eq!(
            (within(93.0).holds, within(91.6).holds, within(91.4).holds),
            (Some(true), Some(true), Some(false))
        );
    }

    #[test]
    fn json_has_the_promised_keys_and_six_digits() {
        let row =
            Row::compared("x", 200.0, Estimated::new(203.456_789, Some(1.0)), "IOPS", 0.05, "why.");
        let json = serde_json::to_string(&row).expect("a row is JSON");
        assert_eq!(
            json,
            concat!(
                r#"{"what":"x","published":200.0,"measured":203.457,"unit":"IOPS","holds":true,"#,
                r#""reason":"+1.7 % off the published value, 5 % allowed.","#,
                r#""low":202.457,"high":204.457}"#
            )
        );
        let row = Row::not_run("y", Published::Between(1.5, 2.0), "ratio", "not built yet.");
        let json = serde_json::to_value(&row).expect("a row is JSON");
        assert_eq!(
            (&json["published"], &json["measured"], &json["holds"]),
            (&"1.5 to 2".into(), &serde_json::Value::Null, &serde_json::Value::Null)
        );
    }

    #[test]
    fn figures_are_shown_with_the_digits_they_deserve() {
        let text = |value, half_width| {
            Row::unpublished("x", Estimated::new(value, half_width), "", "why.").measured_text()
        };
        assert_eq!(text(348.26, Some(1.72)), "348.3 ± 1.7");
        assert_eq!(text(1.0345, Some(0.01)), "1.034 ± 0.010");
        assert_eq!(text(-20.0, None), "-20.00");
        assert_eq!(Row::not_run("x", Published::Nothing, "", "why.").measured_text(), "–");
    }
}
