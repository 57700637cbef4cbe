//! [`Report`]: what came out of an experiment, beside what was published.
//!
//! A [`Row`] is one figure with a [`RowVerdict`]: reproduced, not reproduced or inconclusive,
//! within a tolerance printed beside it. Where it is not reproduced, or where there is nothing to
//! compare, it says why. A [`Plot`] shows the same figures; text, JSON, CSV, SVG and HTML are made
//! from nothing else.

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use crate::papers::verdict::{Judged, Measured, RowVerdict};

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
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The subject of the figure; contains "oracle" if the drive's truth was known, and the noise
    /// of the drive.
    pub what: String,
    /// The published figure.
    pub published: Published,
    /// The measured figure; `None` if it could not be run.
    pub measured: Option<f64>,
    /// The unit of both.
    pub unit: &'static str,
    /// The agreement of the two; `None` if there is nothing to compare.
    pub verdict: Option<RowVerdict>,
    /// The tolerance of the verdict, with its reason.
    pub tolerance: Option<String>,
    /// A sentence; always there when the figure is not reproduced.
    pub reason: Option<String>,
    /// Lower end of the 95 % interval of `measured`.
    pub low: Option<f64>,
    /// Upper end of the 95 % interval of `measured`.
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
    /// Nothing above it. JSON: a text, "at most 5".
    AtMost(f64),
    /// Nothing below it. JSON: a text, "at least 5".
    AtLeast(f64),
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
    pub fn new(parameters: Vec<FixedParameter>, notes: Vec<String>, plot: Plot) -> Self {
        Self { parameters, notes, plot, rows: Vec::new() }
    }

    /// Adds a fixed parameter.
    pub fn add_parameter(&mut self, name: &'static str, value: impl Into<String>) {
        self.parameters.push(FixedParameter::new(name, value));
    }

    /// Adds a panel to the plot.
    pub fn add_panel(&mut self, title: impl Into<String>, series: Vec<Series>) {
        self.plot.panels.push(Panel { title: title.into(), series });
    }
}

impl Plot {
    /// A plot without panels yet.
    pub fn new(x_label: &'static str, y_label: &'static str, x_axis: Axis) -> Self {
        Self { x_label, y_label, x_axis, panels: Vec::new() }
    }
}

impl Series {
    /// A line that was measured here.
    pub fn measured(name: impl Into<String>, points: Vec<Point>) -> Self {
        Self { name: name.into(), published: false, points }
    }

    /// A line that was published.
    pub fn published(name: impl Into<String>, points: Vec<Point>) -> Self {
        Self { name: name.into(), published: true, points }
    }
}

impl Row {
    /// A figure with its verdict. `why_not` is the sentence for when it is not reproduced.
    pub fn new(what: impl Into<String>, unit: &'static str, judged: Judged, why_not: &str) -> Self {
        let reason = judged.sentence(why_not);
        Self {
            verdict: Some(judged.verdict),
            tolerance: Some(judged.tolerance),
            reason,
            ..Self::of(what, judged.published, judged.measured, unit)
        }
    }

    /// A figure without a published counterpart, and the reason for it.
    pub fn unpublished(
        what: impl Into<String>,
        measured: impl Into<Measured>,
        unit: &'static str,
        reason: &str,
    ) -> Self {
        let row = Self::of(what, Published::Nothing, measured.into(), unit);
        Self { reason: Some(reason.to_string()), ..row }
    }

    /// A published figure that no run can confirm or refute, and why.
    pub fn not_judged(
        what: impl Into<String>,
        published: Published,
        measured: impl Into<Measured>,
        unit: &'static str,
        reason: &str,
    ) -> Self {
        Self { published, ..Self::unpublished(what, measured, unit, reason) }
    }

    /// A published figure that cannot be run, and why.
    pub fn not_run(
        what: impl Into<String>,
        published: Published,
        unit: &'static str,
        reason: &str,
    ) -> Self {
        let nothing = Measured { value: 0.0, interval: None };
        let row = Self::of(what, published, nothing, unit);
        Self { measured: None, reason: Some(reason.to_string()), ..row }
    }

    fn of(
        what: impl Into<String>,
        published: Published,
        measured: Measured,
        unit: &'static str,
    ) -> Self {
        let (low, high) = measured.interval.unzip();
        Self {
            what: what.into(),
            published,
            measured: Some(measured.value),
            unit,
            verdict: None,
            tolerance: None,
            reason: None,
            low: low.filter(|end| end.is_finite()),
            high: high.filter(|end| end.is_finite()),
        }
    }

    /// True if the figure is reproduced, `None` if there is nothing to compare.
    pub fn holds(&self) -> Option<bool> {
        self.verdict.map(|verdict| verdict == RowVerdict::Reproduced)
    }

