//! [`bars`] and [`stacks`]: one row for each policy, its name on the left, its figure on the right.

use super::{Axis, open, rectangle, straight, text, width_of};

#[derive(Clone, Debug)]
pub(crate) struct Bar {
    /// The class of its color.
    pub class: String,
    pub name: String,
    /// True for an oracle.
    pub oracle: bool,
    /// Its length.
    pub value: f64,
    /// The interval of that.
    pub range: Option<(f64, f64)>,
    /// The text after the bar.
    pub words: String,
}

/// One bar of several parts.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    pub name: String,
    /// True for an oracle.
    pub oracle: bool,
    /// Its parts, from the left.
    pub parts: Vec<Part>,
    /// The text after the bar.
    pub words: String,
}

/// One part of a bar.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// The class of its color.
    pub class: String,
    pub name: &'static str,
    /// Its length, as a share of one.
    pub share: f64,
}

/// Bars one below the other, from zero.
pub(crate) fn bars(title: &str, rows: &[Bar], alternative: &str) -> String {
    let axis = Axis::from_zero(
        title,
        rows.iter().flat_map(|row| [row.value, row.range.map_or(0.0, |(_, high)| high)]),
    );
    let left = names_end(rows.iter().map(|row| row.name.as_str()));
    let right = WIDTH - 14.0 - rows.iter().map(|row| width_of(&row.words)).fold(0.0, f64::max);
    let bottom = TOP + rows.len() as f64 * ROW;
    let mut out = open(WIDTH, bottom + 44.0, alternative);
    for (value, words) in axis.marks() {
        let along = axis.place(*value, left, right);
        out.push_str(&straight("grid", along, TOP - 4.0, along, bottom));
        out.push_str(&text("mark", along, bottom + 16.0, "middle", words));
    }
    out.push_str(&text("title", f64::midpoint(left, right), bottom + 36.0, "middle", axis.title()));
    for (place, row) in rows.iter().enumerate() {
        let top = TOP + place as f64 * ROW;
        let middle = top + BAR / 2.0;
        out.push_str(&text(name_class(row.oracle), left - 8.0, middle + 4.0, "end", &row.name));
        let end = axis.place(row.value, left, right);
        let hollow = if row.oracle { " hollow" } else { "" };
        out.push_str(&rectangle(
            &format!("bar {}{hollow}", row.class),
            left,
            top,
            end - left,
            BAR,
            &format!("{}: {}", row.name, row.words),
        ));
        let mut edge = end;
        if let Some((low, high)) = row.range {
            edge = edge.max(axis.place(high, left, right));
            out.push_str(&straight(
                "whisker",
                axis.place(low, left, right),
                middle,
                axis.place(high, left, right),
                middle,
            ));
        }
        out.push_str(&text("value", edge + 7.0, middle + 4.0, "start", &row.words));
    }
    out.push_str(&straight("axis", left, TOP - 4.0, left, bottom));
    out.push_str("</svg>\n");
    out
}

/// Bars of parts that add up to one, one below the other.
pub(crate) fn stacks(rows: &[Stack], alternative: &str) -> String {
    let left = names_end(rows.iter().map(|row| row.name.as_str()));
    let right = WIDTH - 14.0 - rows.iter().map(|row| width_of(&row.words)).fold(0.0, f64::max);
    let mut out = open(WIDTH, TOP + rows.len() as f64 * ROW + 4.0, alternative);
    for (place, row) in rows.iter().enumerate() {
        let top = TOP + place as f64 * ROW;
        let line = top + BAR / 2.0 + 4.0;
        out.push_str(&text(name_class(row.oracle), left - 8.0, line, "end", &row.name));
        let mut from = left;
        for part in &row.parts {
            let width = part.share * (right - left);
            let percent = format!("{:.0} %", part.share * 100.0);
            out.push_str(&rectangle(
                &format!("part {}", part.class),
                from,
                top,
                width,
                BAR,
                &format!("{}: {} {percent}", row.name, part.name),
            ));
            // Numbers are drawn only where they fit; the tooltip shows the others.
            if width > width_of(&percent) + 4.0 {
                out.push_str(&text(
                    &format!("inside {}", part.class),
                    from + width / 2.0,
                    line,
                    "middle",
                    &percent,
                ));
            }
            from += width;
        }
        out.push_str(&text("value", right + 7.0, line, "start", &row.words));
    }
    out.push_str("</svg>\n");
    out
}

fn names_end<'a>(names: impl Iterator<Item = &'a str>) -> f64 {
    names.map(width_of).fold(0.0, f64::max) + 14.0
}

fn name_class(oracle: bool) -> &'static str {
    if oracle { "name oracle" } else { "name" }
}

const WIDTH: f64 = 620.0;
const TOP: f64 = 14.0;
const ROW: f64 = 25.0;
const BAR: f64 = 18.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_ends_where_its_value_stands_and_nothing_lies_outside() {
        let bar = |value, words: &str| Bar {
            class: "p1".to_string(),
            name: "fcfs".to_string(),
            oracle: false,
            value,
            range: Some((value * 0.8, value * 1.2)),
            words: words.to_string(),
        };
        let svg = bars("requests/s", &[bar(100.0, "100"), bar(0.0, "0")], "test");
        assert_eq!((svg.matches("<rect").count(), svg.matches("whisker").count()), (2, 2));
        assert!(svg.contains("width=\"0\""), "nothing is shown as nothing: {svg}");
    }

    #[test]
    fn parts_are_numbered_where_there_is_room() {
        let part = |name, share| Part { class: "t0".to_string(), name, share };
        let row = Stack {
            name: "fcfs".to_string(),
            oracle: true,
            parts: vec![part("seek", 0.98), part("idle", 0.02)],
            words: "5 ms".to_string(),
        };
        let svg = stacks(&[row], "test");
        assert!(
            svg.contains(">98 %</text>")
                && !svg.contains(">2 %</text>")
                && svg.contains("idle 2 %</title>"),
            "{svg}"
        );
    }
}
