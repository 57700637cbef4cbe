//! Angles and statistics that the experiments share: wrapping differences, medians, a small
//! least-squares fit.

/// A value further than this from the median, in deviations as computed by [`spread`], is an
/// outlier. With exponential noise, one in 600 is.
pub(crate) const FAR: f64 = 8.0;

/// The fraction of a revolution, from 0 up to but not including 1.
pub(crate) fn part(turns: f64) -> f64 {
    turns - libm::floor(turns)
}

/// The signed fraction of a revolution: from −0.5 up to but not including 0.5.
pub(crate) fn wrap(turns: f64) -> f64 {
    part(turns + 0.5) - 0.5
}

/// The median; 0 of no values.
pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value below which `share` of the values lie; 0 of no values.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = libm::floor(share * sorted.len() as f64) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// The standard deviation of normal noise, estimated from the median absolute deviation; robust
/// against outliers.
pub(crate) fn spread(values: &[f64]) -> f64 {
    let middle = median(values);
    1.4826 * median(&values.iter().map(|value| (value - middle).abs()).collect::<Vec<_>>())
}

/// The mean and its standard error; the error of fewer than two values is not known, and the mean
/// of none is 0.
pub(crate) fn mean(values: &[f64]) -> (f64, Option<f64>) {
    let count = values.len() as f64;
    if values.is_empty() {
        return (0.0, None);
    }
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (mean, (values.len() > 1).then(|| libm::sqrt(squares / (count - 1.0) / count)))
}

/// The mean without outliers, and its standard error. Delays of completions are often exponential:
/// their mean exceeds their median, and hardly any of them may be left out.
pub(crate) fn trimmed_mean(values: &[f64]) -> (f64, Option<f64>) {
    let (middle, allowed) = (median(values), FAR * spread(values));
    mean(
        &values
            .iter()
            .copied()
            .filter(|value| (value - middle).abs() <= allowed)
            .collect::<Vec<_>>(),
    )
}

/// Coefficients `x` that minimize `Σ (row · x − value)²`. A weight `prior[i]` pulls coefficient `i`
/// towards 0, so that one that the rows do not determine stays there.
pub(crate) fn min_squares<const N: usize>(rows: &[([f64; N], f64)], prior: [f64; N]) -> [f64; N] {
    let mut matrix = [[0.0; N]; N];
    let mut right = [0.0; N];
    for i in 0..N {
        matrix[i][i] = prior[i];
    }
    for (row, value) in rows {
        for i in 0..N {
            right[i] += row[i] * value;
            for j in 0..N {
                matrix[i][j] += row[i] * row[j];
            }
        }
    }
    // Gauss–Jordan elimination with the greatest pivot; a column without one is left at 0.
    for column in 0..N {
        let pivot = (column..N)
            .max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))
            .unwrap_or(column);
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        let divisor = matrix[column][column];
        if divisor.abs() < f64::MIN_POSITIVE {
            right[column] = 0.0;
            continue;
        }
        let (pivot_row, pivot_right) = (matrix[column], right[column]);
        for row in (0..N).filter(|row| *row != column) {
            let factor = matrix[row][column] / divisor;
            for j in 0..N {
                matrix[row][j] -= factor * pivot_row[j];
            }
            right[row] -= factor * pivot_right;
        }
    }
    core::array::from_fn(|i| {
        if matrix[i][i].abs() < f64::MIN_POSITIVE { 0.0 } else { right[i] / matrix[i][i] }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_of_turns_go_the_shorter_way() {
        assert!(
            (wrap(0.9) + 0.1).abs() < 1e-12
                && (wrap(-0.9) - 0.1).abs() < 1e-12
                && (part(-0.25) - 0.75).abs() < 1e-12
        );
    }

    #[test]
    fn medians_and_spreads_overlook_what_is_far_off() {
        let values = [1.0, 2.0, 3.0, 4.0, 1e9];
        assert_eq!(median(&values), 3.0);
        assert!((spread(&values) - 1.4826).abs() < 1e-9);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn means_have_an_error_from_two_values_on() {
        assert_eq!((mean(&[]), mean(&[5.0])), ((0.0, None), (5.0, None)));
        let (middle, error) = mean(&[1.0, 2.0, 3.0, 6.0]);
        // The standard deviation is 2.16, of four values.
        assert!(
            middle == 3.0 && error.is_some_and(|error| (error - 1.0801).abs() < 1e-4),
            "{error:?}"
        );
    }

    #[test]
    fn a_trimmed_mean_keeps_exponential_noise_and_leaves_outliers_out() {
        // Quantiles of an exponential distribution of mean 1, and some outliers.
        let mut values: Vec<f64> =
            (0..1_000).map(|n| -libm::log((f64::from(n) + 0.5) / 1_000.0)).collect();
        values.extend([50.0, 60.0, -40.0]);
        let (middle, error) = trimmed_mean(&values);
        assert!(
            (middle - 1.0).abs() < 0.02 && error.is_some_and(|error| (error - 0.031).abs() < 0.004),
            "{middle} {error:?}"
        );
    }

    #[test]
    fn a_plane_is_found_and_what_nothing_tells_stays_nought() {
        let rows: Vec<([f64; 3], f64)> =
            (0..20).map(|n| ([1.0, f64::from(n), 0.0], 2.0 + 0.5 * f64::from(n))).collect();
        let [constant, slope, untold] = min_squares(&rows, [1e-9; 3]);
        assert!((constant - 2.0).abs() < 1e-6 && (slope - 0.5).abs() < 1e-6 && untold == 0.0);
    }
}
