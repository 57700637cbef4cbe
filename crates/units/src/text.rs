//! Units as people write them: `4KiB`, `20TB`, `100ms`, `25%`.
//!
//! Parsing is strict and exact: a number, an optional decimal part, one unit, nothing else. A text
//! without an exact integer value in the base unit is refused, never rounded.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString};

use crate::{ByteSize, Nanos, Share};

/// The reason why a text is no quantity. The message names the text, what was expected and an
/// example.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum ParseUnitError {
    /// The text does not begin with a decimal number.
    #[error(
        "`{text}` does not start with a number; write a number and a unit, such as `{example}`"
    )]
    NoNumber { text: String, example: &'static str },
    /// The unit after the number is missing or unknown.
    #[error("`{text}` {}; expected {expected}, such as `{example}`", shown(unit))]
    UnknownUnit { text: String, unit: String, expected: &'static str, example: &'static str },
    /// The value is outside its range.
    #[error("`{text}` is out of range ({range}); write a value such as `{example}`")]
    OutOfRange { text: String, range: &'static str, example: &'static str },
    /// The value is finer than the base unit or too large.
    #[error(
        "`{text}` is not a whole number of {base} within range; write a value such as `{example}`"
    )]
    NotWhole { text: String, base: &'static str, example: &'static str },
}

fn shown(unit: &str) -> String {
    if unit.is_empty() {
        "has no unit".to_owned()
    } else {
        format!("has the unknown unit `{unit}`")
    }
}

/// The units of one kind of quantity, with their sizes in base units.
struct Family {
    units: &'static [(&'static str, u64)],
    expected: &'static str,
    base: &'static str,
    example: &'static str,
}

const BYTES: Family = Family {
    units: &[
        ("", 1),
        ("B", 1),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("K", 1 << 10),
        ("M", 1 << 20),
        ("G", 1 << 30),
        ("T", 1 << 40),
        ("KB", 1_000),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
    ],
    expected: "B, KiB, MiB, GiB, TiB (K, M, G, T are the same), kB, MB, GB, TB",
    base: "bytes",
    example: "4KiB",
};

const TIMES: Family = Family {
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("min", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ],
    expected: "ns, us, ms, s, min, h",
    base: "nanoseconds",
    example: "100ms",
};

const SHARES: Family =
    Family { units: &[("%", 10_000_000)], expected: "%", base: "billionths", example: "25%" };

/// A size such as `4KiB`, `1.5GiB`, `20TB` or a bare number of bytes. `K`, `M`, `G`, `T` alone are
/// the binary units, as fio and qemu read them.
///
/// # Errors
/// See [`ParseUnitError`].
pub fn parse_bytes(text: &str) -> Result<ByteSize, ParseUnitError> {
    parse(text, &BYTES).map(ByteSize::new)
}

/// A span of time such as `100ms`, `2.5s`, `30us`. The unit is never optional, except for `0`.
///
/// # Errors
/// See [`ParseUnitError`].
pub fn parse_nanos(text: &str) -> Result<Nanos, ParseUnitError> {
    if text == "0" { Ok(Nanos::ZERO) } else { parse(text, &TIMES).map(Nanos::from_ns) }
}

/// A share such as `25%` or `0.5%`.
///
/// # Errors
/// See [`ParseUnitError`].
pub fn parse_share(text: &str) -> Result<Share, ParseUnitError> {
    let out_of_range = || ParseUnitError::OutOfRange {
        text: text.to_string(),
        range: "0 % to 100 %",
        example: SHARES.example,
    };
    let billionths = parse(text, &SHARES)?;
    u32::try_from(billionths).ok().and_then(Share::from_billionths).ok_or_else(out_of_range)
}

fn parse(text: &str, family: &Family) -> Result<u64, ParseUnitError> {
    let number_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let unit = unit.strip_prefix(' ').unwrap_or(unit);
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || decimals.is_empty() || decimals.contains('.') {
        return Err(ParseUnitError::NoNumber { text: text.to_string(), example: family.example });
    }
    let per_unit = family
        .units
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, per_unit)| *per_unit)
        .ok_or_else(|| ParseUnitError::UnknownUnit {
            text: text.to_string(),
            unit: unit.to_string(),
            expected: family.expected,
            example: family.example,
        })?;
    exact(whole, decimals, per_unit).ok_or_else(|| ParseUnitError::NotWhole {
        text: text.to_string(),
        base: family.base,
        example: family.example,
    })
}

/// `whole.decimals × per_unit` as an integer, `None` when it is none or does not fit.
fn exact(whole: &str, decimals: &str, per_unit: u64) -> Option<u64> {
    let decimals = decimals.trim_end_matches('0');
    let scale = 10_u128.checked_pow(u32::try_from(decimals.len()).ok()?)?;
    let digits = whole
        .parse::<u128>()
        .ok()?
        .checked_mul(scale)?
        .checked_add(if decimals.is_empty() { 0 } else { decimals.parse().ok()? })?;
    let product = digits.checked_mul(u128::from(per_unit))?;
    if product % scale == 0 { u64::try_from(product / scale).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_sizes() {
        let cases = [
            ("512", 512),
            ("4KiB", 4096),
            ("4K", 4096),
            ("1.5GiB", 1_610_612_736),
            ("20TB", 20_000_000_000_000),
            ("16 MiB", 16 << 20),
            ("0", 0),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_bytes(text), Ok(ByteSize::new(bytes)), "{text}");
        }
    }

    #[test]
    fn refused_sizes() {
        for text in [
            "",
            "KiB",
            "-1",
            "4kib",
            "4 KiB ",
            "0.3",
            "1e3",
            "4,096",
            "99999999TiB",
            ".5K",
            "5.",
            "1.2.3K",
        ] {
            assert!(parse_bytes(text).is_err(), "{text:?} was accepted as {:?}", parse_bytes(text));
        }
    }

    #[test]
    fn accepted_and_refused_times() {
        for (text, ns) in [
            ("100ms", 100_000_000),
            ("2.5s", 2_500_000_000),
            ("30us", 30_000),
            ("1min", 60_000_000_000),
            ("0", 0),
        ] {
            assert_eq!(parse_nanos(text), Ok(Nanos::from_ns(ns)), "{text}");
        }
        for text in ["100", "1m", "ms", "0.5ns", "-3s", "6000000h"] {
            assert!(parse_nanos(text).is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn accepted_and_refused_shares() {
        assert_eq!(parse_share("25%"), Ok(Share::from_billionths(250_000_000).expect("a quarter")));
        assert_eq!(parse_share("0.5 %").map(Share::as_billionths), Ok(5_000_000));
        for text in ["101%", "25", "0.25", "-1%", "500%"] {
            assert!(parse_share(text).is_err(), "{text:?} was accepted");
        }
        let message = parse_share("101%").expect_err("more than the whole").to_string();
        assert_eq!(message, "`101%` is out of range (0 % to 100 %); write a value such as `25%`");
    }

    #[test]
    fn a_message_names_the_text_the_units_and_an_example() {
        let message = parse_share("30").expect_err("no unit").to_string();
        assert_eq!(message, "`30` has no unit; expected %, such as `25%`");
        let message = parse_nanos("5 fortnights").expect_err("no unit of ours").to_string();
        assert!(
            message.contains("5 fortnights") && message.contains("ms") && message.contains("100ms"),
            "{message}"
        );
    }
}
