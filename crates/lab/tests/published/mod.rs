//! The table of published figures, `figures.txt`: where each of them stands, or what it is computed
//! from.

use std::collections::BTreeSet;

/// The table of this folder.
pub(crate) const TABLE: &str = include_str!("figures.txt");

/// One line: an experiment, figures of its rows, and their origin.
pub(crate) struct Line<'a> {
    pub(crate) id: &'a str,
    pub(crate) figures: Vec<&'a str>,
    /// Words of the paper, or `=` and a formula for each number.
    origin: &'a str,
}

/// The lines of a table.
///
/// # Panics
/// If one has no three parts.
pub(crate) fn lines(table: &str) -> Vec<Line<'_>> {
    let written = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let parts = |line| {
        let parts: Vec<&str> = str::splitn(line, 3, "; ").collect();
        let [id, figures, origin] = parts[..] else {
            panic!("`{line}` is not id; figures; origin")
        };
        Line { id, figures: figures.split(", ").collect(), origin }
    };
    written.map(parts).collect()
}

/// The faults of a table: numbers that neither their quotation contains nor their formula gives,
/// and quotations that are not in the text of their paper. `text` returns none for a paper that is
/// not at hand.
pub(crate) fn faults(table: &str, text: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let lines = lines(table);
    let mut faults = Vec::new();
    for Line { id, figures, origin } in &lines {
        let required: Vec<f64> = figures.iter().flat_map(|figure| numbers_of(figure)).collect();
        if let Some(formulas) = origin.strip_prefix("= ") {
            let quoted: BTreeSet<String> = lines
                .iter()
                .filter(|line| line.id == *id && !line.origin.starts_with('='))
                .flat_map(|line| line.figures.iter().map(ToString::to_string))
                .chain(["1".to_string()])
                .collect();
            let given: Vec<Option<f64>> =
                formulas.split(", ").map(|formula| computed(formula, &quoted)).collect();
            let agree = required.len() == given.len()
                && required.iter().zip(&given).all(|(required, given)| {
                    given.is_some_and(|given| (required - given).abs() < 6e-4)
                });
            if !agree {
                faults.push(format!("{id}: {figures:?} is not {formulas}: {given:?}"));
            }
            continue;
        }
        let there = numbers(origin);
        let is_there = |number: &f64| {
            let close = |other: &f64| (other.abs() - number.abs()).abs() < 1e-9;
            there.iter().any(|other| close(other) || close(&(other / 100.0)))
        };
        if !required.iter().all(is_there) {
            faults.push(format!("{id}: {figures:?} is not in `{origin}`"));
        }
        if text(id).is_some_and(|text| !words(&text).contains(&words(origin))) {
            faults.push(format!("{id}: `{origin}` is not in the text"));
        }
    }
    faults
}

/// Returns true if the table has this figure of this experiment.
pub(crate) fn lists(table: &str, id: &str, figure: &str) -> bool {
    lines(table).iter().any(|line| line.id == id && line.figures.contains(&figure))
}

/// The numbers of a figure; none of one in words, which is a paraphrase.
fn numbers_of(figure: &str) -> Vec<f64> {
    let figure = figure.trim_start_matches("at most ").trim_start_matches("at least ");
    figure.split(" to ").filter_map(|number| number.parse().ok()).collect()
}

/// The value of `a / b - c` or `a / b`, with `a` and `b` among `quoted`.
fn computed(formula: &str, quoted: &BTreeSet<String>) -> Option<f64> {
    let (ratio, less) = formula.split_once(" - ").unwrap_or((formula, "0"));
    let (above, below) = ratio.split_once(" / ")?;
    let known = |text: &str| quoted.contains(text).then(|| text.parse::<f64>().ok()).flatten();
    Some(known(above)? / known(below)? - less.parse::<f64>().ok()?)
}

/// All numbers in a text, without their signs.
fn numbers(text: &str) -> Vec<f64> {
    let in_words = [("10^{-6}", "0.000001"), ("twice", "2"), ("twenty", "20"), ("forty", "40")];
    let text =
        in_words.iter().fold(text.to_string(), |text, (words, number)| text.replace(words, number));
    let mut without_separators = String::new();
    let characters: Vec<char> = text.chars().collect();
    for (at, character) in characters.iter().enumerate() {
        let digit = |at: Option<&char>| at.is_some_and(char::is_ascii_digit);
        let between = at > 0 && digit(characters.get(at - 1)) && digit(characters.get(at + 1));
        if *character != ',' || !between {
            without_separators.push(*character);
        }
    }
    without_separators
        .split(|character: char| !character.is_ascii_digit() && character != '.')
        .filter_map(|part| part.trim_matches('.').parse().ok())
        .collect()
}

/// The text with one space for each run of white space.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