    /// The verdict in tables.
    pub fn verdict_text(&self) -> &'static str {
        self.verdict.map_or("–", RowVerdict::words)
    }

    /// The measured figure with its interval as text; "–" if there is none.
    pub fn measured_text(&self) -> String {
        let Some(value) = self.measured else { return "–".to_string() };
        // As many digits as three significant ones take.
        let decimals = match value.abs() {
            size if size >= 100.0 => 1,
            size if size >= 10.0 => 2,
            _ => 3,
        };
        let within = match (self.low, self.high) {
            (Some(low), Some(high)) if low == high => String::new(),
            (Some(low), Some(high)) => {
                let (below, above) =
                    [value - low, high - value].map(|width| format!("{width:.decimals$}")).into();
                if below == above {
                    format!(" ± {above}")
                } else {
                    format!(" +{above} −{below}")
                }
            }
            _ => String::new(),
        };
        format!("{value:.decimals$}{within}")
    }

    /// Checks what every row promises.
    ///
    /// # Panics
    /// When the experiment that made it forgot a reason or measured no number: a fault of that
    /// experiment.
    pub(crate) fn check(&self) {
        assert!(
            self.holds() == Some(true) || self.reason.is_some(),
            "row `{}` is not reproduced and says no reason",
            self.what
        );
        assert!(
            self.measured.is_none_or(f64::is_finite),
            "row `{}` measured {:?}",
            self.what,
            self.measured
        );
        assert!(
            self.verdict.is_none() || self.measured.is_some(),
            "row `{}` is compared without a measurement",
            self.what
        );
    }
}

impl Published {
    /// As text; "–" for nothing.
    pub fn text(&self) -> String {
        match self {
            Self::Nothing => "–".to_string(),
            Self::Number(number) => number.to_string(),
            Self::Between(least, most) => format!("{least} to {most}"),
            Self::AtMost(limit) => format!("at most {limit}"),
            Self::AtLeast(limit) => format!("at least {limit}"),
            Self::Shape(words) => (*words).to_string(),
        }
    }
}

impl Serialize for Published {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nothing => serializer.serialize_none(),
            Self::Number(number) => serializer.serialize_f64(*number),
            Self::Between(..) | Self::AtMost(_) | Self::AtLeast(_) | Self::Shape(_) => {
                serializer.serialize_str(&self.text())
            }
        }
    }
}

impl Point {
    /// A point of a figure.
    pub fn of(x: f64, y: impl Into<Measured>) -> Self {
        let y = y.into();
        let (low, high) = y.interval.unzip();
        let finite = |end: Option<f64>| end.filter(|end| end.is_finite());
        Self { x, y: y.value, low: finite(low), high: finite(high) }
    }

    /// A published point.
    pub const fn published(x: f64, y: f64) -> Self {
        Self { x, y, low: None, high: None }
    }
}

impl FixedParameter {
    /// A parameter with its value as text.
    pub fn new(name: &'static str, value: impl Into<String>) -> Self {
        Self { name, value: value.into() }
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_struct("Row", 10)?;
        row.serialize_field("what", &self.what)?;
        row.serialize_field("published", &self.published)?;
        row.serialize_field("measured", &six_digits(self.measured))?;
        row.serialize_field("unit", &self.unit)?;
        row.serialize_field("verdict", &self.verdict)?;
        row.serialize_field("holds", &self.holds())?;
        row.serialize_field("tolerance", &self.tolerance)?;
        row.serialize_field("reason", &self.reason)?;
        row.serialize_field("low", &six_digits(self.low))?;
        row.serialize_field("high", &six_digits(self.high))?;
        row.end()
    }
}

/// Figures have six significant digits, which is more than their precision.
fn six_digits(value: Option<f64>) -> Option<f64> {
    // A number written with six digits reads back as a number.
    value.map(|value| format!("{value:.5e}").parse::<f64>().unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::estimated::Estimated;

    #[test]
    fn a_row_is_judged_by_its_whole_interval() {
        let row = |value, half_width| {
            let judged = Judged::effect(200.0, Estimated::new(value, half_width), 10.0, "guess");
            Row::new("x", "IOPS", judged, "the drive is another.")
        };
        for (value, half_width, expected) in [
            (205.0, Some(4.0), RowVerdict::Reproduced),
            (209.0, Some(4.0), RowVerdict::Inconclusive),
            (200.0, Some(12.0), RowVerdict::Inconclusive),
            (205.0, None, RowVerdict::Inconclusive),
            (215.0, Some(4.0), RowVerdict::NotReproduced),
        ] {
            assert_eq!(row(value, half_width).verdict, Some(expected), "{value}, {half_width:?}");
        }
        let wrong = row(180.0, Some(4.0));
        assert_eq!(
            wrong.reason.as_deref(),
            Some("-20 off the published value: the drive is another.")
        );
        assert_eq!(wrong.tolerance.as_deref(), Some("± 10 (guess)"));
    }

    #[test]
    fn json_has_the_promised_keys_and_six_digits() {
        let row = Row::new(
            "x",
            "IOPS",
            Judged::effect(200.0, Estimated::new(203.456_789, Some(1.0)), 10.0, "guess"),
            "why.",
        );
        let json = serde_json::to_string(&row).expect("a row is JSON");
        assert_eq!(
            json,
            concat!(
                r#"{"what":"x","published":200.0,"measured":203.457,"unit":"IOPS","#,
                r#""verdict":"reproduced","holds":true,"#,
                r#""tolerance":"± 10 (guess)","reason":null,"#,
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
        let proportion = Row::unpublished("x", Measured::proportion(1, 10), "", "why.");
        assert_eq!(proportion.measured_text(), "0.100 +0.345 −0.097");
        assert_eq!(
            Row::unpublished("x", Measured::exact(2.0), "", "why.").measured_text(),
            "2.000"
        );
        assert_eq!(Row::not_run("x", Published::Nothing, "", "why.").measured_text(), "–");
    }
}
